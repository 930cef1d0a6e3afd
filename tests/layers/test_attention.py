"""Attention against torch's, against its formula, against itself with caches."""

import math

import pytest
import torch
from torch import nn

from atento.core.cache import EvictingCache, GrowingCache, StaticCache
from atento.core.masks import Causal, Prefix, Window
from atento.core.positions import Positions
from atento.core.rotary import Rotary
from atento.core.scores import Cosine
from atento.core.tables import Dense, Padding
from atento.core.tap import Tap, tapped
from atento.layers.attention import Attention
from atento.layers.biases import T5Table
from layers.twins import TOLERANCE, Seen, fill, fill_attention

G = torch.Generator().manual_seed(1)
X = torch.randn(2, 7, 15, dtype=torch.float64, generator=G)
CONTEXT = torch.randn(2, 11, 15, dtype=torch.float64, generator=G)


def attention(**options) -> Attention:
    torch.manual_seed(0)
    return Attention(15, 3, **options).double()


def close(a, b) -> None:
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


# ------------------------------------------------------------------ projections


def test_projections_have_shapes_dk_dk_dv_and_a_bias_switch():
    module = attention(head_width=4, kv_heads=1, biased=True)
    assert module.query(X).shape == (2, 7, 3 * 4)
    k, v = module.keys_values(X)
    assert k.shape == v.shape == (2, 1, 7, 4)
    assert module(X).shape == X.shape
    names = {name for name, _ in module.named_parameters()}
    assert {n for n in names if n.endswith("bias")} == {
        f"{p}.bias" for p in ("query", "key", "value", "out")
    }
    linear = attention(biased=False)
    assert not [n for n, _ in linear.named_parameters() if n.endswith("bias")]
    # Linear, not affine: no bias means that zero goes to zero.
    assert (linear.query(torch.zeros_like(X)) == 0).all()


# ------------------------------------------------------------------ torch's own


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_attention_equals_torchs_multi_head_attention(kind, padded, biased):
    theirs = nn.MultiheadAttention(15, 3, bias=biased, batch_first=True).double()
    if biased:
        nn.init.normal_(theirs.in_proj_bias)
    ours = fill_attention(attention(biased=biased), theirs)
    keys = CONTEXT if kind == "cross" else X
    lengths = torch.tensor([keys.shape[1], 4])
    mask, their_mask, their_pads = None, None, None
    if kind == "causal":
        mask, their_mask = Causal(), torch.ones(7, 7).triu(1).bool()  # True means *masked* there
    if padded:
        mask = Padding(lengths) if mask is None else mask & Padding(lengths)
        their_pads = torch.arange(keys.shape[1]) >= lengths[:, None]
    expected, _ = theirs(X, keys, keys, attn_mask=their_mask, key_padding_mask=their_pads)
    close(ours(X, CONTEXT if kind == "cross" else None, mask=mask), expected)


def test_attention_has_torchs_gradients_too():
    theirs = nn.MultiheadAttention(15, 3, batch_first=True).double()
    ours = fill_attention(attention(), theirs)
    causal = torch.ones(7, 7).triu(1).bool()
    theirs(X, X, X, attn_mask=causal)[0].square().sum().backward()
    ours(X, mask=Causal()).square().sum().backward()
    packed = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    close(packed, theirs.in_proj_weight.grad)
    close(ours.out.weight.grad, theirs.out_proj.weight.grad)


def test_a_context_of_another_width_equals_torchs_kdim_and_vdim():
    theirs = nn.MultiheadAttention(15, 3, kdim=5, vdim=5, batch_first=True).double()
    ours = fill_attention(attention(context_width=5), theirs)
    narrow = CONTEXT[..., :5]
    close(ours(X, narrow), theirs(X, narrow, narrow)[0])


# ------------------------------------------------------------------ the lectures


