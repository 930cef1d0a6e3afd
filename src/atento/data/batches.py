"""Batches of windows: which ones depends on the seed and the step alone."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from atento.data.ahead import ask_for, mapped
from atento.data.text import Tokens

__all__ = ["random_windows", "whole_windows"]

AHEAD = 2  # steps by which the pages of a mapped text are asked for before they are read


def random_windows(  # [B, context + 1]
    tokens: Tokens, context: int, batch: int, seed: int, step: int
) -> Tokens:
    """The windows of one step, from a generator that counts from (seed, step).

    So a run that resumes at a step needs to remember nothing, and neither workers nor devices
    change what is seen. A window has one token more than the context: the last target.
    """
    starts = _starts(tokens, context, batch, seed, step)
    if page := mapped(tokens):
        ask_for(page, tokens, _starts(tokens, context, batch, seed, step + AHEAD), context + 1)
    return tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64, copy=False)


def _starts(tokens: Tokens, context: int, batch: int, seed: int, step: int) -> NDArray[np.int64]:
    draw = np.random.Generator(np.random.Philox(key=[seed, step]))
    return draw.integers(0, len(tokens) - context, size=batch)


def whole_windows(  # each [B, N + 1]
    tokens: Tokens, context: int, batch: int
) -> Iterator[Tokens]:
    """Each token but the first as a target once: windows without overlap, then the shorter rest."""
    whole = (len(tokens) - 1) // context
    for first in range(0, whole, batch):
        rows = np.arange(first, min(first + batch, whole)) * context
        yield tokens[rows[:, None] + np.arange(context + 1)].astype(np.int64, copy=False)
    if (len(tokens) - 1) % context:
        yield tokens[None, whole * context :].astype(np.int64, copy=False)
