"""Which token is said next: from logits to chances, and from chances to a token."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from atento.errors import UserError

__all__ = ["LARGEST_SEED", "Sampling", "chances", "chosen"]

LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn. The parts work one after another, in this order:

    `never` are not to be said, such as padding. `repetition` r ≥ 1 makes what was seen less likely:
    a logit above 0 is divided by r, one below multiplied. `temperature` divides the logits; 0
    takes the likeliest. Then `top_k` keeps the k likeliest; `top_p` the fewest of the likeliest
    that together have chance p; `min_p` those with at least the share p of the likeliest's chance.
    Ref: Keskar et al. 2019, arXiv:1909.05858, section 4.1 (repetition); Holtzman et al. 2020,
    arXiv:1904.09751, section 3.1 (top-p); Nguyen et al. 2024, arXiv:2407.01082, section 3 (min-p).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition: float = 1.0
    never: tuple[int, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UserError(f"temperature must be 0 (greedy) or more; got {self.temperature}.")
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top_k must be at least 1; got {self.top_k}.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1; got {self.top_p}. Try 0.9.")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise UserError(f"min_p must be at least 0 and at most 1; got {self.min_p}. Try 0.05.")
        if not (math.isfinite(self.repetition) and self.repetition >= 1):
            raise UserError(
                f"repetition must be 1 (no penalty) or more; got {self.repetition}. Try 1.1."
            )
        if self.seed is not None and not 0 <= self.seed <= LARGEST_SEED:
            raise UserError(f"seed must be at least 0 and at most {LARGEST_SEED}; got {self.seed}.")


def chances(logits: Tensor, seen: Tensor, how: Sampling) -> Tensor:  # [S, V] float64
    """Each token's chance to be drawn: logits [S, V], and seen Bool[S, V], what was said already.

    Claim: test_choose.py::test_top_p_keeps_the_fewest_that_reach_it
    """
    logits = logits.double().clone()
    logits[:, list(how.never)] = -torch.inf
    if how.repetition != 1:
        punished = torch.where(logits > 0, logits / how.repetition, logits * how.repetition)
        logits = torch.where(seen, punished, logits)
    highest = logits.amax(-1, keepdim=True)
    if how.temperature == 0:
        first = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, first, 1.0)
    logits = (logits - highest) / how.temperature  # the highest is 0, so nothing overflows
    if how.top_k is not None and how.top_k < logits.shape[-1]:
        kept, where = logits.topk(how.top_k)
        logits = torch.full_like(logits, -torch.inf).scatter(-1, where, kept)
    shares = torch.softmax(logits, -1)  # over vocabulary
    if how.top_p is not None:
        falling, where = shares.sort(dim=-1, descending=True, stable=True)
        before = falling.cumsum(-1) - falling  # what the likelier ones have
        shares = torch.zeros_like(shares).scatter(-1, where, falling * (before < how.top_p))
    if how.min_p is not None:
        shares = shares * (shares >= how.min_p * shares.amax(-1, keepdim=True))
    return shares / shares.sum(-1, keepdim=True)


def chosen(shares: Tensor, generators: list[torch.Generator | None]) -> list[int]:
    """A token for each row of chances [S, V], each drawn by its own generator (None: torch's).

    Where only one can be said, no generator is touched.
    """
    return [
        int(row.argmax() if row.max() == 1 else torch.multinomial(row, 1, generator=generator))
        for row, generator in zip(shares, generators, strict=True)
    ]
