"""The masks: which query i may attend to which key j. True means *may attend*.

i and j are positions. Tables are read at positions, and outside a table nothing is attended; only
`Dense` and `Edges` go by the rows and columns of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from atento.core.arguments import batch_misfit, count, integers, table_of
from atento.core.compose import Mask
from atento.core.positions import Cell, looked_up, per_sequence

if TYPE_CHECKING:
    from atento.core.blocks import Tiles

__all__ = ["Causal", "Dilated", "Full", "Global", "Prefix", "Window", "bigbird", "longformer"]


@dataclass(frozen=True, eq=False)
class Full(Mask):
    """Everything may attend to everything."""

    reads_query = False

    def allows(self, c: Cell) -> Tensor:
        return c.k >= 0

    everything = True

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        return t.constant(True), t.constant(True)

    def keeps_self(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """i − before ≤ j ≤ i + after: neighbours besides oneself; None is unbounded.

    Window(255) is causal and sees 256 keys: itself and the 255 before it.
    """

    before: int | None
    after: int | None = 0

    def __post_init__(self) -> None:
        for name, value in (("before", self.before), ("after", self.after)):
            if value is not None:
                count(f"Window({name}=…)", value, least=0)

    @property
    def everything(self) -> bool:
        return self.before is None and self.after is None

    @property
    def reads_query(self) -> bool:  # type: ignore[override]
        return not self.everything

    def allows(self, c: Cell) -> Tensor:
        ahead = None if self.after is None else c.j <= c.i + self.after
        behind = None if self.before is None else c.j >= c.i - self.before
        if ahead is None:
            return c.k >= 0 if behind is None else behind
        return ahead if behind is None else ahead & behind

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        some, every = t.constant(True), t.constant(True)
        if self.after is not None:
            some = some & (t.j_min <= t.i_max + self.after)
            every = every & (t.j_max <= t.i_min + self.after)
        if self.before is not None:
            some = some & (t.j_max >= t.i_min - self.before)
            every = every & (t.j_min >= t.i_max - self.before)
        return some, every

    def span(self) -> tuple[int | None, int | None]:
        return self.before, self.after

    def meet(self, other: Mask) -> Mask | None:
        if not isinstance(other, Window):
            return None
        return _window(_tighter(self.before, other.before), _tighter(self.after, other.after))

    def keeps_self(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "Causal()" if (self.before, self.after) == (None, 0) else _plain_repr(self)


def Causal() -> Window:
    """j ≤ i; the same as Window(None, 0)."""
    return _CAUSAL


@lru_cache(maxsize=1024)
def _window(before: int | None, after: int | None) -> Mask:
    if before is None and after is None:
        return Full()
    return _CAUSAL if (before, after) == (None, 0) else Window(before, after)


def _tighter(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _plain_repr(w: Window) -> str:
    return f"Window(before={w.before}, after={w.after})"


_CAUSAL = Window(None, 0)


@dataclass(frozen=True, eq=False)
class Dilated(Mask):
    """(i − j) mod step = 0."""

    step: int

    def __post_init__(self) -> None:
        count("Dilated(step=…)", self.step, least=1)

    def allows(self, c: Cell) -> Tensor:
        return (c.i - c.j) % self.step == 0

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        least, most = t.i_min - t.j_max, t.i_max - t.j_min
        first = torch.div(most, self.step, rounding_mode="floor") * self.step
        some = first >= least
        return some, some & (least == most) if self.step > 1 else t.constant(True)

    def density(self, queries: int, keys: int) -> float:
        return 1.0 / self.step

    def keeps_self(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Global(Mask):
    """i ∈ G or j ∈ G; G is a list of positions or Bool[N] or Bool[B, N], read at positions."""

    positions: Tensor | tuple[int, ...]

    def __init__(self, positions: Tensor | Sequence[int]) -> None:
        if isinstance(positions, Tensor):
            kept: Tensor | tuple[int, ...] = table_of("Global", positions, (torch.bool,))
        elif isinstance(positions, Sequence):
            kept = tuple(sorted({count("Global([…])", p, least=0) for p in positions}))
        else:
            raise TypeError(
                f"Global takes a list of positions or a Bool[N] or Bool[B, N]; got {positions!r}."
            )
        object.__setattr__(self, "positions", kept)

    def _member(self, b: Tensor, x: Tensor) -> Tensor:
        if isinstance(self.positions, Tensor):
            value, inside = looked_up(self.positions, b, x)
            return value & inside
        found = x < -1
        for p in self.positions:
            found = found | (x == p)
        return found

    def allows(self, c: Cell) -> Tensor:
        found = self._member(c.b, c.i) | self._member(c.b, c.j)
        if not isinstance(self.positions, Tensor):
            return found
        return found & looked_up(self.positions, c.b, c.j)[1]

    def inside(self, c: Cell) -> Tensor | None:
        if not isinstance(self.positions, Tensor):
            return None
        return looked_up(self.positions, c.b, c.i)[1] & looked_up(self.positions, c.b, c.j)[1]

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        q_some, q_every = t.of_queries(self._member)
        k_some, k_every = t.of_keys(self._member)
        some, every = q_some | k_some, q_every | k_every
        if isinstance(self.positions, Tensor):  # a key outside of the table is attended by nothing
            table = self.positions
            known, all_known = t.of_keys(lambda b, j: looked_up(table, b, j)[1])
            some, every = some & known, every & all_known
        return some, every

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        if not isinstance(self.positions, Tensor):
            return None
        return batch_misfit("Global(positions)", self.positions, B)

    def density(self, queries: int, keys: int) -> float:
        if isinstance(self.positions, Tensor):
            return 1.0
        return min(1.0, len(self.positions) * (1 / max(queries, 1) + 1 / max(keys, 1)))


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """j < n, for an int or Int[B]; a prefix language model is Causal() | Prefix(n)."""

    n: int | Tensor

    reads_query = False

    def __post_init__(self) -> None:
        if isinstance(self.n, Tensor):
            integers("Prefix(n=…)", self.n, 1)
        else:
            count("Prefix(n=…)", self.n, least=0)

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        return batch_misfit("Prefix(n)", self.n, B) if isinstance(self.n, Tensor) else None

    def _length(self, b: Tensor) -> Tensor | int:
        return per_sequence(self.n, b) if isinstance(self.n, Tensor) else self.n

    def allows(self, c: Cell) -> Tensor:
        return c.j < self._length(c.b)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        n = self._length(t.b)
        return t.constant(True) & (t.j_min < n), t.constant(True) & (t.j_max < n)


def longformer(window: int, positions: Tensor | Sequence[int]) -> Mask:
    """Local attention to `window` neighbours on each side, and global positions.

    Ref: Beltagy et al. 2020, arXiv:2004.05150 (without its separate global projections).
    """
    return Window(window, window) | Global(positions)


def bigbird(
    window: int, positions: Tensor | Sequence[int], random: int, size: int, seed: int
) -> Mask:
    """longformer plus `random` blocks of `size` keys drawn for each block of queries.

    Ref: Zaheer et al. 2020, arXiv:2007.14062.
    """
    from atento.core.random_blocks import RandomBlocks

    return longformer(window, positions) | RandomBlocks(random, size, seed)
