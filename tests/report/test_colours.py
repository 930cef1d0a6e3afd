"""Colours of numbers can be told apart in grey, and text on them can be read."""

from itertools import pairwise

import pytest

from atento.report.colours import VIRIDIS, colour, contrasting, luminance

SHARES = [n / 101 for n in range(102)]


def test_lightness_grows_along_the_scale() -> None:
    lights = [luminance(colour(share)) for share in SHARES]
    assert all(darker < lighter for darker, lighter in pairwise(lights))


def test_the_ends_are_viridis_own_and_hold_what_lies_outside() -> None:
    assert colour(0) == colour(-3) == VIRIDIS[0]
    assert colour(1) == colour(7) == VIRIDIS[-1]


@pytest.mark.parametrize(("shade", "light"), [("#000000", 0.0), ("#ffffff", 1.0)])
def test_luminance_of_black_and_white(shade: str, light: float) -> None:
    assert luminance(shade) == pytest.approx(light)


def test_text_has_a_contrast_of_at_least_four_and_a_half() -> None:
    for share in SHARES:
        shade = colour(share)
        dark, light = sorted((luminance(shade), luminance(contrasting(shade))))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
