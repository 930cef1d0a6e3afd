"""Caches of keys and values: `update` returns k, v and `at`, for `Rotary` and `attend` alike.

Keys are cached as they come, before rotation, so that `at` is the one truth about positions. New
tokens follow those already seen; where sequences are padded on the left, pass the new tokens'
`positions` Int[B, N], counting real tokens, with −1 for pads.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from atento.core.positions import At, Positions

__all__ = ["Cache", "EvictingCache", "GrowingCache", "StaticCache"]

Held = tuple[Tensor, Tensor, At]


class Cache(Protocol):
    """What an attention layer asks of a cache: one for each layer and sequence batch."""

    def update(self, k: Tensor, v: Tensor, positions: Tensor | None = None) -> Held:
        """(keys, values, at) for the new tokens k [B, Hk, N, Dk], v [B, Hk, N, Dv]."""
        ...


class GrowingCache:
    """Keeps everything, by concatenation."""

    def __init__(self) -> None:
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._positions: Tensor | None = None  # [B, K] once any call named positions

    def __len__(self) -> int:
        return 0 if self._k is None else self._k.shape[2]

    def update(self, k: Tensor, v: Tensor, positions: Tensor | None = None) -> Held:
        """(keys, values, at) with the new tokens appended."""
        before = len(self)
        _check(k, v, self._k, self._v)
        if positions is not None or self._positions is not None:
            self._positions = self._appended(positions, before, k)
        if self._k is not None and self._v is not None:
            k, v = torch.cat([self._k, k], 2), torch.cat([self._v, v], 2)
        self._k, self._v = k, v
        if self._positions is None:
            return k, v, before
        return k, v, Positions(self._positions[:, before:], self._positions)

    def select(self, rows: Tensor) -> None:
        """Goes on with these sequences, Int[B'], in this order; one may be there several times."""
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k[rows], self._v[rows]
        if self._positions is not None:
            self._positions = self._positions[rows]

    def _appended(self, positions: Tensor | None, before: int, k: Tensor) -> Tensor:
        batch, new = k.shape[0], k.shape[2]
        old = self._positions
        if old is None:
            old = torch.arange(before, device=k.device).expand(batch, -1)
        if positions is None:  # each sequence goes on from its last real token
            last = old.amax(1, keepdim=True) if before else old.new_full((batch, 1), -1)
            positions = last + torch.arange(1, new + 1, device=k.device)
        return torch.cat([old, _per_batch(positions, batch, new)], 1)


class StaticCache:
    """A fixed number of slots, allocated once, so that shapes never change.

    All slots are returned; the empty ones stand at position −1.
    """

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"StaticCache needs slots ≥ 1; got {slots}.")
        self.slots = slots
        self._used = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._positions: Tensor | None = None  # [B, slots]

    def __len__(self) -> int:
        return self._used

    def update(self, k: Tensor, v: Tensor, positions: Tensor | None = None) -> Held:
        """(keys, values, at) over all slots, the new tokens in the next free ones."""
        batch, new = k.shape[0], k.shape[2]
        _check(k, v, self._k, self._v)
        if self._used + new > self.slots:
            raise ValueError(
                f"StaticCache has {self.slots} slots, {self._used} of them used; got {new} new "
                "tokens. Make it larger, or use an EvictingCache."
            )
        if self._k is None or self._v is None or self._positions is None:
            # Zeros, not empty memory: masked keys must be finite.
            self._k = k.new_zeros(*k.shape[:2], self.slots, k.shape[-1])
            self._v = v.new_zeros(*v.shape[:2], self.slots, v.shape[-1])
            self._positions = torch.full((batch, self.slots), -1, device=k.device)
        if positions is None:
            first = self._positions.amax(1, keepdim=True) + 1
            positions = first + torch.arange(new, device=k.device)
        positions = _per_batch(positions, batch, new)
        spots = torch.arange(self._used, self._used + new, device=k.device)
        # In place where no backward can want the old slots, which an earlier step attended to.
        compiling = torch.compiler.is_compiling()
        mixed = compiling or self._k.is_inference() != torch.is_inference_mode_enabled()
        if torch.is_grad_enabled() or mixed:
            self._k, self._v = self._k.index_copy(2, spots, k), self._v.index_copy(2, spots, v)
        else:
            self._k.index_copy_(2, spots, k)
            self._v.index_copy_(2, spots, v)
        self._positions = self._positions.index_copy(1, spots, positions)
        self._used += new
        return self._k, self._v, Positions(positions, self._positions)


