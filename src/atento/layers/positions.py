"""Positions that are added to the tokens' embeddings.

Each takes positions, Int[N] or Int[B, N], or a length N for 0 … N − 1, and returns [N, C] or
[B, N, C]. A pad's position, −1, gets some code too: nothing attends to it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from atento.layers.fixed import Fixed

__all__ = ["Grid2d", "Learned", "Sinusoidal"]


class Sinusoidal(nn.Module):
    """PE(p) = [sin pω₀, cos pω₀, sin pω₁, cos pω₁, …] with ω_n = base^(−2n/C); no parameters.

    An odd width ends with a sine. Position 0 is [0, 1, 0, 1, …], and PE(p + k) = R_k PE(p) with
    one rotation R_k for all p.
    Ref: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    Claim: layers/test_positions.py::test_sinusoid_at_p_plus_k_is_one_rotation_of_the_sinusoid_at_p
    """

    like: Tensor

    def __init__(self, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be ≥ 1; got {width}.")
        self.width = width
        self.frequencies = Fixed(base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width))
        # Nothing else of this module knows in which dtype the model computes.
        self.register_buffer("like", torch.empty(0), persistent=False)

    def forward(self, positions: Tensor | int) -> Tensor:
        frequencies: Tensor = self.frequencies()
        places = _places(positions, frequencies.device)
        angle = places.to(frequencies.dtype)[..., None] * frequencies  # [..., ⌈C/2⌉]
        pairs = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
        return pairs[..., : self.width].to(self.like.dtype)


class Learned(nn.Module):
    """A table of one vector for each of `length` positions: length · C parameters.

    It knows nothing beyond its length, and says so.
    Claim: layers/test_positions.py::test_learned_positions_beyond_the_length_raise
    """

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Tensor | int) -> Tensor:
        table = self.table.weight
        if isinstance(positions, int):
            if positions > len(table):
                raise ValueError(self._beyond(positions - 1))
            return table[:positions]
        try:
            return embedding(positions.clamp(min=0), table)
        except IndexError as error:
            raise ValueError(self._beyond(int(positions.max()))) from error

    def _beyond(self, position: int) -> str:
        length = self.table.num_embeddings
        return (
            f"positions must be 0 … {length - 1}, the {length} that were learned; got {position}. "
            "Shorten the sequence, train with a larger context, or use Sinusoidal or Rotary."
        )


class Grid2d(nn.Module):
    """[PE(row), PE(column)], each a sinusoid of width C/2; no parameters.

    Swapping row and column swaps the two halves.
    Ref: Wang and Liu 2019, arXiv:1908.11415, section 3.2; the same split in DETR and MAE.
    Claim: layers/test_positions.py::test_swapping_row_and_column_swaps_the_halves
    """

    def __init__(self, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise ValueError(
                f"width must be even, half for rows and half for columns; got {width}."
            )
        self.side = Sinusoidal(width // 2, base)

    def forward(self, rows: Tensor | int, columns: Tensor | int) -> Tensor:
        """Codes [..., C] of given rows and columns, Int[N] or Int[B, N] each.

        Two ints are a grid's height and width: [height · width, C], row by row.
        """
        if isinstance(rows, int) and isinstance(columns, int):
            high: Tensor = self.side(rows)
            wide: Tensor = self.side(columns)
            across = high[:, None].expand(-1, columns, -1), wide[None].expand(rows, -1, -1)
            return torch.cat(across, -1).flatten(0, 1)
        if isinstance(rows, int) or isinstance(columns, int):
            raise TypeError(
                "rows and columns must both be tensors, one pair for each token, or both ints, the "
                f"grid's sizes; got {type(rows).__name__} and {type(columns).__name__}."
            )
        return torch.cat([self.side(rows), self.side(columns)], -1)


def _places(positions: Tensor | int, device: torch.device) -> Tensor:
    if isinstance(positions, Tensor):
        return positions
    return torch.arange(positions, device=device)
