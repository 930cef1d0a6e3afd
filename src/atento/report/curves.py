"""Lines of numbers as a picture: inline SVG with axes, levels, and names where the lines end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width

from atento.report.markup import Html, element, joined
from atento.report.numbers import number, spelled
from atento.report.scale import apart, decimals, log_ticks, ticks
from atento.report.style import DARK, LIGHT, PICTURE, SERIES

__all__ = ["Chart", "Level", "Series", "curves", "picture", "sizes"]

LETTER, LINE = 7.4, 17.0  # pixels: of a letter and a line of text, at 13 pixels
LONGEST = 30  # letters of a name, on a picture of any width
NAMED = 0.42  # of the width: what names may take
DRAWN = 600  # points of a line; more cannot be seen
DOTS = 40  # points up to which each has a dot
TOUCHED = 80  # points that say their values under the pointer

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A named line; `spread` are the lowest and the highest around each of its points."""

    name: str
    points: Sequence[Point]
    spread: Sequence[Point] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A number to compare with: a dotted line across."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What is drawn; points that are no finite numbers are left out."""

    title: str
    series: Sequence[Series]
    levels: Sequence[Level] = ()
    x: str = ""
    y: str = ""
    log_x: bool = False
    digits: int = 3
    lang: str = "en"
    size: tuple[float, float] = field(default=(680.0, 330.0))


def curves(chart: Chart, kind: str = "") -> Html:
    """The chart as SVG, taller than asked where the names at the right need it.

    Names of lines and levels stand beside their ends, pushed apart, and a thin line leads to each
    that had to move; under the pointer each point says its value.
    Claim: report/test_curves.py::test_names_never_overlap
    """
    place = _Place.of(chart)
    parts = [
        element("title", None, chart.title),
        *_grid(chart, place),
        *(_level(level, place) for level in chart.levels if math.isfinite(level.value)),
        *(_band(one, n, place) for n, one in enumerate(chart.series)),
        *(_line(one, n, place) for n, one in enumerate(chart.series)),
        *_names(chart, place),
        *(_touch(chart, one, n, place) for n, one in enumerate(chart.series)),
    ]
    size: dict[str, str | float] = {
        "viewBox": f"0 0 {place.width:.0f} {place.height:.0f}",
        "width": place.width,
        "height": place.height,
    }
    return element("svg", {**size, "role": "figure", "class": f"curves {kind}".strip()}, *parts)


def picture(chart: Chart) -> str:
    """The chart as an SVG file of its own, with its style inside, light and dark."""
    style = (
        f"svg {{ {LIGHT} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {DARK} }} }}\n{PICTURE}"
    )
    inner, margin = curves(chart), 16
    wide, high = (round(n) + 2 * margin for n in sizes(chart))
    paper = element("rect", {"width": "100%", "height": "100%", "fill": "var(--paper)"})
    moved = element("g", {"transform": f"translate({margin} {margin})"}, inner)
    outer = {"xmlns": "http://www.w3.org/2000/svg", "width": str(wide), "height": str(high)}
    return element("svg", outer, element("style", None, Html(style)), paper, moved) + "\n"


def sizes(chart: Chart) -> tuple[float, float]:
    """How wide and how high the picture is, in pixels."""
    place = _Place.of(chart)
    return place.width, place.height


@dataclass(frozen=True, slots=True)
class _Place:
    """Where numbers are, in pixels."""

    width: float
    height: float
    box: tuple[float, float, float, float]  # left, top, right, bottom
    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: list[float]
    y_ticks: list[float]
    log: bool

    @classmethod
    def of(cls, chart: Chart) -> _Place:
        xs = [x for one in chart.series for x, _ in _finite(one)]
        log = chart.log_x and min(xs, default=0.0) > 0
        x = _around(xs, 0.0)
        values = [v for one in chart.series for _, v in _finite(one)]
        values += [v for one in chart.series for pair in one.spread for v in pair]
        y = _around([*values, *(level.value for level in chart.levels)], 0.05)
        count = sum(1 for _ in _ends(chart))
        width, top, bottom = chart.size[0], 26.0, 40.0
        height = max(chart.size[1], top + bottom + count * LINE)
        y_ticks = ticks(*y, max(2, int((height - top - bottom) / 44)))
        left = 12 + LETTER * max((len(t) for t in _written(y_ticks, chart.lang)), default=1)
        right = (
            width - 22 - LETTER * max((_letters(name) for name, _, _ in _ends(chart)), default=0)
        )
        right = max(right, left + 60)
        widest = max((len(t) for t in _written([*x], chart.lang)), default=1)
        # n ticks within a range may be as near as an (n + 1)-th of it.
        most = max(1, int((right - left) / (LETTER * widest + 20)) - 1)
        x_ticks = log_ticks(*x, most) if log else ticks(*x, most)
        return cls(width, height, (left, top, right, height - bottom), x, y, x_ticks, y_ticks, log)

    def across(self, x: float) -> float:
        low, high = map(math.log, self.x) if self.log else self.x
        share = ((math.log(x) if self.log else x) - low) / (high - low)
        return self.box[0] + share * (self.box[2] - self.box[0])

    def up(self, y: float) -> float:
        share = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.box[3] - share * (self.box[3] - self.box[1])