def test_attention_reproduces_the_worked_example_of_lecture_003():
    """(Life, is, awesome), h = 2, d_k = 2, causal, W_O = I: weights and output as printed there."""
    wq = [[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]]
    wk = [[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1], [0, 1, 1, 0]]
    wv = [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 0], [0, 1, 0, 1]]
    x = torch.tensor([[[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 1]]], dtype=torch.float64)
    module = Attention(4, 2, biased=False).double()
    for linear, w in ((module.query, wq), (module.key, wk), (module.value, wv)):
        fill(linear, torch.tensor(w).T, None)
    fill(module.out, torch.eye(4), None)
    seen = Seen()
    with tapped(module, seen):
        out = module(x, mask=Causal())
    a1 = [[1, 0, 0], [0.670, 0.330, 0], [0.102, 0.050, 0.848]]
    a2 = [[1, 0, 0], [0.330, 0.670, 0], [0.050, 0.102, 0.848]]
    printed = [[2, 1, 1, 1], [1.670, 1.330, 1.670, 0.330], [1.102, 1.898, 1.102, 1.747]]
    weights = torch.tensor([[a1, a2]], dtype=torch.float64)
    torch.testing.assert_close(seen.all_weights[0], weights, atol=5e-4, rtol=0)
    expected = torch.tensor([printed], dtype=torch.float64)
    torch.testing.assert_close(out, expected, atol=1e-3, rtol=0)  # 1.7465 is printed as 1.747


@pytest.mark.parametrize("options", [{}, {"rotary": Rotary.standard(4), "head_width": 5}])
@pytest.mark.parametrize("token", [0, 3, 6])
def test_changing_a_token_leaves_earlier_outputs_bit_identical(token, options):
    module = attention(**options)
    other = X.clone()
    other[:, token] += 1
    before, after = module(X, mask=Causal()), module(other, mask=Causal())
    assert torch.equal(before[:, :token], after[:, :token])
    assert (before[:, token:] != after[:, token:]).any(-1).all()


def test_cross_attention_takes_another_number_of_keys():
    module = attention()
    out = module(X, CONTEXT)
    assert out.shape == (2, 7, 15)
    # Token by token: each query alone, over all eleven keys.
    alone = torch.cat([module(X[:, i : i + 1], CONTEXT) for i in range(7)], 1)
    close(out, alone)
    close(module(X, module.keys_values(CONTEXT)), out)


def test_weights_are_convex_combinations():
    seen = Seen()
    module = attention()
    with tapped(module, seen):
        module(X, mask=Causal())
        module(X, CONTEXT, mask=Padding(torch.tensor([5, 11])))
    for weights in seen.all_weights:
        assert (weights >= 0).all()
        close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_each_head_scores_by_a_metric_of_its_own():
    module, seen = attention(biased=False), Seen()
    with tapped(module, seen):
        module(X)
    for h in range(3):
        wq, wk = (m.weight[5 * h : 5 * h + 5].T for m in (module.query, module.key))
        metric = wq @ wk.T / math.sqrt(5)
        close(seen.all_scores[0][:, h], X @ metric @ X.mT)


@pytest.mark.parametrize("pads", [1, 4, 13])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("variant", ["plain", "rotary", "grouped", "t5"])
def test_the_number_of_pads_does_not_change_the_other_tokens(variant, side, pads):
    module = variant_of(variant)
    junk = torch.full((2, pads, 15), 3.0, dtype=torch.float64)
    if side == "right":
        padded = module(torch.cat([X, junk], 1), mask=Causal() & Padding(torch.tensor([7, 7])))
        real = padded[:, :7]
    else:
        place = torch.cat([torch.full((pads,), -1), torch.arange(7)])
        padded = module(torch.cat([junk, X], 1), mask=Causal(), at=Positions(place, place))
        real = padded[:, pads:]
    close(real, module(X, mask=Causal()))


# ------------------------------------------------------------------ variants


