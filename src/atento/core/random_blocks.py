"""`RandomBlocks`: keys of randomly drawn blocks, the draw a pure function of seed and block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from atento.core.arguments import count
from atento.core.compose import Mask
from atento.core.positions import Cell

if TYPE_CHECKING:
    from atento.core.blocks import Tiles

__all__ = ["RandomBlocks"]

MOST = 64  # draws are compared with one another, so that their cost grows with the square


@dataclass(frozen=True, eq=False)
class RandomBlocks(Mask):
    """j's block is one of `count` distinct ones drawn for i's block; the same for all heads.

    Drawn among the first `blocks` blocks or, with None, among those up to i's own. The draw is a
    hash of (seed, i's block), so it never changes as the sequence grows.
    """

    count: int
    size: int
    seed: int
    blocks: int | None = None

    def __post_init__(self) -> None:
        if count("RandomBlocks(count=…)", self.count, least=1) > MOST:
            raise ValueError(
                f"RandomBlocks(count=…) draws at most {MOST} blocks for each; got {self.count}. "
                "Wider blocks, or a window, reach more keys."
            )
        count("RandomBlocks(size=…)", self.size, least=1)
        count("RandomBlocks(seed=…)", self.seed, least=0)
        if self.blocks is not None:
            count("RandomBlocks(blocks=…)", self.blocks, least=1)

    def draws(self, block: Tensor) -> list[Tensor]:
        """`count` blocks for each query block, by Floyd's sampling; −9 where there are no more."""
        among = block + 1 if self.blocks is None else torch.full_like(block, self.blocks)
        drawn: list[Tensor] = []
        for n in range(self.count):
            top = among - self.count + n
            pick = _hashed(block, self.seed, n) % (top.clamp(min=0) + 1)
            for earlier in drawn:
                pick = torch.where(pick == earlier, top, pick)
            drawn.append(torch.where(top >= 0, pick, -9))
        return drawn

    def allows(self, c: Cell) -> Tensor:
        mine, its = c.i // self.size, c.j // self.size
        found = its < -9
        for pick in self.draws(mine):
            found = found | (its == pick)
        return found & (c.i >= 0) & (c.j >= 0)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        low, high = t.i_min // self.size, t.i_max // self.size
        first, last = t.j_min // self.size, t.j_max // self.size
        if not t.contiguous:  # how many blocks a tile's queries touch is then unknown to the host
            return t.constant(True), t.constant(False)
        some, every = t.constant(False), t.constant(False)
        for step in range(t.rows_in_block // self.size + 2):
            mine = (low + step).clamp(max=high)
            for pick in self.draws(mine):
                some = some | ((pick >= first) & (pick <= last))
                every = every | ((low == high) & (first == last) & (pick == first))
        return some, every

    def density(self, queries: int, keys: int) -> float:
        return min(1.0, self.count * self.size / max(keys, 1))


def _hashed(block: Tensor, seed: int, n: int) -> Tensor:
    """A 32-bit mixing of three integers, in int64 so that no product overflows."""
    x = (block.long() * 0x9E3779B1 + (seed * 0x85EBCA6B + n * 0xC2B2AE35) % 2**32) & 0xFFFFFFFF
    for _ in range(2):
        x = ((x ^ (x >> 16)) * 0x045D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)
