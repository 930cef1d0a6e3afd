"""Blocks against torch's layers."""

import pytest
import torch
from torch import nn

from atento.core.cache import GrowingCache
from atento.core.masks import Causal
from atento.core.positions import Positions
from atento.core.rotary import Rotary
from atento.core.tables import Padding
from atento.core.tap import tapped
from atento.layers.attention import Attention
from atento.layers.biases import T5Table
from atento.layers.block import Block
from atento.layers.feedforward import FeedForward, Gated
from atento.layers.norm import LayerNorm, RMSNorm
from atento.layers.residual import PostNorm, PreNorm
from layers.twins import TOLERANCE, Seen, fill_block

G = torch.Generator().manual_seed(1)
X = torch.randn(2, 7, 15, dtype=torch.float64, generator=G)
CONTEXT = torch.randn(2, 11, 15, dtype=torch.float64, generator=G)
LENGTHS, CONTEXT_LENGTHS = torch.tensor([7, 4]), torch.tensor([5, 11])
FUTURE = torch.ones(7, 7).triu(1).bool()  # True means *masked* in torch.nn
PADS = torch.arange(7) >= LENGTHS[:, None]
CONTEXT_PADS = torch.arange(11) >= CONTEXT_LENGTHS[:, None]
MASKS = {
    "none": (None, None, None),
    "causal": (Causal(), FUTURE, None),
    "padding": (Padding(LENGTHS), None, PADS),
    "both": (Causal() & Padding(LENGTHS), FUTURE, PADS),
}
RESIDUALS = {True: PreNorm, False: PostNorm}


def block(norm_first: bool, *, cross: bool = False, activation: nn.Module | None = None) -> Block:
    torch.manual_seed(0)
    return Block(
        Attention(15, 3),
        FeedForward(15, 17, activation=activation),
        lambda: RESIDUALS[norm_first](LayerNorm(15)),
        cross=Attention(15, 3) if cross else None,
    ).double()


def torchs(kind: type, norm_first: bool, activation: str = "gelu") -> nn.Module:
    torch.manual_seed(0)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    return kind(15, 3, 17, activation=activation, **options).double()


def close(a, b) -> None:
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


def _compare_with_encoder_layer(norm_first: bool, name: str, training: bool) -> None:
    mask, their_mask, their_pads = MASKS[name]
    theirs = torchs(nn.TransformerEncoderLayer, norm_first).train(training)
    ours = fill_block(block(norm_first), theirs).train(training)
    mine, its = X.clone().requires_grad_(), X.clone().requires_grad_()
    expected = theirs(its, src_mask=their_mask, src_key_padding_mask=their_pads)
    out = ours(mine, mask=mask)
    close(out, expected)
    out.square().mean().backward()
    expected.square().mean().backward()
    close(mine.grad, its.grad)
    close(ours.feedforward.up.weight.grad, theirs.linear1.weight.grad)
    close(ours.attention.out.weight.grad, theirs.self_attn.out_proj.weight.grad)
    close(ours.attention_residual.norm.weight.grad, theirs.norm1.weight.grad)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_pre_norm_block_equals_torchs_encoder_layer(name, training):
    _compare_with_encoder_layer(True, name, training)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_post_norm_block_equals_torchs_encoder_layer(name, training):
    _compare_with_encoder_layer(False, name, training)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_decoder_block_equals_torchs_decoder_layer(name, norm_first):
    mask, their_mask, their_pads = MASKS[name]
    theirs = torchs(nn.TransformerDecoderLayer, norm_first, "relu")
    ours = fill_block(block(norm_first, cross=True, activation=nn.ReLU()), theirs)
    mine, its = CONTEXT.clone().requires_grad_(), CONTEXT.clone().requires_grad_()
    expected = theirs(
        X,
        its,
        tgt_mask=their_mask,
        tgt_key_padding_mask=their_pads,
        memory_key_padding_mask=CONTEXT_PADS,
    )
    out = ours(X, mine, mask=mask, context_mask=Padding(CONTEXT_LENGTHS))
    close(out, expected)
    out.square().mean().backward()
    expected.square().mean().backward()
    close(mine.grad, its.grad)
    close(ours.cross.out.weight.grad, theirs.multihead_attn.out_proj.weight.grad)