def test_grouped_queries_equal_repeated_heads():
    torch.manual_seed(0)
    grouped = Attention(14, 6, kv_heads=2, head_width=5, normed=True).double()
    full = Attention(14, 6, head_width=5, normed=True).double()
    state = grouped.state_dict()
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        per_head = state[name].unflatten(0, (2, 5))
        state[name] = per_head.repeat_interleave(3, 0).flatten(0, 1)
    full.load_state_dict(state)
    x = X[..., :14]
    close(grouped(x, mask=Causal()), full(x, mask=Causal()))


def test_qk_norm_makes_scores_blind_to_the_length_of_queries_and_keys():
    module, seen = attention(normed=True, biased=False), Seen()
    with torch.no_grad():
        nn.init.normal_(module.query_norm.weight)
        with tapped(module, seen):
            module(X)
            module(1000 * X)
    torch.testing.assert_close(*seen.all_scores, atol=1e-3, rtol=0)  # ε alone tells them apart
    q = module.query(X).view(2, 7, 3, 5).transpose(1, 2)
    k = module.key(X).view(2, 7, 3, 5).transpose(1, 2)
    q, k = (z / (z.square().mean(-1, keepdim=True) + 1e-6).sqrt() for z in (q, k))
    close(seen.all_scores[0], (q * module.query_norm.weight) @ k.mT / math.sqrt(5))


def test_rotary_scores_depend_on_the_distance_only():
    module, seen = attention(rotary=Rotary.standard(4)), Seen()
    places = torch.arange(7)
    with tapped(module, seen):
        module(X)
        module(X, at=Positions(places + 1009, places + 1009))
    torch.testing.assert_close(*seen.all_scores, atol=1e-11, rtol=0)


def test_any_score_of_the_door_can_be_used():
    module, seen = attention(score=Cosine(scale=2.0)), Seen()
    with tapped(module, seen):
        module(X)
    assert seen.all_scores[0].abs().max() <= 2
    assert not torch.equal(module(X), attention()(X))


def test_dropout_is_on_the_weights_and_for_training_only():
    module = attention(dropout=0.5)
    assert not torch.equal(module(X), module(X))
    module.eval()
    assert torch.equal(module(X), attention()(X))
    # Each draw is unbiased: the mean of many comes near the output without dropout.
    module.train()
    many = module(X.repeat(4001, 1, 1)).unflatten(0, (4001, 2))
    error = 5 * many.std(0) / 4001**0.5
    assert ((many.mean(0) - attention()(X)).abs() <= error).all()


# ------------------------------------------------------------------ caches

CACHES = {
    "growing": (GrowingCache, Causal()),
    "static": (lambda: StaticCache(13), Causal()),
    "evicting": (lambda: EvictingCache(3), Window(2)),
    "sinks": (lambda: EvictingCache(3, 2), Causal() & (Window(2) | Prefix(2))),
}
VARIANTS = ("plain", "rotary", "grouped", "t5")


def variant_of(name: str) -> Attention:
    rotary = Rotary.standard(4)
    options = {
        "plain": {},
        "rotary": {"rotary": rotary},
        "grouped": {"kv_heads": 1, "normed": True, "rotary": rotary},
        "t5": {"bias": T5Table(3)},
    }
    return attention(**options[name])


STEPS = ((1,) * 7, (4, 1, 1, 1), (3, 4), (7,))


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CACHES)
def test_cached_equals_uncached(name, variant, steps):
    make, mask = CACHES[name]
    module, cache = variant_of(variant), make()
    parts = [module(part, mask=mask, cache=cache) for part in X.split(list(steps), 1)]
    close(torch.cat(parts, 1), module(X, mask=mask))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CACHES)
def test_cached_equals_uncached_in_left_padded_batches(name, variant):
    make, mask = CACHES[name]
    module, cache = variant_of(variant), make()
    places = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [-1, -1, -1, 0, 1, 2, 3]])
    whole = module(X, mask=mask, at=Positions(places, places))
    first = Positions(places[:, :5], places[:, :5])
    parts = [module(X[:, :5], mask=mask, at=first, cache=cache)]
    # Afterwards the cache knows where each sequence goes on.
    parts += [module(X[:, n : n + 1], mask=mask, cache=cache) for n in (5, 6)]
    close(torch.cat(parts, 1), whole)
    # And the padded sequence is what it is alone.
    close(whole[1:, 3:], module(X[1:, 3:], mask=mask))


