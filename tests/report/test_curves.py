"""Curves hold their numbers, say them, and never write one name over another."""

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atento.report.curves import LINE, Chart, Level, Series, curves, picture

CHART = Chart(
    title="a < b",
    series=[
        Series(name="validation", points=[(100, 2.5), (200, 2.25), (300, 2.0)]),
        Series(name="train", points=[(100, 3.0), (200, 2.5), (300, 2.25)]),
    ],
    levels=[Level(name="bigram", value=2.4875), Level(name="uniform", value=4.19)],
    x="step",
    y="loss",
)


def parts(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def names(root: ElementTree.Element) -> list[tuple[str, float, float]]:
    """(text, left, baseline) of the names at the right: they begin where the leaders end."""
    leaders = [p for p in root.findall("polyline") if p.get("class") == "leader"]
    ends = {float(p.get("points", "").split()[-1].split(",")[0]) + 3 for p in leaders}
    texts = [t for t in root.findall("text") if t.get("text-anchor") == "start"]
    spots = [(t.text or "", float(t.get("x", "0")), float(t.get("y", "0"))) for t in texts]
    return [spot for spot in spots if any(abs(spot[1] - end) < 0.1 for end in ends)]


def test_points_are_where_their_numbers_are() -> None:
    root = parts(curves(CHART))
    lines = [p for p in root.findall("polyline") if "series" in p.get("class", "")]
    assert [p.get("class") for p in lines] == ["series s1", "series s2"]
    spots = [
        [tuple(map(float, pair.split(","))) for pair in (line.get("points") or "").split()]
        for line in lines
    ]
    for (x, y), (other_x, other_y) in zip(*spots, strict=True):
        assert x == other_x
        assert y > other_y, "the larger loss is higher"
    (left, _), (middle, half), (right, low) = spots[0]
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert low - half == pytest.approx(half - spots[0][0][1], abs=0.2)
    assert spots[1][1][1] == spots[0][0][1], "2.5 is as high in both"


def test_what_a_point_is_worth_is_said_under_the_pointer() -> None:
    said = [t.text for t in parts(curves(CHART)).iter("title")]
    assert said[0] == "a < b"
    assert "validation, step 300: 2.0000" in said
    assert len(said) == 1 + 6


def test_lines_and_levels_are_named_with_their_last_value() -> None:
    found = {text for text, _, _ in names(parts(curves(CHART)))}
    assert found == {"validation 2.000", "train 2.250", "bigram 2.487", "uniform 4.190"}
    portuguese = {text for text, _, _ in names(parts(curves(replace(CHART, lang="pt"))))}
    assert "validation 2,000" in portuguese


VALUES = st.one_of(st.floats(0.1, 12), st.just(2.0), st.just(math.nan), st.just(math.inf))
CHARTS = st.builds(
    Chart,
    title=st.just("t"),
    series=st.lists(
        st.builds(
            Series,
            name=st.text(max_size=50),
            points=st.lists(st.tuples(st.integers(0, 10**9), VALUES), max_size=5),
        ),
        max_size=9,
    ),
    levels=st.lists(st.builds(Level, name=st.text(max_size=9), value=VALUES), max_size=5),
    log_x=st.booleans(),
    size=st.sampled_from([(720.0, 290.0), (350.0, 290.0), (300.0, 90.0)]),
)


@settings(deadline=None, max_examples=60)
@given(CHARTS)
def test_names_never_overlap(chart: Chart) -> None:
    root = parts(curves(chart))
    places = sorted(y for _, _, y in names(root))
    shown = sum(any(math.isfinite(y) for _, y in one.points) for one in chart.series)
    assert len(places) == shown + sum(math.isfinite(level.value) for level in chart.levels)
    assert all(b - a >= LINE - 0.05 for a, b in pairwise(places))
    height = float(root.get("height", "0"))
    assert all(0 < y < height for y in places)
    ticks = [t for t in root.findall("text") if t.get("text-anchor") == "middle"][:-1]
    spans = sorted((float(t.get("x", "0")), 3.7 * len(t.text or "")) for t in ticks)
    assert all(a + w < b - v for (a, w), (b, v) in pairwise(spans))


@pytest.mark.parametrize(
    "points", [[], [(1, 2.0)], [(1, 2.0), (1, 2.0)], [(0, math.nan)], [(7, 0.0), (9, 0.0)]]
)
def test_little_to_draw_is_drawn_all_the_same(points: list[tuple[float, float]]) -> None:
    for log in (False, True):
        parts(curves(Chart(title="t", series=[Series(name="a", points=points)], log_x=log)))


def test_a_long_line_is_thinned_and_ends_where_it_ends() -> None:
    points = [(n, math.sin(n)) for n in range(10_007)]
    svg = curves(Chart(title="t", series=[Series(name="a", points=points)]))
    assert len(svg) < 60_000
    assert "step" not in svg
    assert f": {math.sin(10_006):.4f}" in svg


def test_a_log_axis_has_equal_steps_for_equal_factors() -> None:
    series = [Series(name="a", points=[(1, 0.0), (10, 1.0), (100, 2.0)])]
    root = parts(curves(Chart(title="t", series=series, log_x=True)))
    (line,) = [p for p in root.findall("polyline") if "series" in p.get("class", "")]
    x = [float(pair.split(",")[0]) for pair in (line.get("points") or "").split()]
    assert x[2] - x[1] == pytest.approx(x[1] - x[0], abs=0.2)


def test_a_picture_is_a_file_of_its_own_with_its_style_inside() -> None:
    text = picture(replace(CHART, title="]]> <script>&"))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.find("{http://www.w3.org/2000/svg}style") is not None
    assert "prefers-color-scheme: dark" in text
    assert text.count("http") == 1, "the name of SVG, and no request"


def test_hostile_names_are_text() -> None:
    hostile = "</text><script>alert(1)</script>\u202e\x00\x1b🍕"
    chart = Chart(title=hostile, series=[Series(name=hostile, points=[(1, 2), (2, 1)])], x=hostile)
    root = parts(curves(chart))
    assert not list(root.iter("script"))
    assert (root.findtext("title") or "").startswith("</text><script>")
