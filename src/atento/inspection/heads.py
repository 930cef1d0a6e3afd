"""What each head looks at, in numbers and as one word; every number beside that of an even look.

A weight says where a head reads, not what comes of it: what a prediction loses without the head is
`ablation`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from atento.core.maps import attention_map
from atento.core.positions import resolved
from atento.core.tap import Site, Tap, tapped
from atento.errors import UserError

__all__ = ["EVENLY", "MOSTLY", "HeadLook", "Look", "head_looks"]

MOSTLY = 0.5  # share of the weight from which a head is said to look mostly somewhere
EVENLY = 0.95  # of the greatest entropy there can be, from which a head is said to look evenly


@dataclass(frozen=True)
class Look:
    """Where weights a_ij lie: means over the queries i that have more than one key to choose from.

        distance = mean_i Σ_j a_ij |i − j|        shares: itself Σ a_ii, before Σ a_i,i−1, after …
        entropy = mean_i −Σ_j a_ij ln a_ij        favourite: the j of the greatest mean_i a_ij

    i and j are positions; sums are over one query's keys. `half` is the least distance within which
    at least half of the weight lies.
    """

    distance: float
    half: int
    itself: float
    before: float  # on the position before
    after: float  # on the position after
    favourite: int  # the key, from 0
    favoured: float  # the share of the favourite
    entropy: float  # in nats


@dataclass(frozen=True)
class HeadLook:
    """One head of one call: its weights, what they come to, and what an even look would come to."""

    layer: str
    head: int  # from 0
    weights: Tensor  # [Q, K], of the first sequence
    look: Look
    even: Look

    @property
    def kind(self) -> str:
        """One word for it; what none of these is said of is `mixed`.

        `itself`, `before`, `after`, `favourite`: at least half of the weight lies there, and an
        even look would put less than half there. `evenly`: at least 0.95 of an even look's entropy.
        `near` and `far`: half of the weight lies within fewer positions than for an even look, or
        only within more.
        """
        look, even = self.look, self.even
        for place in ("itself", "before", "after"):
            if getattr(look, place) >= MOSTLY > getattr(even, place):
                return place
        if look.favoured >= MOSTLY > even.favoured:
            return "favourite"
        if look.entropy >= EVENLY * even.entropy:
            return "evenly"
        if look.half == even.half:
            return "mixed"
        return "near" if look.half < even.half else "far"


def head_looks(model: nn.Module, see: Callable[[], object]) -> list[HeadLook]:
    """What each head of each layer looks at while `see` runs the model, in the order of the calls.

    Queries that have one key alone, such as the first of a causal model, say nothing of a head and
    are left out of the numbers. Maps are exact, and whole: for sentences, not for books.
    Claim: test_heads.py::test_planted_heads_are_called_what_they_are
    Claim: test_heads.py::test_the_numbers_are_those_of_loops_over_the_weights
    """
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), tapped(model, tap := _Looker()):
            see()
    finally:
        model.train(was_training)
    return tap.found


class _Looker(Tap):
    """Draws the map of every call."""

    def __init__(self) -> None:
        self.found: list[HeadLook] = []

    def inputs(self, site: Site, q: Tensor, k: Tensor, v: Tensor) -> None:
        (B, H, Q), K = q.shape[:3], k.shape[2]
        weights = attention_map(
            q, k, mask=site.mask, bias=site.bias, score=site.score, at=site.at
        )  # [B, H, Q, K]
        assert isinstance(weights, Tensor)
        place = resolved(site.at, Q, q.device)
        i, j = place.queries(Q, q.device), place.keys(K, q.device)
        steps = (j[:, None, :] - i[:, :, None])[:, None].expand(B, H, Q, K)
        may = (j >= 0)[:, None, None].expand(B, H, Q, K)
        if site.mask is not None:
            may = may & site.mask.dense(Q, K, B, H, at=site.at, device=q.device)
        even = may.double() / may.sum(-1, keepdim=True).clamp(min=1)
        chosen = may.sum(-1) > 1  # [B, H, Q]
        if not chosen.any():
            raise UserError(
                f"the text must give a query at least two keys to choose from; in {site.name} each "
                "has one alone. Give a longer text."
            )
        for head in range(H):
            rows = chosen[:, head]
            at = steps[:, head][rows]
            self.found.append(
                HeadLook(
                    site.name,
                    head,
                    weights[0, head],
                    _look(weights[:, head][rows].double(), at),
                    _look(even[:, head][rows], at),
                )
            )


def _look(weights: Tensor, steps: Tensor) -> Look:
    """Of rows of weights [R, K], whose keys stand so many steps [R, K] after the query."""

    def share(where: Tensor) -> float:
        return float((weights * where).sum(-1).mean())

    away = steps.abs()
    columns = weights.mean(0)
    half = next((d for d in range(int(away.max()) + 1) if share(away <= d) >= 0.5), int(away.max()))
    return Look(
        distance=share(away),
        half=half,
        itself=share(steps == 0),
        before=share(steps == -1),
        after=share(steps == 1),
        favourite=int(columns.argmax()),
        favoured=float(columns.max()),
        entropy=float(-torch.special.xlogy(weights, weights).sum(-1).mean()),
    )
