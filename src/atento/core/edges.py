"""`Edges`: a graph is a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from atento.core.adjacency import Listed, sorted_edges
from atento.core.compose import Mask
from atento.core.positions import Cell

if TYPE_CHECKING:
    from atento.core.blocks import Tiles

__all__ = ["Edges"]


@dataclass(frozen=True, eq=False)
class Edges(Listed, Mask):
    """(j, i) is an edge: index Int[2, E], row 0 = key (sender), row 1 = query (receiver).

    `shape` = (queries, keys), shared by batch and heads. A set: duplicates merge. By this call's
    rows and columns, not by positions. Sorted once, when it is made: where it is used again, in
    each layer and step, nothing is sorted anew.
    """

    index: Tensor
    shape: tuple[int, int]

    reads_query = False
    pointwise = False

    def __post_init__(self) -> None:
        x = self.index
        if not isinstance(x, Tensor) or not _is_list_of_pairs(x):
            got = f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"Edges(index=…) must be Int[2, E], row 0 = key, row 1 = query; got {got}."
            )
        shape = self.shape
        if not isinstance(shape, Sequence) or len(shape) != 2:
            raise ValueError(f"Edges(shape=…) must be (queries, keys); got {shape!r}.")
        object.__setattr__(self, "shape", (shape[0], shape[1]))
        if torch.compiler.is_compiling() or x.device.type == "meta":
            return
        if x.numel():
            self._check_range()
        self.keep(sorted_edges(x, self.shape, distinct=None))

    def _check_range(self) -> None:
        # Read once, when the graph is built: an index out of range would read foreign memory later.
        most, least = self.index.amax(1).tolist(), int(self.index.min())
        queries, keys = self.shape
        if least < 0 or most[0] >= keys or most[1] >= queries:
            raise ValueError(
                f"Edges(index=…) names key {most[0]} and query {most[1]} (least {least}), but "
                f"shape is (queries, keys) = {self.shape}. Row 0 is the key, row 1 the query."
            )

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        if self.shape == (Q, K):
            return None
        return f"Edges has shape (queries, keys) = {self.shape}; the call has ({Q}, {K})"

    def bound(self) -> Mask:
        return _Sorted(self.adjacency.codes, self.shape)

    def allows(self, c: Cell) -> Tensor:
        return self.bound().allows(c)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        return t.of_pairs(self.index[1], self.index[0])

    def with_loops(self) -> Edges:
        """The same edges, then one from each node to itself where it is not there yet."""
        if self.shape[0] != self.shape[1]:
            raise ValueError(
                f"with_loops needs as many keys as queries; got {self.shape} (queries, keys)."
            )
        there = torch.zeros(self.shape[0], dtype=torch.bool, device=self.index.device)
        there[self.index[0, self.index[0] == self.index[1]].long()] = True
        missing = (~there).nonzero()[:, 0].to(self.index.dtype)
        return Edges(torch.cat([self.index, missing.expand(2, -1)], 1), self.shape)

    def density(self, queries: int, keys: int) -> float:
        return min(1.0, self.index.shape[1] / max(queries * keys, 1))


def _is_list_of_pairs(x: Tensor) -> bool:
    whole = not x.is_floating_point() and x.dtype != torch.bool
    return whole and x.dim() == 2 and x.shape[0] == 2


@dataclass(frozen=True, eq=False)
class _Sorted(Mask):
    """Edges as sorted codes query · keys + key, found by bisection: no Q×K table."""

    codes: Tensor
    shape: tuple[int, int]

    reads_query = False
    pointwise = False

    def allows(self, c: Cell) -> Tensor:
        code = (c.q * self.shape[1] + c.k).long()
        if self.codes.shape[0] == 0:
            return torch.zeros_like(code, dtype=torch.bool)
        place = torch.searchsorted(self.codes, code.contiguous())
        return self.codes[place.clamp(max=self.codes.shape[0] - 1)] == code

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        return t.of_pairs(self.codes // self.shape[1], self.codes % self.shape[1])
