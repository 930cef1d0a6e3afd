"""Convex combinations of points in the plane: how near they can come to a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from atento.lessons.lesson import Rows

__all__ = ["nearest"]

Point = tuple[float, ...]


def nearest(point: Sequence[float], corners: Rows) -> Point:
    """The convex combination of three corners [3, 2] that is nearest to the point."""
    here = tuple(point)
    if _inside(here, corners):
        return here
    edges = (_nearest_on_edge(here, a, b) for a, b in combinations(corners, 2))
    return min(edges, key=lambda found: math.dist(found, here))


def _inside(point: Point, corners: Rows) -> bool:
    a, b, c = corners
    turns = [_turn(a, b, point), _turn(b, c, point), _turn(c, a, point)]
    return all(turn >= 0 for turn in turns) or all(turn <= 0 for turn in turns)


def _turn(a: Point, b: Point, point: Point) -> float:
    """Positive where a → b → point turns left."""
    return (b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0])


def _nearest_on_edge(point: Point, a: Point, b: Point) -> Point:
    along = [end - start for start, end in zip(a, b, strict=True)]
    length = sum(step * step for step in along)
    share = sum(d * (p - s) for d, p, s in zip(along, point, a, strict=True)) / length
    share = min(max(share, 0.0), 1.0)
    return tuple(start + share * step for start, step in zip(a, along, strict=True))
