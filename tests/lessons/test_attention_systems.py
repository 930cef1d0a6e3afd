"""The lectures' systems that are the door itself: each asserts its row's check, through `attend`.

Every axis is a different prime, in float64; the oracles are torch's own or plain formulas.
"""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from atento import (
    Alibi,
    Causal,
    Cosine,
    Dot,
    Positions,
    Rotary,
    Shaw,
    Site,
    T5Bias,
    Tap,
    Window,
    attend,
    attend_lse,
)

B, H, Q, K, D, DV = 2, 3, 5, 7, 11, 13
TIGHT = 1e-12


def drawn(seed: int, *shape: int) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=source)


QUERIES, KEYS, VALUES = drawn(1, B, H, Q, D), drawn(2, B, H, K, D), drawn(3, B, H, K, DV)
TOKENS = drawn(4, B, H, K, D)


def close(ours: Tensor, expected: Tensor, within: float = TIGHT) -> None:
    torch.testing.assert_close(ours, expected, rtol=0, atol=within)


class Scores(Tap):
    """Keeps the scores; where `raw`, weights are replaced by them, so that there is no softmax."""

    reads = frozenset({"scores", "weights"})

    def __init__(self, raw: bool = False) -> None:
        self.raw = raw
        self.seen = torch.empty(0)

    def scores(self, site: Site, scores: Tensor) -> None:
        self.seen = scores

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return self.seen if self.raw else None


# ------------------------------------------------------------------ 26: no parameters


def test_parameter_free_self_attention_is_softmax_xxt_x_and_keeps_the_shape() -> None:
    out = attend(TOKENS, TOKENS, TOKENS, score=Dot(scale=1.0))
    close(out, (TOKENS @ TOKENS.mT).softmax(-1) @ TOKENS)
    assert out.shape == TOKENS.shape


