"""Scores with parameters: modules whose call returns the door's frozen score."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from atento.core.scores import Additive, Bilinear, Dot, Score
from atento.layers.fixed import owned

__all__ = ["AdditiveScore", "BilinearScore", "Sink"]


class AdditiveScore(nn.Module):
    """Owns v [H, A], W_q [D, A] and W_k [Dk, A] of vᵀ tanh(W_q q + W_k k).

    Ref: Bahdanau et al. 2015, arXiv:1409.0473, appendix A.1.2.
    """

    def __init__(
        self, heads: int, width: int, hidden: int | None = None, *, key_width: int | None = None
    ) -> None:
        super().__init__()
        hidden = width if hidden is None else hidden
        self.v = _drawn(heads, hidden, fan=hidden)
        self.query = _drawn(width, hidden, fan=width)
        self.key = _drawn(key_width or width, hidden, fan=key_width or width)

    def forward(self) -> Additive:
        return Additive(v=self.v, query=self.query, key=self.key)


class BilinearScore(nn.Module):
    """Owns W [H, D, Dk] of qᵀ W k; without a scale, as in the paper, unless one is given.

    Ref: Luong et al. 2015, arXiv:1508.04025, section 3.1.
    """

    def __init__(
        self,
        heads: int,
        width: int,
        *,
        key_width: int | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.weight = _drawn(heads, width, key_width or width, fan=width)
        self.scale = scale

    def forward(self) -> Bilinear:
        return Bilinear(scale=self.scale, weight=self.weight)


class Sink(nn.Module):
    """Owns one logit for each head, without a value, and adds it to another score.

    At −∞ it takes no weight; it starts at 0, the weight of a key whose score is 0.
    """

    def __init__(self, heads: int, score: Score | nn.Module | None = None) -> None:
        super().__init__()
        self.logit = nn.Parameter(torch.zeros(heads))
        self.score = owned(Dot() if score is None else score)

    def forward(self) -> Score:
        score: Score = self.score()
        return replace(score, sink=self.logit)


def _drawn(*shape: int, fan: int) -> nn.Parameter:
    """Normal, of variance 1 / fan, so that what comes out varies as what goes in."""
    drawn: Tensor = torch.randn(*shape) * fan**-0.5
    return nn.Parameter(drawn)
