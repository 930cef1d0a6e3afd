"""Ticks are round numbers that fit; labels are apart and near where they belong."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atento.report.scale import apart, decimals, log_ticks, ticks

NUMBERS = st.floats(-1e6, 1e6)


@given(NUMBERS, st.floats(1e-3, 1e6), st.integers(2, 13))
def test_ticks_are_round_and_as_many_as_fit(low: float, width: float, most: int) -> None:
    found = ticks(low, low + width, most)
    assert 0 < len(found) <= most
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in found)
    if len(found) > 1:
        step = (found[-1] - found[0]) / (len(found) - 1)
        leading = step / 10 ** math.floor(math.log10(step) + 1e-9)
        assert min(abs(leading - round_one) for round_one in (1, 2, 5, 10)) < 1e-3


@pytest.mark.parametrize(
    ("low", "high", "most", "right"),
    [
        (0, 1200, 7, [0, 200, 400, 600, 800, 1000, 1200]),
        (1.9, 4.2, 6, [2, 2.5, 3, 3.5, 4]),
        (3, 3, 5, []),
        (math.nan, 1, 5, []),
    ],
)
def test_ticks_by_hand(low: float, high: float, most: int, right: list[float]) -> None:
    assert ticks(low, high, most) == pytest.approx(right)


@pytest.mark.parametrize(
    ("low", "high", "most", "right"),
    [
        (10, 1000, 7, [10, 20, 50, 100, 200, 500, 1000]),
        (10, 1000, 5, [10, 30, 100, 300, 1000]),
        (1, 1e6, 7, [1, 10, 100, 1e3, 1e4, 1e5, 1e6]),
        (1, 1e6, 3, [1, 100, 1e4, 1e6]),
        (0, 10, 3, []),
    ],
)
def test_logarithmic_ticks_by_hand(low: float, high: float, most: int, right: list[float]) -> None:
    assert log_ticks(low, high, most) == pytest.approx(right)


def test_decimals_are_those_that_tell_the_ticks_apart() -> None:
    assert [decimals(v) for v in ([1, 2], [0.5, 1.0], [0.25], [1e-4])] == [0, 1, 2, 4]


@settings(max_examples=50)
@given(st.lists(st.floats(0, 100), max_size=7), st.floats(0.5, 13))
def test_labels_are_apart_and_move_least(wanted: list[float], gap: float) -> None:
    low, high = 0.0, 100.0
    found = apart(wanted, gap, low, high)
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    placed = [found[n] for n in order]
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(placed))
    assert all(low - 1e-6 <= y <= high + 1e-6 for y in placed)

    def moved(places: list[float]) -> float:
        return sum((p - wanted[n]) ** 2 for p, n in zip(places, order, strict=True))

    # No run of neighbours can be shifted to a better place without breaking the rules.
    for first in range(len(placed)):
        for last in range(first, len(placed)):
            for shift in (-1e-3, 1e-3):
                other = [y + shift * (first <= n <= last) for n, y in enumerate(placed)]
                legal = all(b - a >= gap for a, b in pairwise(other))
                if legal and low <= other[0] and other[-1] <= high:
                    assert moved(other) >= moved(placed) - 1e-6
