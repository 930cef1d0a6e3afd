"""Colours of the pages: text can be read on both papers, and series are told apart without hue."""

import re

import pytest

from atento.report.colours import luminance
from atento.report.style import DARK, LIGHT, PICTURE, SERIES


def colours(declared: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", declared))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("declared", [LIGHT, DARK], ids=["light", "dark"])
def test_text_of_every_colour_can_be_read_in_light_and_dark(declared: str) -> None:
    found = colours(declared)
    for name in ("ink", "quiet", "right", "wrong", *(f"s{n + 1}" for n in range(SERIES))):
        for paper in ("paper", "box"):
            assert contrast(found[name], found[paper]) >= 4.5, (name, paper)


def test_both_papers_have_the_same_colours() -> None:
    assert colours(LIGHT).keys() == colours(DARK).keys()


def test_every_series_but_the_first_has_dashes_of_its_own() -> None:
    dashes = re.findall(r"\.series\.s(\d) \{ stroke-dasharray: ([\d ]+) \}", PICTURE)
    assert [int(n) for n, _ in dashes] == list(range(2, SERIES + 1))
    assert len({pattern for _, pattern in dashes}) == SERIES - 1
