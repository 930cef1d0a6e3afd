"""A matrix as a picture: inline SVG, each cell with its colour and, if there is room, its value."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import east_asian_width

from atento.report.colours import colour, contrasting
from atento.report.markup import Html, element, joined
from atento.report.numbers import number

__all__ = ["Axes", "heatmap"]

HEIGHT, LETTER, GAP = 30.0, 9.2, 8.0  # pixels: of a cell, of a letter, around text
SMALL, SQUARE = 12.0, 21.0  # pixels: of a cell without its value, and of one with a name beside
LARGEST_WITH_VALUES = 24  # rows or columns up to which values are written into the cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What stands beside rows and above columns; numbers from 1 where names are missing."""

    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


def heatmap(
    matrix: Sequence[Sequence[float]],
    title: str,
    *,
    axes: Axes | None = None,
    digits: int | None = 3,
    limits: tuple[float, float] | None = None,
    marked: Collection[tuple[int, int]] = (),
) -> Html:
    """An SVG of a matrix; `limits` are the numbers of the scale's ends, else the finite extremes.

    Cells of −∞ and of what is no number have no colour. `marked` cells (row, column, from 0) are
    outlined. Values are written where neither side has more than 24; without `digits` the cells are
    small squares under names that are written upwards.
    """
    rows, columns = len(matrix), len(matrix[0]) if matrix else 0
    names = _names(axes or Axes(), rows, columns)
    written = digits is not None and max(rows, columns) <= LARGEST_WITH_VALUES
    values = [[number(value, digits or 0) for value in row] for row in matrix]
    place = _place(names, values) if written else _Place(0.0, 0.0, SMALL, SMALL)
    ends = limits or _limits(matrix)
    parts = [element("title", None, title)]
    if written:
        parts += _labels(names, place)
    elif digits is None:
        place = _squares(names)
        parts += _upright(names, place)
    for r, row in enumerate(matrix):
        for c, value in enumerate(row):
            text = values[r][c] if written else ""
            share = _share(value, ends)
            parts.append(_cell(place.of(r, c), share, text, (r, c) in marked))
    width, height = (round(side + 2) for side in place.of(rows, columns)[:2])
    size: dict[str, str | float] = {
        "viewBox": f"0 0 {width} {height}",
        "width": width,
        "height": height,
    }
    kind = "heatmap squares" if digits is None else "heatmap"
    return element("svg", {**size, "role": "figure", "class": kind}, *parts)


class _Place(NamedTuple):
    """Where the cells are, in pixels."""

    left: float
    top: float
    width: float
    height: float

    def of(self, r: int, c: int) -> tuple[float, float, float, float]:
        """x, y, width and height of a cell."""
        x, y = self.left + c * self.width, self.top + r * self.height
        return x, y, self.width, self.height


def _place(names: tuple[list[str], list[str]], values: Sequence[Sequence[str]]) -> _Place:
    """Room for the longest value or column name in each cell, and for the row names."""
    longest = max((_letters(text) for row in [names[1], *values] for text in row), default=1)
    left = max(map(_letters, names[0]), default=0) * LETTER + GAP
    return _Place(left, HEIGHT, longest * LETTER + GAP, HEIGHT)


def _squares(names: tuple[list[str], list[str]]) -> _Place:
    """Room for the longest names beside and above square cells."""
    left, top = (max(map(_letters, side), default=0) * LETTER + GAP for side in names)
    return _Place(left, top, SQUARE, SQUARE)


def _letters(text: str) -> int:
    """How many letters wide the text is; Chinese, Japanese and Korean signs count twice."""
    return sum(2 if east_asian_width(mark) in "WF" else 1 for mark in text)


def _names(axes: Axes, rows: int, columns: int) -> tuple[list[str], list[str]]:
    """What stands beside each row and above each column."""
    return (
        [*axes.rows, *map(str, range(len(axes.rows) + 1, rows + 1))],
        [*axes.columns, *map(str, range(len(axes.columns) + 1, columns + 1))],
    )


def _labels(names: tuple[list[str], list[str]], place: _Place) -> list[Html]:
    left, top, width, height = place
    return [
        *(
            _label(name, left - GAP, top + (r + 0.5) * height + 5, "end")
            for r, name in enumerate(names[0])
        ),
        *(
            _label(name, left + (c + 0.5) * width, top - 10, "middle")
            for c, name in enumerate(names[1])
        ),
    ]


def _upright(names: tuple[list[str], list[str]], place: _Place) -> list[Html]:
    """Names beside the rows, and above the columns from bottom to top where one is long."""
    left, top, side, _ = place
    beside = [
        _label(name, left - GAP, top + (r + 0.5) * side + 5, "end")
        for r, name in enumerate(names[0])
    ]
    if max(map(_letters, names[1]), default=0) <= 2:
        return beside + [
            _label(name, left + (c + 0.5) * side, top - GAP, "middle")
            for c, name in enumerate(names[1])
        ]
    for c, name in enumerate(names[1]):
        x, y = left + (c + 0.5) * side + 5, top - GAP
        turned: dict[str, str | float] = {"x": x, "y": y, "class": "label"}
        turn = f"rotate(-90 {x:.2f} {y:.2f})"
        beside.append(element("text", {**turned, "transform": turn}, name))
    return beside


def _share(value: float, limits: tuple[float, float]) -> float | None:
    """The value's place on the scale; None where it is not finite."""
    if not math.isfinite(value):
        return None
    low, high = limits
    return (value - low) / (high - low) if high > low else 0.5


def _limits(matrix: Sequence[Sequence[float]]) -> tuple[float, float]:
    finite = [value for row in matrix for value in row if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)


def _cell(
    box: tuple[float, float, float, float], share: float | None, text: str, marked: bool
) -> Html:
    x, y, width, height = box
    place: dict[str, str | float] = {"x": x, "y": y, "width": width, "height": height}
    middle = {"x": x + width / 2, "y": y + height / 2 + 5}
    said: dict[str, str | float] = {**middle, "text-anchor": "middle"}
    if share is None:
        place["class"], said["class"] = "none", "label"
    else:
        shade = colour(share)
        place["fill"], said["fill"] = shade, contrasting(shade)
    parts = [element("rect", place)]
    if marked:
        inner = {"x": x + 2, "y": y + 2, "width": width - 4, "height": height - 4}
        stroke = said.get("fill", "currentColor")
        parts.append(
            element("rect", {**inner, "class": "marked", "fill": "none", "stroke": stroke})
        )
    if text:
        parts.append(element("text", said, text))
    return joined(parts)


def _label(text: str, x: float, y: float, anchor: str) -> Html:
    return element("text", {"x": x, "y": y, "text-anchor": anchor, "class": "label"}, text)
