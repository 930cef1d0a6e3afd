"""Scores with parameters, each against its formula in a loop, through Attention."""

import pytest
import torch

from atento.core.scores import Cosine, Dot
from atento.core.tap import tapped
from atento.layers.attention import Attention
from atento.layers.scores import AdditiveScore, BilinearScore, Sink
from layers.twins import Seen

X = torch.randn(2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def seen_with(score) -> tuple[torch.Tensor, torch.Tensor, Seen]:
    """q and k [B, N, H, D], and what a tap saw."""
    torch.manual_seed(0)
    attention = Attention(6, 3, head_width=7, score=score).double()
    seen = Seen()
    with tapped(attention, seen):
        attention(X)
    return attention.query(X).view(2, 5, 3, 7), attention.key(X).view(2, 5, 3, 7), seen


def test_additive_scores_are_v_tanh_of_the_projected_sum():
    score = AdditiveScore(3, 7, 11).double()
    q, k, seen = seen_with(score)
    for h in range(3):
        for i in range(5):
            for j in range(5):
                hidden = (q[:, i, h] @ score.query + k[:, j, h] @ score.key).tanh()
                torch.testing.assert_close(seen.all_scores[0][:, h, i, j], hidden @ score.v[h])


def test_bilinear_scores_are_q_w_k():
    score = BilinearScore(3, 7).double()
    q, k, seen = seen_with(score)
    expected = torch.einsum("bihd,hde,bjhe->bhij", q, score.weight, k)
    torch.testing.assert_close(seen.all_scores[0], expected)


@pytest.mark.parametrize("inner", [None, Cosine(scale=3.0), AdditiveScore(3, 7).double()])
def test_a_sink_takes_weight_to_nothing(inner):
    sink = Sink(3, inner).double()
    with torch.no_grad():
        sink.logit.copy_(torch.tensor([-torch.inf, 0.0, 2.0]))
    _, _, seen = seen_with(sink)
    total = seen.all_weights[0].sum(-1)
    mass = seen.all_scores[0].exp().sum(-1)
    expected = mass / (mass + sink.logit.exp()[:, None])
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(total[:, 0], torch.ones(2, 5, dtype=torch.float64))


@pytest.mark.parametrize("score", [AdditiveScore(3, 7), BilinearScore(3, 7), Sink(3, Dot())])
def test_the_parameters_of_scores_are_learned(score):
    attention = Attention(6, 3, head_width=7, score=score)
    attention(X.float()).square().sum().backward()
    assert list(score.parameters())
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in score.parameters())


def test_frozen_scores_are_taken_as_they_are():
    q, k, seen = seen_with(Dot(scale=2.0, softcap=5.0))
    raw = torch.einsum("bihd,bjhd->bhij", q, k)
    torch.testing.assert_close(seen.all_scores[0], 5 * (2 * raw / 5).tanh())
