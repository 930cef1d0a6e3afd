"""What a lesson is: steps that set the lecture's printed figures beside ours.

A lesson is a file with the printed figures as data and a function `steps()`. Our figures are
computed, never typed in, and whether a printed one is right is computed too; the words for both
languages stand in texts.toml under the lesson's name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Quote", "Figure", "Rows", "Step", "items", "matrix", "spelled"]

Rows = tuple[tuple[float, ...], ...]
Verdict = str | None  # "ok", "wrong", or None where there is nothing to compare


def matrix(text: str) -> Rows:
    """Numbers as a lecture prints them: rows end at `;`."""
    return tuple(tuple(map(float, row.split())) for row in text.split(";"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A matrix of ours, the one that the lecture prints, or both: then each entry is compared.

    An entry is right where it differs from ours by at most `tolerance`, by default half a unit of
    the last printed digit. `text` names what texts.toml says of the figure: its `name`, which
    stands behind the symbol, and `why`, printed where it is wrong. A figure is `derived` where the
    lecture prints what `printed` was computed from, such as the rows of a sum.
    """

    symbol: str
    ours: Rows = ()
    printed: Rows = ()
    text: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    digits: int = 4
    tolerance: float | None = None
    heat: bool = False
    derived: bool = False

    @property
    def wrong(self) -> tuple[tuple[int, int], ...]:
        """The printed entries that are wrong, as (row, column) from 0."""
        if not self.ours or not self.printed:
            return ()
        # A hair more than half a unit: 0.00005 itself is no binary number.
        allowed = 0.5 * 10.0**-self.digits + 1e-9 if self.tolerance is None else self.tolerance
        return tuple(
            (r, c)
            for r, (mine, theirs) in enumerate(zip(self.ours, self.printed, strict=True))
            for c, (right, said) in enumerate(zip(mine, theirs, strict=True))
            if right != said and not math.isclose(right, said, rel_tol=0, abs_tol=allowed)
        )

    @property
    def verdict(self) -> Verdict:
        if not self.ours or not self.printed:
            return None
        return "wrong" if self.wrong else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The lecture's own words, and whether they hold by what was computed.

    texts.toml says `why`, with `values` in its places.
    """

    words: str
    holds: bool
    text: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        return "ok" if self.holds else "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: texts.toml has its `title` and, where there is more to say, its `body`."""

    text: str
    items: tuple[Figure | Quote, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


def items(steps: tuple[Step, ...]) -> Iterator[Figure | Quote]:
    """Every figure and claim, in order."""
    for step in steps:
        yield from step.items


def spelled(rows: Rows, digits: int) -> str:
    """A matrix within a sentence: rows end at `;`."""
    return "; ".join(" ".join(f"{value:.{digits}f}" for value in row) for row in rows)