class EvictingCache:
    """Keeps the first `sinks` tokens and the last `window`; equal to no cache under the mask
    `Causal() & (Window(window − 1) | Prefix(sinks))`.

    The window is a ring, so its keys are out of order; their positions say where they belong.
    Ref: Xiao et al. 2023, arXiv:2309.17453.
    """

    def __init__(self, window: int, sinks: int = 0) -> None:
        if window < 1 or sinks < 0:
            raise ValueError(
                f"EvictingCache needs window ≥ 1 and sinks ≥ 0; got {window}, {sinks}."
            )
        self.window, self.sinks = window, sinks
        self._seen = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._positions: Tensor | None = None  # [B, sinks + window]
        self._next: Tensor | None = None  # [B, 1]: the position after the last one seen

    def __len__(self) -> int:
        return min(self._seen, self.sinks + self.window)

    def update(self, k: Tensor, v: Tensor, positions: Tensor | None = None) -> Held:
        """(keys, values, at): what was kept, with the new tokens; then the oldest are dropped."""
        batch, new = k.shape[0], k.shape[2]
        _check(k, v, self._k, self._v)
        if self._k is None or self._v is None or self._positions is None:
            slots = self.sinks + self.window
            self._k = k.new_zeros(*k.shape[:2], slots, k.shape[-1])
            self._v = v.new_zeros(*v.shape[:2], slots, v.shape[-1])
            self._positions = torch.full((batch, slots), -1, device=k.device)
            self._next = torch.zeros(batch, 1, dtype=torch.long, device=k.device)
        assert self._next is not None
        if positions is None:
            positions = self._next + torch.arange(new, device=k.device)
        positions = _per_batch(positions, batch, new)
        if new:
            self._next = torch.maximum(self._next, positions.amax(1, keepdim=True) + 1)
        old_k, old_v, old_positions = self._k, self._v, self._positions
        self._keep(k, v, positions)
        self._seen += new
        if new == 1:
            return self._k, self._v, Positions(positions, self._positions)
        # The first of several new tokens still need keys that the last ones have displaced.
        at = Positions(positions, torch.cat([old_positions, positions], 1))
        return torch.cat([old_k, k], 2), torch.cat([old_v, v], 2), at

    def _keep(self, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """Puts each new token into its slot, the newest where several belong to one."""
        slots = self.sinks + self.window
        ring = (positions - self.sinks) % self.window + self.sinks
        home = torch.where(positions < self.sinks, positions, ring)
        home = torch.where(positions < 0, slots, home)  # pads go to a spare slot, cut off again
        newest = positions.new_full((len(positions), slots + 1), -1)
        newest = newest.scatter_reduce(1, home, positions, "amax")
        home = torch.where(newest.gather(1, home) == positions, home, slots)

        def placed(old: Tensor, new: Tensor) -> Tensor:  # [B, Hk, slots, D]
            spots = home[:, None, :, None].expand(-1, *new.shape[1:2], -1, new.shape[-1])
            return torch.nn.functional.pad(old, (0, 0, 0, 1)).scatter(2, spots, new)[:, :, :slots]

        assert self._k is not None
        assert self._v is not None
        assert self._positions is not None
        self._k, self._v = placed(self._k, k), placed(self._v, v)
        spare = torch.nn.functional.pad(self._positions, (0, 1), value=-1)
        self._positions = spare.scatter(1, home, positions)[:, :slots]


def _per_batch(positions: Tensor, batch: int, new: int) -> Tensor:
    positions = positions if positions.dim() == 2 else positions[None]
    if positions.shape[-1] != new or positions.shape[0] not in (1, batch):
        raise ValueError(
            f"positions must be Int[{new}] or Int[{batch}, {new}], one for each new token; "
            f"got {list(positions.shape)}."
        )
    return positions.long().expand(batch, new)


def _check(k: Tensor, v: Tensor, held_k: Tensor | None, held_v: Tensor | None) -> None:
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k and v must agree in batch, heads and tokens, [B, Hk, N, …]; got {list(k.shape)} "
            f"and {list(v.shape)}. Each key needs its value."
        )
    if held_k is not None and held_v is not None:
        _check_like(k, held_k)
        _check_like(v, held_v)


def _check_like(new: Tensor, held: Tensor) -> None:
    alike = new.shape[:2] == held.shape[:2] and new.shape[-1] == held.shape[-1]
    if not alike or new.dtype != held.dtype or new.device != held.device:
        raise ValueError(
            f"the cache holds {held.dtype} [B, Hk, K, D] = {list(held.shape)} on {held.device}; "
            f"got {new.dtype} {list(new.shape)} on {new.device}. Use a fresh cache for each batch."
        )
