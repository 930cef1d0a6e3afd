"""What a mask becomes: a table, a formula on indices, a list of edges."""

from __future__ import annotations

import torch
from torch import Tensor

from atento.core.compose import And, Mask, Not, Or, Predicate, Where, canonical
from atento.core.positions import At, Cell, Grid, Place, resolved

__all__: list[str] = []

Sizes = tuple[int, int, int, int]  # B, H, Q, K


def grid_of(sizes: Sizes, at: At, device: Where, rows: tuple[int, int] | None = None) -> Grid:
    """The grid of a whole call, or of some of its rows."""
    B, H, Q, K = sizes
    where = torch.device(device or "cpu")
    return Grid(resolved(at, Q, where), rows or (0, Q), (0, K), B, H, where)


def dense(mask: Mask, sizes: Sizes, at: At, device: Where) -> Tensor:  # [B, H, Q, K]
    """The mask as a table."""
    return allowed(canonical(mask).bound(), grid_of(sizes, at, device)).expand(sizes)


def edges(mask: Mask, sizes: Sizes, at: At, device: Where) -> Tensor:  # [2, E]
    """The pairs that may attend, keys above queries."""
    B, H, Q, K = sizes
    if B != 1 or H != 1:
        raise ValueError(f"edges are shared by batch and heads: B and H must be 1; got {B}, {H}.")
    rows = max(1, 2**22 // max(K, 1))  # in strips, so that memory stays linear in K
    found = [torch.zeros(2, 0, dtype=torch.long, device=torch.device(device or "cpu"))]
    for start in range(0, Q, rows):
        grid = grid_of(sizes, at, device, rows=(start, min(Q, start + rows)))
        tile = allowed(canonical(mask).bound(), grid).expand(1, 1, grid.rows[1] - start, K)[0, 0]
        q, k = tile.nonzero(as_tuple=True)
        found.append(torch.stack([k, q + start]))
    return torch.cat(found, 1)


def allowed(mask: Mask, grid: Grid) -> Tensor:
    """Bool, broadcastable to [B, H, rows, cols]: the mask over a grid, empty slots excluded."""
    tile = mask.over(grid)
    return tile if grid.place.k is None else tile & (grid.cell.j >= 0)


def allowed_if_asked(mask: Mask | None, grid: Grid) -> Tensor | None:
    """`allowed`, of the empty slots alone without a mask; None where everything may attend."""
    if mask is not None:
        return allowed(mask, grid)
    return None if grid.place.k is None else grid.cell.j >= 0


def flexible(mask: Mask, grid: Grid) -> Mask:
    """The mask with every part that is no formula replaced by its dense form."""
    if isinstance(mask, And):
        return And(tuple(flexible(p, grid) for p in mask.parts))
    if isinstance(mask, Or):
        return Or(tuple(flexible(p, grid) for p in mask.parts))
    if isinstance(mask, Not):
        return Not(flexible(mask.part, grid))
    if mask.pointwise:
        return mask
    from atento.core.tables import Dense

    return Dense(mask.bound().over(grid).expand(1, 1, -1, -1))


def predicate(mask: Mask, place: Place) -> Predicate:
    """mask_mod of FlexAttention: positions are looked up from rows and columns."""

    def mask_mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        c = cell_at(place, b, h, q, k)
        ok = mask.allows(c)
        return ok if place.k is None else ok & (c.j >= 0)

    return mask_mod


def cell_at(place: Place, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Cell:
    """The cell of given indices."""
    i = q + place.start if place.q is None else _read(place.q, b, q)
    j = k if place.k is None else _read(place.k, b, k)
    return Cell(b, h, q, k, i, j)


def _read(table: Tensor, b: Tensor, index: Tensor) -> Tensor:
    return table[b if table.shape[0] > 1 else b * 0, index]
