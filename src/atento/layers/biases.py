"""Biases with parameters: modules whose call returns the door's frozen bias.

A bias without parameters needs none of these: Fixed(Alibi.standard(heads)).
"""

from __future__ import annotations

import torch
from torch import nn

from atento.core.biases import Shaw, T5Bias

__all__ = ["ShawTable", "T5Table"]


class T5Table(nn.Module):
    """Owns a number for each bucket of distances and each head; T5 shares one among its layers.

    Ref: Raffel et al. 2020, arXiv:1910.10683, section 2.1.
    """

    def __init__(
        self, heads: int, buckets: int = 32, *, bidirectional: bool = True, farthest: int = 128
    ) -> None:
        super().__init__()
        if buckets < (4 if bidirectional else 2):
            least = 4 if bidirectional else 2
            raise ValueError(f"buckets must be ≥ {least}, near and far ones; got {buckets}.")
        self.table = nn.Parameter(torch.randn(buckets, heads) * 0.02)
        self.bidirectional, self.farthest = bidirectional, farthest

    def forward(self) -> T5Bias:
        return T5Bias(self.table, self.bidirectional, self.farthest)


class ShawTable(nn.Module):
    """Owns r [2R + 1, D], the keys' relative embeddings for distances −R … R; heads share it.

    Ref: Shaw et al. 2018, arXiv:1803.02155, equation 4 (keys only).
    """

    def __init__(self, reach: int, width: int) -> None:
        super().__init__()
        if reach < 1:
            raise ValueError(f"reach must be ≥ 1, the farthest distance told apart; got {reach}.")
        self.keys = nn.Parameter(torch.randn(2 * reach + 1, width) * width**-0.5)

    def forward(self) -> Shaw:
        return Shaw(self.keys)