def test_parameter_free_self_attention_has_nothing_to_learn_but_its_input() -> None:
    x = TOKENS.clone().requires_grad_()
    out = attend(x, x, x, score=Dot(scale=1.0))
    leaves, seen, todo = [], set(), [out.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        todo += [before for before, _ in node.next_functions]
    assert len(leaves) == 1
    assert leaves[0] is x


@pytest.mark.parametrize("c", [-2.0, 0.5, 3.0])
def test_without_softmax_scaling_x_by_c_scales_y_by_c_cubed(c: float) -> None:
    def y(x: Tensor) -> Tensor:
        return attend(x, x, x, score=Dot(scale=1.0), tap=Scores(raw=True))

    close(y(TOKENS), TOKENS @ TOKENS.mT @ TOKENS)
    close(y(c * TOKENS), c**3 * y(TOKENS), within=1e-10)


def test_with_softmax_scaling_x_does_not_scale_y_so() -> None:
    def y(x: Tensor) -> Tensor:
        return attend(x, x, x, score=Dot(scale=1.0))

    assert (y(3 * TOKENS) - 27 * y(TOKENS)).abs().max() > 1


# ------------------------------------------------------------------ 28: hard and soft lookup


def lookup(temperature: float, k: Tensor = KEYS) -> Tensor:
    return attend(QUERIES, k, VALUES, score=Dot(scale=1 / temperature))


def test_as_the_temperature_goes_to_zero_lookup_is_argmax() -> None:
    best = (QUERIES @ KEYS.mT).argmax(-1)[..., None].expand(-1, -1, -1, DV)
    hard = VALUES.gather(2, best)
    errors = [float((lookup(t) - hard).abs().max()) for t in (1.0, 0.1, 1e-2, 1e-4)]
    assert errors[0] > 0.1
    assert errors == sorted(errors, reverse=True)
    close(lookup(1e-4), hard)


def test_ties_are_averaged_at_any_temperature() -> None:
    k = KEYS.clone()
    k[:, :, 4] = k[:, :, 1]  # keys 1 and 4 are the same
    k[:, :, [1, 4]] *= 100  # and for some queries the best, for the others the worst
    first = (QUERIES @ k.mT).argmax(-1)
    tied = (first == 1) | (first == 4)
    assert tied.any()
    mean = (VALUES[:, :, 1] + VALUES[:, :, 4])[:, :, None].expand(B, H, Q, DV) / 2
    close(lookup(1e-4, k)[tied], mean[tied])


# ------------------------------------------------------------------ 29: scaled dot product


@pytest.mark.parametrize("path", ["auto", "reference", "sdpa", "chunked"])
def test_the_default_equals_torchs_scaled_dot_product_attention(path: str) -> None:
    expected = scaled_dot_product_attention(QUERIES, KEYS, VALUES)
    close(attend(QUERIES, KEYS, VALUES, path=path), expected)


@pytest.mark.parametrize("path", ["auto", "reference", "sdpa", "chunked"])
def test_the_causal_mask_equals_torchs(path: str) -> None:
    expected = scaled_dot_product_attention(TOKENS, TOKENS, TOKENS, is_causal=True)
    close(attend(TOKENS, TOKENS, TOKENS, mask=Causal(), path=path), expected)


# ------------------------------------------------------------------ 34: the parallel form


@pytest.mark.parametrize("mask", [None, Causal(), Window(2, 1)])
def test_the_matrix_form_equals_the_loop_over_tokens(mask: Window | None) -> None:
    together = attend(TOKENS, TOKENS, TOKENS, mask=mask)
    one_by_one = torch.cat(
        [attend(TOKENS[:, :, i : i + 1], TOKENS, TOKENS, mask=mask, at=i) for i in range(K)], 2
    )
    close(together, one_by_one)


def test_the_matrix_form_equals_a_loop_in_plain_python() -> None:
    out = attend(QUERIES, KEYS, VALUES)
    for b in range(B):
        for h in range(H):
            for i in range(Q):
                q = QUERIES[b, h, i].tolist()
                scores = [
                    math.fsum(x * y for x, y in zip(q, key, strict=True)) / math.sqrt(D)
                    for key in KEYS[b, h].tolist()
                ]
                powers = [math.exp(score - max(scores)) for score in scores]
                expected = [
                    math.fsum(p * value for p, value in zip(powers, column, strict=True))
                    / math.fsum(powers)
                    for column in VALUES[b, h].T.tolist()
                ]
                assert out[b, h, i].tolist() == pytest.approx(expected, abs=TIGHT)


# ------------------------------------------------------------------ 38: relative positions

REACH, BUCKETS = 3, 8
RELATIVE = {
    "alibi": Alibi(drawn(5, H).abs()),
    "t5": T5Bias(drawn(6, BUCKETS, H), bidirectional=True, farthest=17),
    "t5-causal": T5Bias(drawn(7, BUCKETS, H), bidirectional=False, farthest=17),
    "shaw": Shaw(drawn(8, H, 2 * REACH + 1, D)),
}


def moved(shift: int) -> Positions:
    return Positions(torch.arange(Q) + 4 + shift, torch.arange(K) + shift)


@pytest.mark.parametrize("shift", [1, 19, 10_007])
@pytest.mark.parametrize("name", RELATIVE)
def test_relative_logits_do_not_change_when_all_positions_shift(name: str, shift: int) -> None:
    def logits(by: int) -> Tensor:
        camera = Scores()
        attend(QUERIES, KEYS, VALUES, bias=RELATIVE[name], at=moved(by), tap=camera)
        return camera.seen

    assert torch.equal(logits(shift), logits(0))
    # And the bias is there: it tells one distance from another.
    assert (logits(0) - QUERIES @ KEYS.mT / math.sqrt(D)).abs().max() > 0.1


@pytest.mark.parametrize("name", RELATIVE)
def test_shifting_the_queries_alone_changes_the_logits(name: str) -> None:
    apart = Positions(moved(0).q + 2, moved(0).k)
    _, here = attend_lse(QUERIES, KEYS, VALUES, bias=RELATIVE[name], at=moved(0))
    _, there = attend_lse(QUERIES, KEYS, VALUES, bias=RELATIVE[name], at=apart)
    assert (here - there).abs().max() > 1e-3


# ------------------------------------------------------------------ 39: RoPE

EVEN = 22  # the width that is turned must be even
ROTARY = {
    "halves": Rotary.standard(EVEN),
    "neighbours": Rotary.standard(EVEN, interleaved=True),
    "partial": Rotary.standard(6),
    "yarn": Rotary.yarn(EVEN, factor=4.0, trained=64),
}
Q1, K1 = drawn(9, 1, H, 1, EVEN), drawn(10, 1, H, 1, EVEN)


def turned_product(rotary: Rotary, m: int, n: int) -> Tensor:  # [1, H, 1, 1]
    at = Positions(torch.tensor([m]), torch.tensor([n]))
    q, k = rotary.rotate(Q1, K1, at)
    camera = Scores()
    attend(q, k, k, score=Dot(scale=1.0), at=at, tap=camera)
    return camera.seen


@pytest.mark.parametrize("name", ROTARY)
def test_rotated_products_depend_on_the_distance_alone(name: str) -> None:
    for distance in (-5, 0, 3):
        first = turned_product(ROTARY[name], 5 + distance, 5)
        for n in (7, 101, 1009):
            close(turned_product(ROTARY[name], n + distance, n), first, within=1e-10)


@pytest.mark.parametrize("name", ROTARY)
def test_rotated_products_do_depend_on_the_distance(name: str) -> None:
    rotary = ROTARY[name]
    assert (turned_product(rotary, 9, 5) - turned_product(rotary, 6, 5)).abs().max() > 1e-3


def test_rotated_products_equal_the_product_of_complex_numbers() -> None:
    """⟨R_m q, R_n k⟩ = Re Σ q_j conj(k_j) e^{i(m−n)θ_j}, pairs being neighbours."""
    m, n = 11, 4
    angles = 10_000.0 ** (-torch.arange(0, EVEN, 2, dtype=torch.float64) / EVEN)
    q, k = (torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) for x in (Q1, K1))
    turn = torch.polar(torch.ones_like(angles), (m - n) * angles)
    expected = (q * k.conj() * turn).sum(-1).real[..., None]
    close(turned_product(ROTARY["neighbours"], m, n), expected)


