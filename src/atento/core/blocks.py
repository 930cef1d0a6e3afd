"""Block masks from three-valued logic: a block of pairs is empty, partial or full.

Each mask answers for whole blocks from bounds of positions, so that nothing but `Dense` and
`Where` looks at Q×K pairs. A block may be called partial when it is empty or full, never the
reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from atento.core.compose import Mask
from atento.core.lowering import flexible, predicate
from atento.core.positions import Grid, Place, in_blocks
from atento.core.remember import is_static

__all__: list[str] = []

SIZE = 128  # rows and columns of a block: what FlexAttention's kernels are tuned for
AT_ONCE = 2**14  # entries of an index table that are worked on at once

Parts = tuple[
    Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor, Tensor | None, Tensor | None
]


class Tiles:
    """The blocks of one call: bounds of positions, and reductions of tables, per block."""

    def __init__(self, grid: Grid, size: int = SIZE) -> None:
        self.grid, self.rows_in_block = grid, size
        self.shape = grid.rows[1], grid.cols[1]
        self.contiguous = grid.place.q is None and grid.place.k is None
        self.b = torch.arange(grid.batch, device=grid.device)[:, None, None, None]
        # [B|1, blocks, size]; the last block repeats its last row.
        self._queries = self._blocked(grid.place.queries(self.shape[0], grid.device))
        self._keys = self._blocked(grid.place.keys(self.shape[1], grid.device))
        # Bounds of positions: [B|1, 1, R, 1] for queries, [B|1, 1, 1, C] for keys.
        self.i_min = self._queries.amin(-1)[:, None, :, None]
        self.i_max = self._queries.amax(-1)[:, None, :, None]
        self.j_min = self._keys.amin(-1)[:, None, None, :]
        self.j_max = self._keys.amax(-1)[:, None, None, :]

    def _blocked(self, x: Tensor) -> Tensor:
        count = x.shape[-1]
        blocks = -(-count // self.rows_in_block)
        spots = torch.arange(blocks * self.rows_in_block, device=x.device).clamp(max=count - 1)
        return x[..., spots].reshape(*x.shape[:-1], blocks, self.rows_in_block)

    def constant(self, value: bool) -> Tensor:
        rows, cols = (-(-n // self.rows_in_block) for n in self.shape)
        return torch.full((1, 1, 1, 1), value, device=self.grid.device).expand(1, 1, rows, cols)

    def _read(self, fn: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
        return fn(self.b[:, :, 0], x)  # b: [B, 1, 1] beside x: [B|1, blocks, size]

    def of_queries(self, member: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Whether some and every query of each block is a member."""
        x = self._read(member, self._queries)
        return x.any(-1)[:, None, :, None], x.all(-1)[:, None, :, None]

    def of_keys(self, member: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Whether some and every key of each block is a member."""
        x = self._read(member, self._keys)
        return x.any(-1)[:, None, None, :], x.all(-1)[:, None, None, :]

    def bounds_of_queries(self, value: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The least and the greatest value of each block of queries."""
        x = self._read(value, self._queries)
        return x.amin(-1)[:, None, :, None], x.amax(-1)[:, None, :, None]

    def bounds_of_keys(self, value: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The least and the greatest value of each block of keys."""
        x = self._read(value, self._keys)
        return x.amin(-1)[:, None, None, :], x.amax(-1)[:, None, None, :]

    def of_rectangles(self, table: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Some and every table[i // size, j // size] in each block, by a summed-area table."""
        rows, cols = table.shape
        sums = torch.zeros(rows + 1, cols + 1, dtype=torch.int64, device=table.device)
        sums[1:, 1:] = table.long().cumsum(0).cumsum(1)
        ends = []
        for least, most, count in (
            (self.i_min, self.i_max, rows),
            (self.j_min, self.j_max, cols),
        ):
            first, last = least // size, most // size + 1
            ends.append((first.clamp(0, count), last.clamp(0, count), last - first))
        (top, bottom, height), (left, right, width) = ends
        total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
        return total > 0, total == height * width

    def of_pairs(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Some pair of a list in each block; none is promised to be full."""
        some = self.constant(False).clone()
        some[0, 0, q // self.rows_in_block, k // self.rows_in_block] = True
        return some, self.constant(False)

    def of_dense(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """Some and every pair of a table [B|1, H|1, Q, K] in each block."""
        blocks = [-(-n // self.rows_in_block) for n in self.shape]
        spare = [c * self.rows_in_block - n for c, n in zip(blocks, self.shape, strict=True)]
        answers = []
        for filler in (False, True):
            whole = torch.nn.functional.pad(table, (0, spare[1], 0, spare[0]), value=filler)
            x = in_blocks(whole, (blocks[0], blocks[1]))
            answers.append(x.amax((-3, -1)) if not filler else x.amin((-3, -1)))
        return answers[0], answers[1]

    def has_tables(self, mask: Mask) -> bool:
        return type(mask).inside is not Mask.inside


def three_valued(mask: Mask, grid: Grid) -> tuple[Tensor, Tensor]:
    """(some, every), Bool[B|1, H|1, R, C]: blocks not surely empty, and surely full ones."""
    t = Tiles(grid)
    some, every = mask.tiles(t)
    whole = t.constant(True)
    some, every = some & whole, every & whole
    if grid.place.k is not None:
        some, every = some & (t.j_max >= 0), every & (t.j_min >= 0)
    if grid.cols[1] % SIZE:  # the last column's block reaches past the last key
        within = torch.arange(every.shape[-1], device=every.device) < every.shape[-1] - 1
        every = every & within
    return some, every & some


def block_mask(mask: Mask, grid: Grid) -> BlockMask:
    """BlockMask of a canonical mask over a whole call."""
    mask = flexible(mask, grid)
    return assembled(parts_of(mask, grid), grid, predicate(mask, grid.place))


def assembled(parts: Parts, grid: Grid, mask_mod: Callable[..., Tensor]) -> BlockMask:
    """BlockMask from its index tensors."""
    lengths = (grid.rows[1], grid.cols[1])
    return BlockMask(lengths, *parts, BLOCK_SIZE=(SIZE, SIZE), mask_mod=mask_mod)


def parts_of(mask: Mask, grid: Grid) -> Parts:
    """The index tensors of a block mask; those of masks without tensors are remembered."""
    if is_static(mask, grid):
        return _remembered(mask, grid.place.start, *grid.rows, *grid.cols, grid.device)
    return _parts(mask, grid)


@lru_cache(maxsize=32)
def _remembered(
    mask: Mask, start: int, r0: int, r1: int, c0: int, c1: int, device: torch.device
) -> Parts:
    with torch.inference_mode(False), torch.no_grad():
        return _parts(mask, Grid(Place(start), (r0, r1), (c0, c1), 1, 1, device))


def _parts(mask: Mask, grid: Grid) -> Parts:
    some, every = three_valued(mask, grid)
    partial = some & ~every
    # A mask of 131,072 tokens is made within 20 MB. Claim: bench/records/block_mask_cpu.json
    del some
    kv = (*_ordered(partial), *_ordered(every))
    q = (*_ordered(partial.mT), *_ordered(every.mT))
    return *kv, *q


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the number of its blocks, and their columns in order, then the rest; int32."""
    count = blocks.sum(-1, dtype=torch.int32)
    out = torch.empty(blocks.shape, dtype=torch.int32, device=blocks.device)
    columns = torch.arange(blocks.shape[-1], dtype=torch.int32, device=blocks.device)
    # In strips, because scatter wants int64 indices, twice the size of what is made. Compiled code
    # takes all at once: the number of strips would be a guard on the length.
    rows = max(1, AT_ONCE // max(blocks.shape[-1], 1))
    if torch.compiler.is_compiling():
        return count, out.scatter(-1, _spots(blocks, columns, count), columns.expand_as(blocks))
    for start in range(0, blocks.shape[-2], rows):
        strip = slice(start, start + rows)
        spots = _spots(blocks[..., strip, :], columns, count[..., strip])
        out[..., strip, :].scatter_(-1, spots, columns.expand_as(spots))
    return count, out


def _spots(blocks: Tensor, columns: Tensor, count: Tensor) -> Tensor:
    """Where each column stands in its row's list: first the row's blocks, then the rest; int64."""
    before = blocks.cumsum(-1)  # blocks up to and with this one
    after = columns - before
    after += count[..., None]
    return torch.where(blocks, before.sub_(1), after)