def _around(values: Sequence[float], spare: float) -> tuple[float, float]:
    """The extremes, with room for a share of it around them, and never the same twice."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if low == high:
        return (low / 2, high * 1.5) if low > 0 else (low - 1, high + 1)
    return low - spare * (high - low), high + spare * (high - low)


def _finite(series: Series) -> list[Point]:
    """The points that can be drawn, a few hundred at most, the last one among them."""
    good = [(x, y) for x, y in series.points if math.isfinite(x) and math.isfinite(y)]
    return _thinned(good, DRAWN)


def _thinned(points: list[Point], most: int) -> list[Point]:
    step = -(-len(points) // most)
    return points if step <= 1 else [*points[:-1:step], points[-1]]


def _letters(text: str) -> int:
    return sum(2 if east_asian_width(mark) in "WF" else 1 for mark in text)


def _shortened(name: str, chart: Chart) -> str:
    """The name, without its middle where it is too long: names often differ at their ends."""
    most = min(LONGEST, int(chart.size[0] * NAMED / LETTER) - chart.digits - 3)
    if len(name) <= most:
        return name
    end = max(1, (most - 1) * 2 // 3)
    return f"{name[: max(1, most - 1 - end)]}…{name[-end:]}"


def _ends(chart: Chart) -> Iterator[tuple[str, float, str]]:
    """(what stands there, at which value, of which class) at the right end of each line."""
    for n, one in enumerate(chart.series):
        if points := _finite(one):
            value = spelled(number(points[-1][1], chart.digits), chart.lang)
            yield f"{_shortened(one.name, chart)} {value}", points[-1][1], f"name s{n % SERIES + 1}"
    for level in chart.levels:
        if math.isfinite(level.value):
            value = spelled(number(level.value, chart.digits), chart.lang)
            yield f"{_shortened(level.name, chart)} {value}", level.value, "quiet"


def _written(values: Sequence[float], lang: str) -> list[str]:
    digits = decimals(values) if len(values) > 2 else 0
    return [spelled(f"{value:,.{digits}f}", lang) for value in values]


def _grid(chart: Chart, place: _Place) -> Iterator[Html]:
    left, top, right, bottom = place.box
    for value, text in zip(place.y_ticks, _written(place.y_ticks, chart.lang), strict=True):
        y = place.up(value)
        yield element("line", {"x1": left, "x2": right, "y1": y, "y2": y, "class": "grid"})
        yield _text(text, left - 7, y + 4.5, "quiet", "end")
    yield element("line", {"x1": left, "x2": right, "y1": bottom, "y2": bottom, "class": "grid"})
    for value, text in zip(place.x_ticks, _written(place.x_ticks, chart.lang), strict=True):
        x = place.across(value)
        yield element("line", {"x1": x, "x2": x, "y1": bottom, "y2": bottom + 4, "class": "grid"})
        yield _text(text, x, bottom + 18, "quiet", "middle")
    yield _text(chart.y, 0.0, top - 12, "quiet", "start")
    yield _text(chart.x, (left + right) / 2, bottom + 35, "quiet", "middle")


def _text(text: str, x: float, y: float, kind: str, anchor: str) -> Html:
    return element("text", {"x": x, "y": y, "class": kind, "text-anchor": anchor}, text)


def _level(level: Level, place: _Place) -> Html:
    y = place.up(level.value)
    ends = {"x1": place.box[0], "x2": place.box[2], "y1": y, "y2": y}
    return element("line", {**ends, "class": "level"})


def _path(points: Sequence[Point], place: _Place) -> str:
    return " ".join(f"{place.across(x):.1f},{place.up(y):.1f}" for x, y in points)


def _band(one: Series, n: int, place: _Place) -> Html:
    if len(one.spread) != len(one.points) or len(one.points) < 2:
        return Html("")
    along = [x for x, _ in one.points]
    edge = [(x, low) for x, (low, _) in zip(along, one.spread, strict=True)]
    edge += [(x, high) for x, (_, high) in zip(along, one.spread, strict=True)][::-1]
    return element("polygon", {"points": _path(edge, place), "class": f"band s{n % SERIES + 1}"})


def _line(one: Series, n: int, place: _Place) -> Html:
    points, kind = _finite(one), f"s{n % SERIES + 1}"
    parts = []
    if len(points) > 1:
        path = {"points": _path(points, place), "class": f"series {kind}"}
        parts.append(element("polyline", path))
    if len(points) <= DOTS:
        parts += [
            element(
                "circle",
                {"cx": place.across(x), "cy": place.up(y), "r": "3.5", "class": f"dot {kind}"},
            )
            for x, y in points
        ]
    return joined(parts)


def _names(chart: Chart, place: _Place) -> Iterator[Html]:
    """The names at the right, each led to from the end of its line where it had to move."""
    _, top, right, bottom = place.box
    ends = list(_ends(chart))
    wanted = [place.up(value) for _, value, _ in ends]
    low, high = top - 8, max(bottom - 4, top - 8 + (len(ends) - 1) * LINE)
    for (name, _, kind), at, y in zip(ends, wanted, apart(wanted, LINE, low, high), strict=True):
        path = f"{right + 2:.1f},{at:.1f} {right + 8:.1f},{at:.1f} {right + 16:.1f},{y:.1f}"
        yield element("polyline", {"points": path, "class": "leader"})
        yield _text(name, right + 19, y + 4.5, kind, "start")


def _touch(chart: Chart, one: Series, n: int, place: _Place) -> Html:
    """Circles that are not seen, and say the value of what is beneath them."""
    dots = []
    for x, y in _thinned(_finite(one), TOUCHED):
        along = spelled(f"{x:,.0f}" if x == round(x) else f"{x:,.4g}", chart.lang)
        value = spelled(number(y, chart.digits + 1), chart.lang)
        spot: dict[str, str | float] = {
            "cx": place.across(x),
            "cy": place.up(y),
            "r": "8",
            "class": "touch",
        }
        said = element("title", None, f"{one.name}, {chart.x} {along}: {value}")
        dots.append(element("g", None, said, element("circle", spot)))
    return joined(dots)
