"""Exact attention maps of any window at any resolution, in memory linear in the length.

Two passes, run by run: the log-sum-exp of the rows asked for, over all their keys; then the weights
on the columns asked for, pooled as they are made. No N² weights are ever stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from atento.core.biases import Bias
from atento.core.call import Call, checked
from atento.core.compose import Mask
from atento.core.lowering import allowed_if_asked
from atento.core.positions import At, Grid, in_blocks
from atento.core.reference import logits_over, repeated, softmax_with_sink
from atento.core.scores import Dot, Score

__all__ = ["Map", "attention_map"]

AT_ONCE = 2**22  # scores held at once
Reduce = Literal["mass", "max"]
Span = slice | range | tuple[int, int] | None


class Map(NamedTuple):
    """A map of the weights and, where v and the output's gradient were given, of ∂L/∂A."""

    weights: Tensor | tuple[Tensor, ...]
    gradient: Tensor | tuple[Tensor, ...]


def attention_map(  # long: the design fixes these arguments
    q: Tensor,
    k: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    score: Score | None = None,
    at: At = None,
    rows: Span = None,
    cols: Span = None,
    pool: int | tuple[int, int] | None = None,
    reduce: Reduce | Sequence[Reduce] = "mass",
    v: Tensor | None = None,
    grad: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...] | Map:
    """The weights softmax(…) of rows × cols, [B, H, rows, cols], or of tiles of `pool` of them.

    `rows` and `cols` are spans (start, stop) of queries and keys, None is all. `pool` is a tile's
    (rows, cols). "mass" is the mean over a tile's non-empty rows of the weight that falls on its
    keys, so that a row of tiles sums to 1, less what a sink takes; "max" is the tile's largest
    weight, so that a single needle shows. Several reductions come as a tuple, made in one pass.
    With v [B, Hk, K, Dv] and grad [B, H, Q, Dv], the gradient of the output, the result is a Map of
    weights and of ∂L/∂A_ij = grad_i · v_j on pairs that may attend (its "max" is that of |∂L/∂A|).
    Claim: core/test_maps.py::test_a_map_equals_the_dense_weights
    """
    if (v is None) != (grad is None):
        raise ValueError("the gradient map needs both v and grad; got one of them.")
    call = checked(q, k, k if v is None else v, mask, bias, score or Dot(), 0.0, at)
    if grad is not None and grad.shape != (*q.shape[:3], call.v.shape[-1]):
        raise ValueError(
            f"grad must be the output's gradient [B, H, Q, Dv] = "
            f"{[*q.shape[:3], call.v.shape[-1]]}; got {list(grad.shape)}."
        )
    names = (reduce,) if isinstance(reduce, str) else tuple(reduce)
    _check_reductions(names)
    spans = _span("rows", rows, q.shape[2]), _span("cols", cols, k.shape[2])
    with torch.no_grad():
        drawing = Drawing(_bound(call), *spans, _tile(pool, spans), grad)
        made = drawing.made(names)
    single = isinstance(reduce, str)
    weights, gradient = ([m[0] for m in made], [m[1] for m in made if m[1] is not None])
    shown = weights[0] if single else tuple(weights)
    if grad is None:
        return shown
    return Map(shown, gradient[0] if single else tuple(gradient))


