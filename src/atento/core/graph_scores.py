"""Scores of graphs: how a receiver and a sender are compared, with what the edge between them says.

The names are the literature's; they serve every mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from atento.core.adjacency import Adjacency, Listed, joined, refuse_duplicates
from atento.core.edges import Edges
from atento.core.positions import Cell, Grid
from atento.core.scores import Score
from atento.core.structure import Structured

__all__ = ["GAT", "EdgeFeatures", "GATv2"]


@dataclass(frozen=True, eq=False)
class EdgeFeatures(Listed, Structured):
    """values[e] Float[A], or [H, A], where (j, i) is edge e of an `Edges`; 0 elsewhere.

    values: [E, A] or [E, H, A], in the user's order of edges. Duplicate edges are an error that
    names the first, unless `merge` ("sum", "max" or "logsumexp") says how their values join.
    """

    index: Tensor
    shape: tuple[int, int]
    table: Tensor  # [E, H|1, A]
    merge: str | None = None

    def __init__(self, edges: Edges, values: Tensor, merge: str | None = None) -> None:
        if not isinstance(edges, Edges):
            raise TypeError(f"EdgeFeatures takes an Edges; got {type(edges).__name__}.")
        if merge not in (None, "sum", "max", "logsumexp"):
            raise ValueError(f"merge must be 'sum', 'max' or 'logsumexp'; got {merge!r}.")
        count = edges.index.shape[1]
        if not isinstance(values, Tensor) or values.dim() not in (2, 3) or len(values) != count:
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                f"EdgeFeatures(values=…) must be [E, A] or [E, H, A] with E = {count}; got {got}."
            )
        for name, value in (
            ("index", edges.index),
            ("shape", edges.shape),
            ("table", values if values.dim() == 3 else values[:, None]),
            ("merge", merge),
        ):
            object.__setattr__(self, name, value)
        self.keep(edges.adjacency)
        if merge is None and not torch.compiler.is_compiling() and values.device.type != "meta":
            refuse_duplicates(edges.index, edges.adjacency)

    def on_edges(self, known: Adjacency, dtype: torch.dtype) -> Tensor:  # [E, H|1, A]
        """The features of another list's places."""
        mine = self.adjacency
        values = joined(self.table.to(dtype), mine, self.merge)
        if mine.codes is known.codes:
            return values
        if len(mine.codes) == 0:
            return values.new_zeros(len(known.codes), *values.shape[1:])
        place = torch.searchsorted(mine.codes, known.codes).clamp(max=len(mine.codes) - 1)
        found = (mine.codes[place] == known.codes)[:, None, None]
        return torch.where(found, values[place], 0.0)

    def over(self, grid: Grid, dtype: torch.dtype) -> Tensor:  # [1, H|1, rows, cols, A]
        """The features of each pair."""
        c: Cell = grid.cell
        values = joined(self.table.to(dtype), self.adjacency, self.merge)
        codes = self.adjacency.codes
        code = (c.q * self.shape[1] + c.k)[0, 0]
        if len(codes) == 0:
            return values.new_zeros(1, 1, *code.shape, values.shape[-1])
        place = torch.searchsorted(codes, code.contiguous()).clamp(max=len(codes) - 1)
        found = (codes[place] == code)[..., None, None]
        return torch.where(found, values[place], 0.0).permute(2, 0, 1, 3)[None]


class Units(NamedTuple):
    """A score as aᵀ LeakyReLU(left_i + right_j + edge_ij)."""

    left: Tensor  # [B, H, Q, A]
    right: Tensor  # [B, Hk, K, A], or with H heads
    weight: Tensor  # [H, A]
    slope: float
    edge: EdgeFeatures | None


