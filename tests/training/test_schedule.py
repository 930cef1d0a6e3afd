"""The rate rises, then falls along a cosine or a line, or stays."""

from itertools import pairwise

import pytest

from atento.training.config import Train
from atento.training.schedule import rate_at


def test_rises_to_the_rate_and_falls_to_the_floor() -> None:
    config = Train(steps=1001, warmup=100, rate=0.3, floor=0.1)
    rates = [rate_at(step, config) for step in range(1001)]
    assert rates[0] == pytest.approx(0.003)
    assert rates[49] == pytest.approx(0.15)
    assert rates[99] == rates[100] == max(rates) == pytest.approx(0.3)
    assert rates[550] == pytest.approx(0.165)  # half way down
    assert rates[1000] == min(rates[100:]) == pytest.approx(0.03)
    assert all(a >= b for a, b in pairwise(rates[100:]))


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [1, 7, 101])
def test_the_peak_is_exactly_at_the_end_of_the_warmup(schedule: str, warmup: int) -> None:
    config = Train(steps=1009, warmup=warmup, rate=0.3, schedule=schedule)
    rates = [rate_at(step, config) for step in range(1009)]
    assert rates[warmup] == rates[warmup - 1] == max(rates) == 0.3
    assert all(a < b for a, b in pairwise(rates[:warmup]))
    falling = all(a > b for a, b in pairwise(rates[warmup:]))
    assert falling == (schedule != "constant")


def test_a_line_and_a_constant_by_hand() -> None:
    line = Train(steps=21, warmup=0, rate=1.0, floor=0.2, schedule="linear")
    assert [rate_at(n, line) for n in (0, 5, 10, 20)] == pytest.approx([1.0, 0.8, 0.6, 0.2])
    flat = Train(steps=21, warmup=2, rate=0.7, schedule="constant")
    assert [rate_at(n, flat) for n in (0, 1, 2, 20)] == pytest.approx([0.35, 0.7, 0.7, 0.7])
    assert rate_at(20, flat, 3.0) == 3.0


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_stable_share_by_hand(schedule: str) -> None:
    config = Train(steps=21, warmup=2, rate=1.0, stable=0.5, floor=0.2, schedule=schedule)
    rates = [rate_at(n, config) for n in range(21)]
    assert rates[:11] == pytest.approx([0.5] + [1.0] * 10)  # round(10.5) = 10 ends the share
    assert rates[15] == pytest.approx(0.6)  # half way from 10 to 20
    assert rates[20] == pytest.approx(0.2)
    assert all(a > b for a, b in pairwise(rates[10:]))


def test_a_warmup_longer_than_the_stable_share_is_not_cut() -> None:
    config = Train(steps=21, warmup=4, rate=1.0, stable=0.1, schedule="linear")
    assert [rate_at(n, config) for n in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert rate_at(5, config) < 1.0


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_all_steps_stable_never_fall(schedule: str) -> None:
    config = Train(steps=7, warmup=0, rate=1.0, stable=1.0, floor=0.0, schedule=schedule)
    assert [rate_at(n, config) for n in range(7)] == [1.0] * 7


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_few_steps_have_a_rate_too(steps: int) -> None:
    rates = [rate_at(step, Train(steps=steps)) for step in range(steps)]
    assert max(rates) == rates[0] == 1e-3
    assert min(rates) > 0


def test_the_inverse_square_root_by_hand() -> None:
    config = Train(steps=1000, warmup=4, rate=0.6, floor=0.1, schedule="inverse-sqrt")
    rates = [rate_at(step, config) for step in range(1000)]
    assert rates[:4] == pytest.approx([0.15, 0.3, 0.45, 0.6])
    # The 9th, 16th and 100th step: √(4 / t) is 2 / 3, 1 / 2 and 1 / 5.
    assert [rates[t - 1] for t in (9, 16, 100)] == pytest.approx([0.4, 0.3, 0.12])
    assert rates[399] == rates[999] == pytest.approx(0.06)  # a tenth, from the 400th on
    assert all(a > b for a, b in pairwise(rates[3:399]))
