"""Attention seen from inside: a real call of `attend`, and the matrices that passed through it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from atento import Causal, Dot, Tap, attend
from atento.lessons.lesson import Rows

__all__ = ["Watched", "masked", "rows_of", "softmax_of", "tensor", "watched"]


class Watched(NamedTuple):
    """What one call of `attend` computed, each [B, H, Q, …]."""

    scores: Tensor  # scaled, before the mask
    weights: Tensor
    out: Tensor


class _Camera(Tap):
    """Keeps the scores and the weights; puts `instead` in the weights' place where it is given."""

    reads = frozenset({"scores", "weights"})

    def __init__(self, instead: Tensor | None = None) -> None:
        self.instead = instead
        self.seen: dict[str, Tensor] = {}

    def scores(self, site: object, scores: Tensor) -> None:
        self.seen["scores"] = scores

    def weights(self, site: object, weights: Tensor) -> Tensor | None:
        self.seen["weights"] = weights
        return self.instead


def watched(  # long: the door's arguments
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    weights: Tensor | None = None,
) -> Watched:
    """`attend`, watched through a tap; `weights`, where given, take the place of its own.

    q, k, v: [N, D] or [H, N, D], of one sentence.
    """
    q, k, v = (x[(None,) * (4 - x.dim())] for x in (q, k, v))
    camera = _Camera(weights)
    mask = Causal() if causal else None
    out = attend(q, k, v, mask=mask, score=Dot(scale=scale), tap=camera)
    return Watched(camera.seen["scores"], camera.seen["weights"], out)


def softmax_of(logits: Tensor, *, causal: bool = False) -> Tensor:  # [N, K]
    """The softmax of logits [N, K], by `attend`: queries are the logits, keys the identity."""
    identity = torch.eye(logits.shape[-1], dtype=logits.dtype)
    return watched(logits, identity, identity, causal=causal, scale=1.0).weights[0, 0]


def masked(scores: Tensor) -> Tensor:
    """The scores with −∞ where the causal mask lets nothing through."""
    Q, K = scores.shape[-2:]
    return scores.masked_fill(~Causal().dense(Q, K)[0, 0], -torch.inf)


def tensor(rows: Rows) -> Tensor:
    """Float64, as every lesson computes."""
    return torch.tensor(rows, dtype=torch.float64)


def rows_of(x: Tensor) -> Rows:
    """A matrix [N, M] as plain numbers; a vector becomes one row."""
    return tuple(tuple(row) for row in (x if x.dim() == 2 else x[None]).tolist())
