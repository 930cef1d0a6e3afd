"""Numbers along an axis: round ticks, linear or logarithmic, and labels pushed apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["apart", "decimals", "log_ticks", "ticks"]


def ticks(low: float, high: float, most: int) -> list[float]:
    """The multiples of 1, 2 or 5 · 10^k within [low, high], at most `most` of them.

    The finest such steps are taken, and none where low = high.
    Claim: report/test_scale.py::test_ticks_are_round_and_as_many_as_fit
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return []
    power = math.floor(math.log10((high - low) / max(most, 1))) - 1
    while True:
        for factor in (1, 2, 5):
            step = factor * 10.0**power
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first + 1 <= most:
                return [round(n * step, 12) for n in range(first, last + 1)]
        power += 1


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """1, 2, 5 · 10^k within [low, high], where they are no nearer to each other than `most` evenly
    spaced ticks would be; else powers of ten, or each so many of them."""
    if not 0 < low < high < math.inf:
        return []
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    room = math.log10(high / low) / max(most, 1)
    for factors, nearest in (((1, 2, 5), math.log10(2)), ((1, 3), math.log10(3))):
        if nearest >= room:
            every = (f * 10.0**p for p in powers for f in factors)
            return [value for value in every if low <= value <= high]
    tens = [10.0**p for p in powers if low <= 10.0**p <= high]
    return tens[:: max(1, math.ceil(room))]


def decimals(values: Sequence[float]) -> int:
    """How many decimals it takes to write all of these ticks."""
    for digits in range(9):
        if all(math.isclose(v, round(v, digits), rel_tol=1e-9, abs_tol=1e-12) for v in values):
            return digits
    return 9


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` from each other, in [low, high], nearest to those wanted.

    Of all such places they have the least sum of squared moves: with u_n = y_n − n · gap for sorted
    y, the condition is that u grows, and pooling neighbours that do not into their mean solves it.
    There must be room: (count − 1) · gap ≤ high − low.
    Ref: Ayer et al. 1955, the pool-adjacent-violators algorithm.
    Claim: report/test_scale.py::test_labels_are_apart_and_move_least
    """
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    pools: list[tuple[float, int]] = []  # (mean of u, how many)
    for place, n in enumerate(order):
        mean, count = wanted[n] - place * gap, 1
        while pools and pools[-1][0] > mean:
            before, others = pools.pop()
            mean = (before * others + mean * count) / (others + count)
            count += others
        pools.append((mean, count))
    shifted = [mean for mean, count in pools for _ in range(count)]
    room = high - (len(wanted) - 1) * gap
    found = [0.0] * len(wanted)
    for place, n in enumerate(order):
        found[n] = min(max(shifted[place], low), max(room, low)) + place * gap
    return found