@pytest.mark.parametrize("start", [5, torch.tensor([5, 5])])
def test_a_cache_can_start_anywhere(start):
    module = attention(rotary=Rotary.standard(4))
    out = module(X, mask=Causal(), at=start, cache=EvictingCache(13))
    close(out, module(X, mask=Causal()))


# ------------------------------------------------------------------ being a module


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_state_dict_goes_round(variant):
    first, second = variant_of(variant), variant_of(variant)
    for p in first.parameters():
        nn.init.normal_(p)
    assert not torch.equal(first(X), second(X))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(X), second(X))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_module_computes_in_the_dtype_that_it_is_moved_to(variant, dtype):
    module = variant_of(variant)
    exact = module(X, mask=Causal())
    out = module.to(dtype)(X.to(dtype), mask=Causal())
    assert out.dtype == dtype
    # Inputs, weights and five roundings on the way, each of half a unit in numbers up to 4.
    assert (out - exact).abs().max() < 40 * torch.finfo(dtype).eps


def test_autocast_raises_no_warning():
    module = attention(normed=True, rotary=Rotary.standard(4)).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert module(X.float(), mask=Causal()).dtype == torch.bfloat16


@pytest.mark.parametrize("variant", ["plain", "grouped"])
def test_gradients_agree_with_finite_differences(variant):
    module = variant_of(variant)
    x = X[:1, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: module(x, mask=Causal()), x)


def test_a_token_that_may_attend_to_nothing_gets_the_output_bias():
    module = attention()
    out = module(X, mask=Dense(torch.zeros(7, 7, dtype=torch.bool)))
    close(out, module.out.bias.expand_as(out))


def test_each_attention_has_a_slot_with_its_name_and_taps_see_every_call():
    model = nn.ModuleDict({"low": attention(), "high": nn.ModuleList([attention(), attention()])})
    seen = Seen()
    assert all(module.tap is None for module in model.modules() if isinstance(module, Attention))
    with tapped(model, seen):
        x = model["low"](X, mask=Causal())
        for module in model["high"]:
            x = module(x, CONTEXT)
        model["low"](x, mask=Causal())
    assert seen.names == ["low", "high.0", "high.1", "low"]
    assert seen.counts == [0, 0, 0, 1]
    assert seen.masks[0] == Causal()
    assert all(module.tap is None for module in model.modules() if isinstance(module, Attention))


def test_a_tap_can_switch_a_head_off():
    class Off(Tap):
        def output(self, site, out):
            return out * torch.tensor([1.0, 0.0, 1.0], dtype=out.dtype)[:, None, None]

    module = attention()
    with tapped(module, Off()):
        tapped_out = module(X)
    with torch.no_grad():
        module.out.weight[:, 5:10] = 0
    close(tapped_out, module(X))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kv_heads": 2}, "kv_heads must divide heads; got heads=3, kv_heads=2"),
        ({"heads": 4}, "heads must divide width; got width=15, heads=4"),
    ],
)
def test_sizes_that_do_not_go_together_are_named(options, says):
    with pytest.raises(ValueError, match=says):
        Attention(**({"width": 15, "heads": 3} | options))


def test_inputs_that_do_not_fit_are_named():
    module = attention()
    with pytest.raises(ValueError, match=r"x must be .* \[B, N, 15\]; got \[7, 15\]"):
        module(X[0])
    with pytest.raises(ValueError, match=r"context must be .* \[B, N, 15\]; got \[2, 11, 14\]"):
        module(X, CONTEXT[..., 1:])
    with pytest.raises(ValueError, match="cache is for self-attention"):
        module(X, CONTEXT, cache=GrowingCache())
