"""Where the queries and keys of a call stand: absolute positions, given once, as `at`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from atento.core.structure import Structured

__all__ = ["Positions"]


@dataclass(frozen=True, eq=False)
class Positions(Structured):
    """Positions of the queries, Int[Q] or Int[B, Q], and of the keys, Int[K] or Int[B, K].

    A key at position −1 is an empty slot: nothing attends to it, whatever the mask says.
    """

    q: Tensor
    k: Tensor

    def __post_init__(self) -> None:
        for name, x in (("q", self.q), ("k", self.k)):
            if not isinstance(x, Tensor) or x.is_floating_point() or x.dtype == torch.bool:
                raise TypeError(
                    f"Positions({name}=…) must be an integer tensor [{name.upper()}] or "
                    f"[B, {name.upper()}]; got {_kind(x)}. Use torch.arange(…) for a run."
                )
            if x.dim() not in (1, 2):
                raise ValueError(
                    f"Positions({name}=…) must have 1 or 2 axes; got shape {list(x.shape)}."
                )


At = int | Tensor | Positions | None


class Place(NamedTuple):
    """`at`, resolved: `start` where positions are a run (keys are 0…K−1), else tensors [B|1, N]."""

    start: int = 0
    q: Tensor | None = None
    k: Tensor | None = None

    def queries(self, count: int, device: torch.device) -> Tensor:  # [B|1, Q]
        if self.q is not None:
            return self.q
        return torch.arange(count, device=device)[None] + self.start

    def keys(self, count: int, device: torch.device) -> Tensor:  # [B|1, K]
        if self.k is not None:
            return self.k
        return torch.arange(count, device=device)[None]


def resolved(at: At, queries: int, device: torch.device) -> Place:
    """The place that `at` names."""
    if at is None:
        return Place()
    if isinstance(at, Positions):
        return Place(0, _rows(at.q.long()), _rows(at.k.long()))
    if isinstance(at, Tensor):
        first = at.long().reshape(-1, 1)
        # Keys stay a run 0…K−1: only the queries' positions differ from one sequence to the next.
        return Place(0, first + torch.arange(queries, device=device)[None], None)
    return Place(at)


def _rows(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x[None]


def _kind(x: object) -> str:
    return f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__


class Cell(NamedTuple):
    """Indices that broadcast over [B, H, Q, K]: batch, head, row, column, and the two positions.

    Inside FlexAttention each is a scalar; elsewhere they are aranges with axes of length 1.
    """

    b: Tensor
    h: Tensor
    q: Tensor
    k: Tensor
    i: Tensor
    j: Tensor


@dataclass(eq=False)
class Grid:
    """Rows × columns of one call, or of one tile of it, for B batches and H heads."""

    place: Place
    rows: tuple[int, int]
    cols: tuple[int, int]
    batch: int
    heads: int
    device: torch.device
    # Not functools.cached_property: its lock, on Python 3.11, is nothing that Dynamo can trace.
    _cell: Cell | None = field(default=None, init=False)

    @property
    def cell(self) -> Cell:
        if self._cell is None:
            self._cell = self._made()
        return self._cell

    def _made(self) -> Cell:
        r = torch.arange(*self.rows, device=self.device)
        c = torch.arange(*self.cols, device=self.device)
        i = (
            r[None] + self.place.start
            if self.place.q is None
            else self.place.q[:, slice(*self.rows)]
        )
        j = c[None] if self.place.k is None else self.place.k[:, slice(*self.cols)]
        return Cell(
            b=torch.arange(self.batch, device=self.device)[:, None, None, None],
            h=torch.arange(self.heads, device=self.device)[None, :, None, None],
            q=r[None, None, :, None],
            k=c[None, None, None, :],
            i=i[:, None, :, None],
            j=j[:, None, None, :],
        )


def looked_up(table: Tensor, b: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """table [B|1, N] read at (b, index), and whether index lies inside; indices are clamped."""
    size = table.shape[-1]
    if not size:
        return table.new_zeros(()), index < index
    row = b if table.shape[0] > 1 else b * 0
    inside = (index >= 0) & (index < size)
    return table[row, index.clamp(0, size - 1)], inside


def per_sequence(x: Tensor, b: Tensor) -> Tensor:
    """x [B|1] read at b."""
    return x[b if x.shape[0] > 1 else b * 0]


def in_blocks(x: Tensor, blocks: tuple[int, int]) -> Tensor:
    """[…, rows, cols] as […, R, rows / R, C, cols / C]."""
    rows, cols = x.shape[-2:]
    sizes = (blocks[0], rows // max(blocks[0], 1), blocks[1], cols // max(blocks[1], 1))
    return x.reshape(*x.shape[:-2], *sizes)
