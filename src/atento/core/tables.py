"""The masks that are read from a table; True means *may attend*.

`Documents`, `Padding` and `Blocks` are read at positions, and outside a table nothing is attended;
`Dense` goes by the rows and columns of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from atento.core.arguments import batch_misfit, count, dense_misfit, integers, shape_of, table_of
from atento.core.compose import Mask
from atento.core.positions import Cell, Grid, looked_up, per_sequence

if TYPE_CHECKING:
    from atento.core.biases import DenseBias
    from atento.core.blocks import Tiles

__all__ = ["Blocks", "Dense", "Documents", "Padding", "Where"]


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Equal ids, Int[N] or Int[B, N] read at positions; −1 attends to nothing, nor is attended.

    `packed=True` promises that each document is one contiguous run, and opens the path `varlen`.
    """

    q_ids: Tensor
    k_ids: Tensor | None = None
    packed: bool = False

    def __post_init__(self) -> None:
        integers = (torch.int32, torch.int64, torch.int16, torch.int8)
        object.__setattr__(self, "q_ids", table_of("Documents(q_ids)", self.q_ids, integers))
        if self.k_ids is not None:
            object.__setattr__(self, "k_ids", table_of("Documents(k_ids)", self.k_ids, integers))

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        for name, x in (("q_ids", self.q_ids), ("k_ids", self.k_ids)):
            if x is not None and (why := batch_misfit(f"Documents({name})", x, B)):
                return why
        return None

    def _id(self, table: Tensor, b: Tensor, x: Tensor, nothing: int) -> Tensor:
        value, inside = looked_up(table, b, x)
        return torch.where(inside & (value >= 0), value, nothing)

    def _query(self, b: Tensor, i: Tensor) -> Tensor:
        return self._id(self.q_ids, b, i, -1)

    def _key(self, b: Tensor, j: Tensor) -> Tensor:
        return self._id(self.q_ids if self.k_ids is None else self.k_ids, b, j, -2)

    def allows(self, c: Cell) -> Tensor:
        return self._query(c.b, c.i) == self._key(c.b, c.j)

    def inside(self, c: Cell) -> Tensor | None:
        return (self._query(c.b, c.i) >= 0) & (self._key(c.b, c.j) >= 0)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        q_min, q_max = t.bounds_of_queries(self._query)
        k_min, k_max = t.bounds_of_keys(self._key)
        some = (q_min <= k_max) & (k_min <= q_max) & (q_max >= 0) & (k_max >= 0)
        every = (q_min == q_max) & (k_min == k_max) & (q_min == k_min)
        return some, every


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """j < lengths[b] for lengths Int[B], or keep[b, j] for keep Bool[B, N]; about keys only."""

    keep: Tensor

    reads_query = False

    def __post_init__(self) -> None:
        if not isinstance(self.keep, Tensor):
            raise TypeError(
                "Padding takes lengths Int[B] or keep Bool[B, N] as a tensor; "
                f"got {type(self.keep).__name__}. Write Padding(torch.tensor(lengths))."
            )
        if self.keep.dtype == torch.bool:
            object.__setattr__(self, "keep", table_of("Padding(keep)", self.keep, (torch.bool,)))
        else:
            integers("Padding(lengths)", self.keep, 1)

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        return batch_misfit("Padding", self.keep, B)

    def _kept(self, b: Tensor, j: Tensor) -> Tensor:
        if self.keep.dtype == torch.bool:
            value, inside = looked_up(self.keep, b, j)
            return value & inside
        return j < per_sequence(self.keep, b)

    def allows(self, c: Cell) -> Tensor:
        return self._kept(c.b, c.j)

    def inside(self, c: Cell) -> Tensor | None:
        return looked_up(self.keep, c.b, c.j)[1] if self.keep.dtype == torch.bool else None

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        some, every = t.of_keys(self._kept)
        return t.constant(True) & some, t.constant(True) & every


@dataclass(frozen=True, eq=False)
class Blocks(Mask):
    """table[i // size, j // size], for table Bool[R, C]."""

    table: Tensor
    size: int

    def __post_init__(self) -> None:
        count("Blocks(size=…)", self.size, least=1)
        if (
            not isinstance(self.table, Tensor)
            or self.table.dtype != torch.bool
            or self.table.dim() != 2
        ):
            raise ValueError(f"Blocks(table=…) must be Bool[R, C]; got {shape_of(self.table)}.")

    def allows(self, c: Cell) -> Tensor:
        r, s = c.i // self.size, c.j // self.size
        rows, cols = self.table.shape
        if not rows or not cols:
            return self._known(r, s)
        value = self.table[r.clamp(0, rows - 1), s.clamp(0, cols - 1)]
        return value & self._known(r, s)

    def _known(self, r: Tensor, s: Tensor) -> Tensor:
        rows, cols = self.table.shape
        return (r >= 0) & (r < rows) & (s >= 0) & (s < cols)

    def inside(self, c: Cell) -> Tensor | None:
        return self._known(c.i // self.size, c.j // self.size)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        return t.of_rectangles(self.table, self.size)


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """Bool[Q, K] or Bool[B, 1 or H, Q, K], by this call's rows and columns."""

    table: Tensor

    reads_query = False

    def __post_init__(self) -> None:
        x = self.table
        if not isinstance(x, Tensor) or x.dtype != torch.bool:
            raise TypeError(
                f"Dense takes a boolean tensor, True = may attend; got {shape_of(x)}. "
                "For 0 / −inf floats write Dense.additive(tensor)."
            )
        if x.dim() not in (2, 4):
            raise ValueError(
                f"Dense must be Bool[Q, K] or Bool[B, 1 or H, Q, K]; got {shape_of(x)}. "
                "For padding use Padding(lengths)."
            )
        if x.dim() == 2:
            object.__setattr__(self, "table", x[None, None])

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        return dense_misfit("Dense", self.table, B, H, Q, K)

    @staticmethod
    def additive(x: Tensor) -> tuple[Dense, DenseBias]:
        """(mask, bias) of a float mask that is added to the logits; −inf, or the least, may not."""
        from atento.core.biases import DenseBias

        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"Dense.additive takes a floating tensor; got {shape_of(x)}.")
        open_ = x > torch.finfo(x.dtype).min
        return Dense(open_), DenseBias(x.masked_fill(~open_, 0.0))

    def allows(self, c: Cell) -> Tensor:
        batch, heads = self.table.shape[:2]
        return self.table[c.b if batch > 1 else c.b * 0, c.h if heads > 1 else c.h * 0, c.q, c.k]

    def over(self, grid: Grid) -> Tensor:
        return self.table[:, :, slice(*grid.rows), slice(*grid.cols)]

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        return t.of_dense(self.table)


@dataclass(frozen=True, eq=False)
class Where(Mask):
    """fn(b, h, i, j, *tensors) → bool, FlexAttention's contract; runs on reference, sdpa, flex."""

    fn: Callable[..., Tensor]
    tensors: tuple[Tensor, ...] = ()

    spellable = False

    def __init__(self, fn: Callable[..., Tensor], *tensors: Tensor) -> None:
        if not callable(fn):
            raise TypeError(f"Where takes a function fn(b, h, i, j, *tensors); got {shape_of(fn)}.")
        object.__setattr__(self, "fn", fn)
        object.__setattr__(self, "tensors", tensors)

    def allows(self, c: Cell) -> Tensor:
        return self.fn(c.b, c.h, c.i, c.j, *self.tensors)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        return t.of_dense(self.over(t.grid).expand(-1, -1, *t.shape))
