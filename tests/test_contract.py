"""What holds for every mask, score, bias and path; the members stand in contract.py."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from atento.core import paths
from atento.core.attend import attend, attend_lse
from atento.core.cache import Cache, EvictingCache, GrowingCache, StaticCache
from atento.core.call import checked
from atento.core.compose import Mask
from atento.core.edges import Edges
from atento.core.graph_scores import UnitScore
from atento.core.masks import Causal, Prefix, Window
from atento.core.positions import Positions
from atento.core.scores import Dot
from atento.core.structure import leaves
from atento.core.tables import Dense, Documents, Padding
from contract import BIASES, MASKS, SCORES, B, H, N, inputs, logits, oracle

EXACT = 1e-12
# flex computes on CPU only when compiled, seconds for each structure: test_flex.py has it.
ANY_MASK = ("auto", "reference", "sdpa", "short", "chunked")
EAGER = (*ANY_MASK, "edges")
PAIRS = list(itertools.product(BIASES, SCORES))
CAUSAL = [name for name, case in MASKS.items() if case.causal]


def parts(mask: str, bias: str, score: str) -> dict[str, object]:
    return {"mask": MASKS[mask].mask, "bias": BIASES[bias][0], "score": SCORES[score][0]}


def serves(path: str, qkv: tuple[Tensor, ...], given: dict[str, object], lse: bool) -> bool:
    if path == "auto":
        return True
    arguments = (*qkv, given["mask"], given["bias"], given["score"], 0.0, None, lse)
    return paths.PATHS[path].refusal(checked(*arguments)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("key_heads", [H, 1])
def test_every_path_equals_the_oracle(mask: str, key_heads: int) -> None:
    plain = tuple(x.detach() for x in inputs(key_heads))
    served = dict.fromkeys(EAGER, 0)
    for bias, score in PAIRS:
        given = parts(mask, bias, score)
        with torch.no_grad():
            out, lse = oracle(key_heads, mask, bias, score)
        for path in EAGER:
            if serves(path, plain, given, lse=False):
                served[path] += 1
                found = attend(*plain, path=path, **given)  # type: ignore[arg-type]
                assert close(found, out), (bias, score, path)
                assert (found[lse == -torch.inf] == 0).all()
            if serves(path, plain, given, lse=True):
                found, found_lse = attend_lse(*plain, path=path, **given)  # type: ignore[arg-type]
                assert close(found, out), (bias, score, path)
                assert close(found_lse, lse), (bias, score, path)
    assert served["auto"] == served["reference"] == len(PAIRS)
    assert served["sdpa"] >= len(BIASES)
    assert served["chunked"] == (0 if mask == "where" else len(PAIRS))
    compared = [score for _, score in PAIRS if score != "additive"]
    assert served["edges"] == (len(compared) if mask == "edges" else 0)


def close(found: Tensor, expected: Tensor, limit: float = EXACT) -> bool:
    gap = torch.where(found == expected, 0.0, (found - expected).abs())
    return found.dtype == expected.dtype and bool(gap.max() <= limit)


@pytest.mark.parametrize("mask", MASKS)
def test_every_gradient_equals_the_oracles(mask: str) -> None:
    qkv = inputs(1)
    for bias, score in PAIRS[list(MASKS).index(mask) % 5 :: 5]:
        given = parts(mask, bias, score)
        learned = [x for x in leaves((given["bias"], given["score"])) if x.requires_grad]
        expected = gradients(oracle(1, mask, bias, score), [*qkv, *learned])
        for path in EAGER:
            if serves(path, qkv, given, lse=True):
                found = attend_lse(*qkv, path=path, **given)  # type: ignore[arg-type]
                for x, y in zip(gradients(found, [*qkv, *learned]), expected, strict=True):
                    assert close(x, y, 1e-11), (bias, score, path)
            if serves(path, qkv, given, lse=False):
                both = [
                    attend(*qkv, path=p, **given)  # type: ignore[arg-type]
                    for p in (path, "reference")
                ]
                pairs = [gradients((x, x.new_zeros(1)), [*qkv, *learned]) for x in both]
                for x, y in zip(*pairs, strict=True):
                    assert close(x, y, 1e-11), (bias, score, path)


def gradients(result: tuple[Tensor, Tensor], sources: list[Tensor]) -> list[Tensor]:
    """Of a fixed mixture of out and lse; the log-sum-exp of an empty row takes no part."""
    out, lse = result
    pull = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out).sin()
    total = (out * pull).sum() + lse.masked_fill(lse == -torch.inf, 0.0).sin().sum()
    if not total.requires_grad:
        return [torch.zeros_like(x) for x in sources]
    found = torch.autograd.grad(total, sources, retain_graph=True, allow_unused=True)
    for g in found:
        assert g is None or g.isfinite().all()
    return [torch.zeros_like(s) if g is None else g for g, s in zip(found, sources, strict=True)]


@pytest.mark.parametrize("path", ["reference", "chunked"])
@pytest.mark.parametrize("score", SCORES)
def test_gradients_pass_gradcheck(path: str, score: str) -> None:
    made = SCORES[score][0]
    if isinstance(made, UnitScore):  # edges of 11 nodes; test_neighbours.py checks those gradients
        made = replace(made, edge=None)
    small = tuple(x.detach()[:1, :, :5].clone().requires_grad_() for x in inputs(1))
    slopes = torch.rand(H, dtype=torch.float64).requires_grad_()

    def call(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
        from atento.core.biases import Alibi

        return attend_lse(q, k, v, mask=Window(2), bias=Alibi(slopes), score=made, path=path)

    assert torch.autograd.gradcheck(call, (*small, slopes))


@pytest.mark.parametrize("mask", CAUSAL)
@pytest.mark.parametrize("path", EAGER)
def test_causal_future_does_not_leak(mask: str, path: str) -> None:
    q, k, v = (x.detach() for x in inputs())
    for bias, score in PAIRS:
        given = parts(mask, bias, score)
        if bias == "shaw" or not serves(path, (q, k, v), given, lse=False):
            continue
        before = attend(q, k, v, path=path, **given)  # type: ignore[arg-type]
        changed = [x.clone() for x in (q, k, v)]
        for x in changed:
            x[:, :, 6:] = x[:, :, 6:] * 3 + 1
        after = attend(*changed, path=path, **given)  # type: ignore[arg-type]
        assert torch.equal(before[:, :, :6], after[:, :, :6]), (bias, score)


@pytest.mark.parametrize("score", SCORES)
def test_dense_equals_edges(score: str) -> None:
    q, k, v = (x.detach() for x in inputs(1))
    made = SCORES[score][0]
    for name in ("causal", "bigbird", "window", "nothing"):
        mask = MASKS[name].mask
        assert isinstance(mask, Mask)
        dense = attend(q, k, v, mask=Dense(mask.dense(N, N)[0, 0]), score=made)
        edges = attend(q, k, v, mask=Edges(mask.edges(N, N), (N, N)), score=made)
        assert close(edges, dense)


def test_heads_without_a_batch_or_keys_are_empty_not_wrong() -> None:
    for shape in ((0, H, N, 7), (B, H, 0, 7)):
        q = torch.zeros(shape, dtype=torch.float64)
        for path in ("auto", "reference", "chunked"):
            assert attend(q, q, q, mask=Causal(), path=path).shape == shape
    q, k = torch.ones(B, H, N, 7), torch.ones(B, H, 0, 7)
    for path in ("auto", "reference", "chunked"):
        out, lse = attend_lse(q, k, k, path=path)
        assert (out == 0).all()
        assert (lse == -torch.inf).all()


# ------------------------------------------------------------------ cached = uncached

MAKERS = {
    "growing": (GrowingCache, None),
    "static": (lambda: StaticCache(N + 2), None),
    "evicting": (lambda: EvictingCache(4, 2), Causal() & (Window(3) | Prefix(2))),
}


@pytest.mark.parametrize("steps", [[1] * N, [5] + [1] * (N - 5), [3, 1, 4, 3]])
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("mask", CAUSAL)
def test_cached_equals_uncached(mask: str, maker: str, steps: list[int]) -> None:
    q, k, v = (x.detach() for x in inputs(1))
    make, within = MAKERS[maker]
    chosen = MASKS[mask].mask
    assert isinstance(chosen, Mask)
    chosen = chosen if within is None else chosen & within
    for bias, score in (("none", "dot"), ("alibi", "sink"), ("t5", "additive")):
        given = {"mask": chosen, "bias": BIASES[bias][0], "score": SCORES[score][0]}
        whole = attend(q, k, v, **given)  # type: ignore[arg-type]
        assert close(stepwise(make(), steps, (q, k, v), given), whole)  # type: ignore[operator]


def test_cached_prefix_equals_uncached_once_the_prefix_is_prefilled_together() -> None:
    q, k, v = (x.detach() for x in inputs(1))
    given = {"mask": Causal() | Prefix(4)}
    whole = attend(q, k, v, **given)  # type: ignore[arg-type]
    assert close(stepwise(GrowingCache(), [4] + [1] * (N - 4), (q, k, v), given), whole)


def stepwise(
    cache: Cache, steps: list[int], qkv: tuple[Tensor, ...], given: dict[str, object]
) -> Tensor:
    q, k, v = qkv
    outs, first = [], 0
    for count in steps:
        new = slice(first, first + count)
        keys, values, at = cache.update(k[:, :, new], v[:, :, new])
        outs.append(attend(q[:, :, new], keys, values, at=at, **given))  # type: ignore[arg-type]
        first += count
    return torch.cat(outs, 2)


def test_left_padded_batches_equal_each_sequence_alone() -> None:
    q, k, v = (x.detach() for x in inputs(1))
    for lengths in ([N, 6], [3, N]):
        positions = torch.stack([torch.arange(N) - (N - n) for n in lengths]).clamp(min=-1)
        at = Positions(positions, positions)
        for bias in ("none", "alibi", "t5", "shaw"):
            given = {"mask": Window(3), "bias": BIASES[bias][0]}
            padded = attend(q, k, v, at=at, **given)  # type: ignore[arg-type]
            for b, n in enumerate(lengths):
                alone = attend(*(x[b : b + 1, :, N - n :] for x in (q, k, v)), **given)  # type: ignore[arg-type]
                assert close(padded[b : b + 1, :, N - n :], alone)
                assert (padded[b, :, : N - n] == 0).all()


@pytest.mark.parametrize("path", ANY_MASK)
def test_packed_documents_equal_each_document_alone(path: str) -> None:
    q, k, v = (x.detach() for x in inputs(1))
    lengths = [4, 1, 6]
    ids = torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))
    packed = Documents(ids, packed=True)
    for mask in (Causal(), Window(2), Window(1, 1)):
        whole = attend(q, k, v, mask=mask & packed, path=path)
        for n, first in zip(lengths, (0, 4, 5), strict=True):
            alone = [x[:, :, first : first + n] for x in (q, k, v)]
            assert close(whole[:, :, first : first + n], attend(*alone, mask=mask))


@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked"])
def test_dropout_keeps_the_mean_repeats_with_the_seed_and_has_its_gradients(path: str) -> None:
    q, k, v = (x.detach()[:, :, :7] for x in inputs(1))
    ones = torch.ones(*v.shape[:3], 1, dtype=v.dtype)

    def dropped(v: Tensor, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return attend(q, k, v, mask=Window(3), dropout=0.25, path=path)

    assert torch.equal(dropped(v, 3), dropped(v, 3))
    # The weights of a row sum to 1 on average only: each is kept with 3/4 and divided by it.
    sums = torch.stack([dropped(ones, seed) for seed in range(400)])
    assert ((sums - 1).abs() > 1e-3).any()
    assert (sums.mean(0) - 1).abs().max() < 0.15
    assert (dropped(ones, 0) > 0).any()
    small = tuple(x.clone().requires_grad_() for x in (q, k, v))

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend(q, k, v, mask=Window(3), dropout=0.25, path=path)

    assert torch.autograd.gradcheck(call, small)


@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked"])
@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_checkpointed_calls_have_the_same_gradients(path: str, dropout: float) -> None:
    qkv = tuple(x.detach().requires_grad_() for x in inputs(1))

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, mask=Window(3), dropout=dropout, path=path)

    found = []
    for run in (call, lambda *x: checkpoint(call, *x, use_reentrant=False)):
        torch.manual_seed(3)
        found.append(torch.autograd.grad(run(*qkv).sin().sum(), qkv))
    for x, y in zip(*found, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("path", ["auto", "reference", "chunked"])
def test_a_sink_of_minus_infinity_takes_nothing(path: str) -> None:
    qkv = inputs(1)
    sink = torch.tensor([-torch.inf, 0.5, -torch.inf], dtype=torch.float64, requires_grad=True)
    mask = Window(2) & Padding(torch.tensor([9, 0]))
    out, lse = attend_lse(*qkv, mask=mask, score=Dot(sink=sink), path=path)
    plain, plain_lse = attend_lse(*qkv, mask=mask, path="reference")
    assert close(out[:, ::2], plain[:, ::2])
    assert close(lse[:, ::2], plain_lse[:, ::2])
    finite = lse.masked_fill(lse == -torch.inf, 0.0)
    found = torch.autograd.grad(out.sum() + finite.sum(), (*qkv, sink))
    assert all(x.isfinite().all() for x in found)


@pytest.mark.parametrize("path", ANY_MASK)
@pytest.mark.parametrize("mask", [None, Window(3)])
def test_autocast_casts_once_at_the_door(path: str, mask: Mask | None) -> None:
    q, k, v = (x.detach().float() for x in inputs(1))
    expected, expected_lse = attend_lse(*(x.bfloat16() for x in (q, k, v)), mask=mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(q, k, v, mask=mask, path=path)
        given = {"mask": mask, "bias": None, "score": Dot()}
        assert out.dtype == torch.bfloat16
        assert (out.float() - expected.float()).abs().max() < 2e-2
        if serves(path, (q, k, v), given, lse=True):
            lse = attend_lse(q, k, v, mask=mask, path=path)[1]
            assert lse.dtype == torch.float32
            assert (lse - expected_lse).abs().max() < 1e-4


def test_logits_of_the_oracle_are_not_atentos() -> None:
    q, k, _ = inputs()
    expected = torch.einsum("bhid,bhjd->bhij", q, k) / 7**0.5
    assert close(logits(H, "none", "dot").detach(), expected.detach())
