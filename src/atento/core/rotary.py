"""Rotary positions: q and k turned by angles that grow with the position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from atento.core.positions import At, resolved
from atento.core.structure import Structured

__all__ = ["Rotary"]


@dataclass(frozen=True, eq=False)
class Rotary(Structured):
    """Pairs of q's and k's numbers turned by position · frequency, so that q · k sees i − j only.

    frequencies: Float[R / 2]; the first R numbers of each head are turned, the others kept. Pairs
    are (n, n + R/2), or neighbours (2n, 2n + 1) where `interleaved`. cos and sin are multiplied by
    `amplitude` (YaRN's attention factor). The constructors below give the usual frequencies.
    Ref: Su et al. 2021, arXiv:2104.09864, equation 34.
    """

    frequencies: Tensor
    amplitude: float = 1.0
    interleaved: bool = False

    @staticmethod
    def standard(width: int, base: float = 10_000.0, interleaved: bool = False) -> Rotary:
        """θ_n = base^(−2n/R)."""
        return Rotary(_frequencies(width, base), interleaved=interleaved)

    @staticmethod
    def linear(width: int, factor: float, base: float = 10_000.0) -> Rotary:
        """Positions divided by `factor`. Ref: Chen et al. 2023, arXiv:2306.15595."""
        return Rotary(_frequencies(width, base) / _at_least_one(factor))

    @staticmethod
    def ntk(width: int, factor: float, base: float = 10_000.0) -> Rotary:
        """A larger base, so that the slowest frequency is divided by `factor`, the fastest kept."""
        if width == 2:
            raise ValueError("Rotary.ntk stretches the slower of several pairs; got width 2.")
        return Rotary(_frequencies(width, base * _at_least_one(factor) ** (width / (width - 2))))

    @staticmethod
    def yarn(
        width: int,
        factor: float,
        trained: int,
        base: float = 10_000.0,
        turns: tuple[float, float] = (1.0, 32.0),
    ) -> Rotary:
        """Frequencies that turn often within the trained context kept, rare ones divided, ramped.

        `turns` = (β, α) of the paper: below the first number of turns a frequency is divided by
        `factor`, above the second it is kept. Ref: Peng et al. 2023, arXiv:2309.00071, section 3.
        """
        plain = _frequencies(width, base)

        def index(rotations: float) -> float:  # the frequency that turns so often in `trained`
            return width * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(index(turns[1])), 0)
        high = min(math.ceil(index(turns[0])), width - 1)
        ramp = (torch.arange(width // 2, dtype=plain.dtype) - low) / max(high - low, 1e-3)
        divided = ramp.clamp(0, 1)
        factor = _at_least_one(factor)
        mixed = plain / factor * divided + plain * (1 - divided)
        return Rotary(mixed, amplitude=0.1 * math.log(factor) + 1.0)

    def rotate(self, q: Tensor, k: Tensor, at: At = None) -> tuple[Tensor, Tensor]:
        """(q, k) turned; `at` as `attend` gets it. Empty slots (−1) are left as they are."""
        if at is None and q.shape[2] != k.shape[2]:
            raise ValueError(
                f"at is needed: {q.shape[2]} queries on {k.shape[2]} keys do not say where they "
                "stand. Pass what the cache's update returned."
            )
        place = resolved(at, q.shape[2], q.device)
        i = place.queries(q.shape[2], q.device)
        j = place.keys(k.shape[2], k.device)
        return self.turned(q, i), self.turned(k, j)

    def turned(self, x: Tensor, positions: Tensor) -> Tensor:
        """x [B, H, N, D] turned by positions Int[N] or Int[B|1, N]."""
        acc = torch.promote_types(x.dtype, torch.float32)
        width = 2 * self.frequencies.shape[0]
        if width > x.shape[-1]:
            raise ValueError(
                f"Rotary turns {width} numbers of each head; got heads of width {x.shape[-1]}. "
                f"Build it with width={x.shape[-1]} or less."
            )
        positions = positions if positions.dim() == 2 else positions[None]
        # In the frequencies' own dtype: float32 angles are off by 1e-3 at position 10⁵.
        precise = torch.promote_types(self.frequencies.dtype, torch.float32)
        there = positions[:, None, :, None]
        angle = there.clamp(min=0) * self.frequencies.to(precise)  # [B|1, 1, N, R/2]
        cos, sin = (f(angle).to(acc) * self.amplitude for f in (torch.cos, torch.sin))
        head, rest = x[..., :width].to(acc), x[..., width:]
        if self.interleaved:
            a, b = head[..., 0::2], head[..., 1::2]
            out = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        else:
            a, b = head.chunk(2, -1)
            out = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
        out = torch.where(there < 0, x[..., :width], out.to(x.dtype))
        return out if rest.shape[-1] == 0 else torch.cat([out, rest], -1)


def _frequencies(width: int, base: float) -> Tensor:
    if width < 2 or width % 2:
        raise ValueError(f"Rotary turns pairs, so width must be even and ≥ 2; got {width}.")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def _at_least_one(factor: float) -> float:
    if factor < 1:
        raise ValueError(f"factor must be ≥ 1, how many times the trained context; got {factor}.")
    return factor