@dataclass(frozen=True, eq=False)
class UnitScore(Score):
    """Base of the scores that `as_units` says as a sum of hidden units."""

    edge: EdgeFeatures | None = None
    slope: float = 0.2

    def as_units(self, q: Tensor, k: Tensor) -> Units:
        """The score's parts; k may have fewer heads than q."""
        raise NotImplementedError(f"{type(self).__name__} must define as_units(self, q, k)")

    def raw(self, q: Tensor, k: Tensor) -> Tensor:
        if self.edge is not None:
            name = type(self).__name__
            raise TypeError(f"{name} with edge features needs a grid: use it through attend.")
        return self._compared(self.as_units(q, k), None)

    def over(self, grid: Grid, q: Tensor, k: Tensor) -> Tensor:
        units = self.as_units(q, k)
        edge = None if self.edge is None else self.edge.over(grid, units.left.dtype)
        return self._compared(units, edge)

    def _compared(self, units: Units, edge: Tensor | None) -> Tensor:
        hidden = units.left[:, :, :, None] + units.right[:, :, None]  # [B, H, Q, K, A]
        hidden = hidden if edge is None else hidden + edge
        hidden = torch.nn.functional.leaky_relu(hidden, self.slope)
        return torch.einsum("bhqka,ha->bhqk", hidden, units.weight)

    def _edge_misfit(self, H: int, width: int) -> str | None:
        if self.edge is None:
            return None
        given: object = self.edge
        if not isinstance(given, EdgeFeatures):
            got = type(given).__name__
            return f"edge must be EdgeFeatures(edges, values) or None; got {got}"
        heads, last = self.edge.table.shape[1:]
        if last == width and heads in (1, H):
            return None
        return (
            f"{type(self).__name__}(edge) must have values [E, {width}] or [E, {H}, {width}]; "
            f"got {list(self.edge.table.shape)}"
        )

    def sizes_misfit(self, Q: int, K: int) -> str | None:
        if self.edge is None or self.edge.shape == (Q, K):
            return None
        return f"edge has shape (queries, keys) = {self.edge.shape}; the call has ({Q}, {K})"

    @property
    def hidden(self) -> int:
        """A."""
        raise NotImplementedError(f"{type(self).__name__} must define hidden")

    def cost(self, width: int) -> int:
        return self.hidden


@dataclass(frozen=True, eq=False)
class GAT(UnitScore):
    """LeakyReLU(aᵀ[q_i ‖ k_j] + e_ij), computed as a number for each query and one for each key.

    q and k are the projected features W h; `query` and `key`, Float[D] or Float[H, D], are the two
    halves of a. `edge` holds one number for each edge (and head), EdgeFeatures [E, 1] or [E, H, 1].
    Ref: Veličković et al. 2018, arXiv:1710.10903, equations 1 and 3.
    Claim: test_contract.py::test_every_path_equals_the_oracle
    """

    query: Tensor | None = None
    key: Tensor | None = None

    hidden = 1

    def misfit(self, H: int, D: int) -> str | None:
        for name, x in (("query", self.query), ("key", self.key)):
            why = _vector_misfit(f"GAT({name})", x, H, D)
            if why:
                return why
        return self._edge_misfit(H, 1) or super().misfit(H, D)

    def as_units(self, q: Tensor, k: Tensor) -> Units:
        assert self.query is not None
        assert self.key is not None
        H, Hk = q.shape[1], k.shape[1]
        mine = self.query.to(q.dtype).expand(H, -1)
        its = self.key.to(k.dtype).expand(H, -1).reshape(Hk, H // Hk, -1)
        right = (k @ its.mT).transpose(2, 3).flatten(1, 2)  # [B, H, K]
        left = (q @ mine[..., None])[..., 0]
        return Units(left[..., None], right[..., None], q.new_ones(H, 1), self.slope, self.edge)


@dataclass(frozen=True, eq=False)
class GATv2(UnitScore):
    """aᵀ LeakyReLU(q_i + k_j + e_ij) for a Float[D] or Float[H, D].

    q = W_l h and k = W_r h are the projected features, so W [h_i ‖ h_j] of the paper. `edge` holds
    the projected features of edges, EdgeFeatures [E, D] or [E, H, D].
    Ref: Brody et al. 2022, arXiv:2105.14491, equation 7.
    Claim: test_contract.py::test_every_path_equals_the_oracle
    """

    a: Tensor | None = None

    @property
    def hidden(self) -> int:  # type: ignore[override]
        return 1 if self.a is None else self.a.shape[-1]

    def misfit(self, H: int, D: int) -> str | None:
        why = _vector_misfit("GATv2(a)", self.a, H, D)
        return why or self._edge_misfit(H, D) or super().misfit(H, D)

    def as_units(self, q: Tensor, k: Tensor) -> Units:
        assert self.a is not None
        a = self.a.to(q.dtype).expand(q.shape[1], -1)
        return Units(q, k, a, self.slope, self.edge)


def _vector_misfit(name: str, x: Tensor | None, H: int, D: int) -> str | None:
    """Why x is not Float[D] or Float[H, D]."""
    if isinstance(x, Tensor) and x.shape in ((D,), (1, D), (H, D)):
        return None
    got = list(x.shape) if isinstance(x, Tensor) else x
    return f"{name} must be Float[D] or Float[H, D] with D = {D}, H = {H}; got {got}"