@pytest.mark.parametrize("norm_first", [True, False])
def test_zero_sublayers_give_x_in_pre_norm_and_its_norm_in_post_norm(norm_first):
    module = block(norm_first)
    for linear in (module.attention.out, module.feedforward.down):
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
    norms = module.attention_residual.norm, module.feedforward_residual.norm
    expected = X if norm_first else norms[1](norms[0](X))
    assert torch.equal(module(X, mask=Causal()), expected)


@pytest.mark.parametrize("norm_first", [True, False])
def test_without_attention_no_token_hears_of_another(norm_first):
    torch.manual_seed(0)
    full = block(norm_first)
    module = Block(None, full.feedforward, lambda: RESIDUALS[norm_first](LayerNorm(15)).double())
    other = X.clone()
    other[:, 2] += 1
    # It takes what the same block with attention takes.
    before, after = (module(x, mask=Causal(), cache=GrowingCache()) for x in (X, other))
    changed = (before != after).any(-1)
    assert changed[:, 2].all()
    assert changed.sum() == 2
    assert not any("attention" in name for name, _ in module.named_parameters())
    attention = sum(p.numel() for p in full.attention.parameters()) + 2 * 15
    count = sum(p.numel() for p in full.parameters())
    assert sum(p.numel() for p in module.parameters()) == count - attention


def modern(**options) -> Block:
    torch.manual_seed(0)
    return Block(
        Attention(15, 5, kv_heads=1, head_width=4, normed=True, rotary=Rotary.standard(4)),
        FeedForward(15, 17, activation=Gated(), biased=False),
        lambda: PreNorm(RMSNorm(15), **options),
    ).double()


def test_variants_are_objects():
    out = modern()(X, mask=Causal(), bias=T5Table(5).double()())
    assert out.shape == X.shape
    assert not torch.equal(out, modern()(X, mask=Causal()))


@pytest.mark.parametrize("make", [modern, lambda: block(True, cross=True)])
def test_cached_decoding_equals_uncached(make):
    module, cache = make(), GrowingCache()
    context = None if module.cross is None else CONTEXT
    once = None if module.cross is None else module.cross.keys_values(CONTEXT)
    limits = None if module.cross is None else Padding(CONTEXT_LENGTHS)
    whole = module(X, context, mask=Causal(), context_mask=limits)
    parts = [
        module(part, once, mask=Causal(), context_mask=limits, cache=cache)
        for part in X.split([3, 1, 1, 2], 1)
    ]
    close(torch.cat(parts, 1), whole)


def test_left_padded_sequences_are_what_they_are_alone():
    module = modern()
    places = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [-1, -1, 0, 1, 2, 3, 4]])
    out = module(X, mask=Causal(), at=Positions(places, places))
    close(out[1:, 2:], module(X[1:, 2:], mask=Causal()))


def test_stochastic_depth_is_for_training_only():
    torch.manual_seed(0)
    module = modern(drop_path=0.5)
    x = X.repeat(53, 1, 1)
    untouched = (module(x) == x).flatten(1).all(1)
    assert 0 < untouched.sum() < len(x)  # sequences whose two sublayers were both dropped
    assert torch.equal(module.eval()(x), modern().eval()(x))


def test_every_attention_of_a_block_has_a_named_slot():
    model, seen = nn.ModuleList([block(True, cross=True), block(False)]), Seen()
    with tapped(model, seen):
        model[1](model[0](X, CONTEXT, mask=Causal()))
    assert seen.names == ["0.attention", "0.cross", "1.attention"]


def test_the_state_dict_goes_round_and_the_dtype_follows():
    first, second = block(True, cross=True), block(True, cross=True)
    for p in first.parameters():
        nn.init.normal_(p)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(X, CONTEXT), second(X, CONTEXT))
    assert modern().bfloat16()(X.bfloat16(), mask=Causal()).dtype == torch.bfloat16


def test_a_context_without_cross_attention_is_refused_and_the_reverse():
    with pytest.raises(ValueError, match="context must be given to blocks with cross-attention"):
        block(True)(X, CONTEXT)
    with pytest.raises(ValueError, match="got context=NoneType and cross=Attention"):
        block(True, cross=True)(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, in inductor
@pytest.mark.parametrize("make", [modern, lambda: block(False, cross=True)])
def test_a_block_compiles_into_one_graph(make):
    module = make().float()
    context = None if module.cross is None else CONTEXT.float()
    x = X.float().requires_grad_()
    with torch.no_grad():
        expected = module(x, context, mask=Causal())
    compiled = torch.compile(module, fullgraph=True)
    out = compiled(x, context, mask=Causal())
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    out.square().sum().backward()
    assert x.grad.isfinite().all()