@dataclass(frozen=True)
class Drawing:
    """One map being made."""

    call: Call
    rows: tuple[int, int]
    cols: tuple[int, int]
    tile: tuple[int, int]
    grad: Tensor | None

    def made(self, names: Sequence[Reduce]) -> list[tuple[Tensor, Tensor | None]]:
        """(weights, gradient) for each reduction."""
        B, H = self.call.sizes[:2]
        shape = (B, H, _tiles(self.rows, self.tile[0]), _tiles(self.cols, self.tile[1]))
        empty = self.call.q.new_zeros(shape, dtype=self.call.accumulator)
        found = [(empty.clone(), None if self.grad is None else empty.clone()) for _ in names]
        counted = empty.new_zeros(shape[:3])  # non-empty rows of each tile
        for rows in _cut(self.rows, self.tile[0], self._rows_at_once()):
            lse = self._lse(*rows)
            down = _tiles_of(rows, self.rows[0], self.tile[0])
            counted[:, :, down] += _tiled((lse > -torch.inf)[..., None], (self.tile[0], 1)).sum(
                (-3, -1)
            )[..., 0]
            for cols in _cut(self.cols, self.tile[1], self._columns_at_once(rows)):
                across = _tiles_of(cols, self.cols[0], self.tile[1])
                for x, n in zip(self._weights(rows, cols, lse), (0, 1), strict=True):
                    for name, pair in zip(names, found, strict=True):
                        target = pair[n]
                        if x is not None and target is not None:
                            _gather(name, target[:, :, down, across], _tiled(x, self.tile))
        for name, pair in zip(names, found, strict=True):
            for target in pair:
                if target is not None and name == "mass":
                    target /= counted.clamp(min=1)[..., None]
        return found

    def _rows_at_once(self) -> int:
        B, H, _, K = self.call.sizes
        width = min(max(K, 1), 4096) * self.call.score.cost(self.call.q.shape[-1])
        return max(1, AT_ONCE // max(B * H * width, 1))

    def _columns_at_once(self, rows: tuple[int, int]) -> int:
        B, H = self.call.sizes[:2]
        each = B * H * (rows[1] - rows[0]) * self.call.score.cost(self.call.q.shape[-1])
        return max(1, AT_ONCE // max(each, 1))

    def _lse(self, first: int, last: int) -> Tensor:  # [B, H, run]
        """Over all keys, whatever the columns asked for; joined from runs of keys."""
        K, sink = self.call.sizes[3], self.call.score.sink
        step = self._columns_at_once((first, last))
        parts = []
        for low in range(0, max(K, 1), step):
            logits, allow = self._logits((first, last), (low, min(low + step, K)))
            parts.append(softmax_with_sink(logits, allow, sink)[1])
            sink = None
        return torch.stack(parts).logsumexp(0)

    def _logits(self, rows: tuple[int, int], cols: tuple[int, int]) -> tuple[Tensor, Tensor | None]:
        call = self.call
        q = call.q[:, :, slice(*rows)].to(call.accumulator)
        k = call.k[:, :, slice(*cols)].to(call.accumulator)
        grid = Grid(call.place, rows, cols, *call.sizes[:2], q.device)
        logits = logits_over(grid, q, repeated(k, call.group), call.score, call.bias)
        return logits, allowed_if_asked(call.mask, grid)

    def _weights(
        self, rows: tuple[int, int], cols: tuple[int, int], lse: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        logits, allow = self._logits(rows, cols)
        if allow is not None:
            logits = logits.masked_fill(~allow, -torch.inf)
        weights = (logits - lse.masked_fill(lse == -torch.inf, 0.0)[..., None]).exp()
        if self.grad is None:
            return weights, None
        v = self.call.v[:, :, slice(*cols)].to(weights.dtype)
        v = repeated(v, self.call.group)
        slopes = self.grad[:, :, slice(*rows)].to(weights.dtype) @ v.mT
        return weights, slopes if allow is None else slopes.masked_fill(~allow, 0.0)


def _cut(span: tuple[int, int], tile: int, most: int) -> Iterator[tuple[int, int]]:
    """Runs of at most about `most`: whole tiles, or parts of one tile that is larger."""
    if most >= tile:
        step = most // tile * tile
        for first in range(*span, step):
            yield first, min(first + step, span[1])
        return
    for corner in range(*span, tile):
        for first in range(corner, min(corner + tile, span[1]), most):
            yield first, min(first + most, corner + tile, span[1])


def _tiles_of(run: tuple[int, int], origin: int, tile: int) -> slice:
    return slice((run[0] - origin) // tile, _up(run[1] - origin, tile))


def _tiled(x: Tensor, tile: tuple[int, int]) -> Tensor:
    """x [B, H, run, cols] as [B, H, tiles, rows, tiles, cols], zeros where a tile is cut short."""
    blocks = [_up(n, t) for n, t in zip(x.shape[2:], tile, strict=True)]
    sizes = [min(n, t) for n, t in zip(x.shape[2:], tile, strict=True)]  # a part of a large tile
    spare = [b * t - n for b, t, n in zip(blocks, sizes, x.shape[2:], strict=True)]
    x = torch.nn.functional.pad(x, (0, spare[1], 0, spare[0]))
    return in_blocks(x, (blocks[0], blocks[1]))


def _gather(name: Reduce, target: Tensor, tiles: Tensor) -> None:
    """Adds a run's tiles to the map."""
    if name == "max":
        torch.maximum(target, tiles.abs().amax((-3, -1)), out=target)
    else:
        target += tiles.sum((-3, -1))


def _bound(call: Call) -> Call:
    bias = call.bias
    if bias is not None:
        bias = bias.bound(call.q.to(call.accumulator), call.scale)
    return replace(call, bias=bias, mask=None if call.mask is None else call.mask.bound())


def _span(name: str, span: Span, count: int) -> tuple[int, int]:
    if span is None:
        return 0, count
    first, last, step = -1, -1, 1
    if isinstance(span, slice):
        first, last, step = span.indices(count)
    elif isinstance(span, range):
        first, last, step = span.start, span.stop, span.step
    elif isinstance(span, Sequence) and len(span) == 2:
        first, last = span
    if step != 1 or not 0 <= first <= last <= count:
        raise ValueError(
            f"{name} must be a span (start, stop) within 0…{count}, of step 1; got {span!r}."
        )
    return first, last


def _tile(
    pool: int | tuple[int, int] | None, spans: tuple[tuple[int, int], tuple[int, int]]
) -> tuple[int, int]:
    tile: tuple[Any, ...] = (1, 1) if pool is None else (pool, pool)
    if isinstance(pool, Sequence):
        tile = tuple(pool)
    if len(tile) != 2 or any(isinstance(t, bool) or not isinstance(t, int) or t < 1 for t in tile):
        raise ValueError(f"pool must be an int ≥ 1 or (rows, cols) of such; got {pool!r}.")
    sizes = [max(stop - start, 1) for start, stop in spans]
    return min(tile[0], sizes[0]), min(tile[1], sizes[1])


def _check_reductions(names: tuple[str, ...]) -> None:
    if not names or any(name not in ("mass", "max") for name in names):
        raise ValueError(f"reduce must be 'mass', 'max' or a tuple of them; got {names!r}.")


def _tiles(span: tuple[int, int], size: int) -> int:
    return _up(span[1] - span[0], size)


def _up(count: int, size: int) -> int:
    return -(-count // size)