# ------------------------------------------------------------------ 132: cosine similarity


@pytest.mark.parametrize("path", ["auto", "reference", "sdpa", "chunked"])
def test_cosine_is_blind_to_a_positive_factor_of_each_row(path: str) -> None:
    score = Cosine(scale=2.0)
    factors_q, factors_k = drawn(11, B, H, Q, 1).exp() * 100, drawn(12, B, H, K, 1).exp() / 100
    plain = attend(QUERIES, KEYS, VALUES, score=score, path=path)
    scaled = attend(QUERIES * factors_q, KEYS * factors_k, VALUES, score=score, path=path)
    close(scaled, plain)
    turned_round = attend(-QUERIES, KEYS, VALUES, score=score, path=path)
    assert (turned_round - plain).abs().max() > 0.1


def test_cosine_equals_torchs() -> None:
    camera = Scores()
    attend(QUERIES, KEYS, VALUES, score=Cosine(), tap=camera)
    expected = torch.nn.functional.cosine_similarity(
        QUERIES[:, :, :, None], KEYS[:, :, None], dim=-1
    )
    close(camera.seen, expected)


def test_a_zero_vector_stays_finite_with_finite_gradients() -> None:
    q, k = QUERIES.clone(), KEYS.clone()
    q[:, :, 2], k[:, :, 3] = 0.0, 0.0
    q.requires_grad_()
    k.requires_grad_()
    out = attend(q, k, VALUES, score=Cosine())
    assert out.isfinite().all()
    close(out[:, :, 2], VALUES.mean(2))  # it scores 0 with every key
    out.square().sum().backward()
    assert q.grad is not None
    assert k.grad is not None
    assert q.grad.isfinite().all()
    assert k.grad.isfinite().all()
