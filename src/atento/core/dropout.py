"""Dropout, with random bits by the word on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

__all__: list[str] = []

WORDS = 2**16  # of sixteen bits, one for each element
LEAST = 2**-10  # below it sixteen bits would miss p by more than a hundredth of it


def dropout(x: Tensor, p: float) -> Tensor:
    """x · m, where each m is 0 with probability p and else 1 / (1 − p).

    Ref: Srivastava et al. 2014, JMLR 15.
    Claim: core/test_dropout.py::test_the_share_and_the_mean_are_those_of_p
    """
    return x * kept(x, p) if _by_words(x, p) else torch.dropout(x, p, True)


def kept(x: Tensor, p: float) -> Tensor:
    """m for each element of x, in its dtype, drawn from torch's generator.

    On a CPU torch draws for each element by itself: for 131,072 of them 800 µs, where words take
    150 (2 cores, torch 2.13, 2026-11). p is then a multiple of 2⁻¹⁶, and the scale that of this
    multiple, so that the mean of x · m stays x.
    """
    if not _by_words(x, p):
        return torch.dropout(torch.ones_like(x), p, True)
    dropped = round(p * WORDS)
    # All 64 bits: torch's default range for int64 leaves the sign alone.
    drawn = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
    words = drawn.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
    mask = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    torch.ge(words, dropped - WORDS // 2, out=mask)
    return mask.mul_(WORDS / (WORDS - dropped))


def _by_words(x: Tensor, p: float) -> bool:
    return x.is_cpu and LEAST <= p <= 1 - LEAST and not torch.compiler.is_compiling()
