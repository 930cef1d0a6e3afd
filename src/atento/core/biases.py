"""Biases: what is added to the logits. Joined by `+`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from atento.core.adjacency import Adjacency, Listed, joined, refuse_duplicates
from atento.core.arguments import dense_misfit
from atento.core.positions import Cell, Grid
from atento.core.structure import Structured

__all__ = ["Alibi", "DenseBias", "EdgeBias", "Shaw", "T5Bias"]


class Bias(Structured):
    """A number for each head, query and key, added to the scaled logits.

    A bias gives `values`, a formula on index tensors that broadcast.
    """

    reads_query = True
    pointwise = True  # whether `values` is a formula and loads only (what FlexAttention can run)

    def values(self, c: Cell) -> Tensor:
        """Float, broadcast from the cell's indices: what is added to the logits."""
        raise NotImplementedError(f"{type(self).__name__} must define values(self, c)")

    def over(self, grid: Grid) -> Tensor:
        """`values` over a grid; overridden where slicing is cheaper."""
        return self.values(grid.cell)

    def on_edges(self, c: Cell, known: Adjacency) -> Tensor:
        """`values` of an adjacency's places; overridden where they are at hand."""
        return self.values(c)

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        """Why this bias does not go with a call of these sizes; None where it does."""
        return None

    def bound(self, q: Tensor, scale: float) -> Bias:
        """The bias with what needs the queries, or is computed once per call, already computed."""
        return self

    def __add__(self, other: Bias) -> Bias:
        if not isinstance(other, Bias):
            raise TypeError(f"+ joins biases; got {type(other).__name__}. Write DenseBias(tensor).")
        mine = self.parts if isinstance(self, Sum) else (self,)
        return Sum((*mine, *(other.parts if isinstance(other, Sum) else (other,))))


@dataclass(frozen=True, eq=False)
class Sum(Bias):
    """The sum of the parts."""

    parts: tuple[Bias, ...]

    @property
    def pointwise(self) -> bool:  # type: ignore[override]
        return all(p.pointwise for p in self.parts)

    @property
    def reads_query(self) -> bool:  # type: ignore[override]
        return any(p.reads_query for p in self.parts)

    def values(self, c: Cell) -> Tensor:
        return _total([p.values(c) for p in self.parts])

    def over(self, grid: Grid) -> Tensor:
        return _total([p.over(grid) for p in self.parts])

    def on_edges(self, c: Cell, known: Adjacency) -> Tensor:
        return _total([p.on_edges(c, known) for p in self.parts])

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        return next((why for p in self.parts if (why := p.misfit(B, H, Q, K, D))), None)

    def bound(self, q: Tensor, scale: float) -> Bias:
        return Sum(tuple(p.bound(q, scale) for p in self.parts))


def _total(xs: list[Tensor]) -> Tensor:
    out = xs[0]
    for x in xs[1:]:
        out = out + x
    return out


@dataclass(frozen=True, eq=False)
class Alibi(Bias):
    """−m_h · |i − j| for slopes m Float[H].

    Ref: Press et al. 2022, arXiv:2108.12409, section 3.
    """

    slopes: Tensor

    @staticmethod
    def standard(heads: int, device: torch.device | None = None) -> Alibi:
        """The paper's slopes: 2^(−8h/H) for h = 1…H where H is a power of two, else interleaved."""
        return Alibi(torch.tensor(_slopes(heads), device=device))

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        return _heads_misfit("Alibi(slopes)", self.slopes, H)

    def values(self, c: Cell) -> Tensor:
        return -self.slopes[c.h if len(self.slopes) > 1 else c.h * 0] * (c.i - c.j).abs()


def _slopes(heads: int) -> list[float]:
    least = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * h / least) for h in range(1, least + 1)]
    # As the authors do it: the missing heads take every other slope of the next power of two.
    return slopes + [2.0 ** (-4.0 * h / least) for h in range(1, 2 * (heads - least), 2)]


@dataclass(frozen=True, eq=False)
class T5Bias(Bias):
    """table[bucket(j − i), h]: half the buckets exact distances, half growing logarithmically.

    Ref: Raffel et al. 2020, arXiv:1910.10683, section 2.1. `table` is Float[buckets, H].
    """

    table: Tensor
    bidirectional: bool = True
    farthest: int = 128

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        return _heads_misfit("T5Bias(table)", self.table, H)

    def values(self, c: Cell) -> Tensor:
        head = c.h if self.table.shape[-1] > 1 else c.h * 0
        return self.table[self.bucket(c.j - c.i), head]

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of j − i."""
        buckets = self.table.shape[0]
        if self.bidirectional:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            first = (distance > 0).long() * 0
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        # float32, and the multiplication before the truncation, as T5's own code has it.
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.farthest / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < exact, distance, far)


@dataclass(frozen=True, eq=False)
class Shaw(Bias):
    """scale · q_i · r_clip(j−i), for relative embeddings r Float[2R + 1, D] or [H, 2R + 1, D].

    Ref: Shaw et al. 2018, arXiv:1803.02155, equation 4 (keys only).
    """

    keys: Tensor

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        *heads, reach, width = (0, 0, *self.keys.shape)[-max(self.keys.dim(), 2) :]
        if reach % 2 == 1 and width == D and heads in ([], [H]):
            return None
        return (
            f"Shaw(keys) must be [2R + 1, D] or [H, 2R + 1, D] with D = {D}, H = {H}; "
            f"got {list(self.keys.shape)}"
        )

    def values(self, c: Cell) -> Tensor:
        raise TypeError("Shaw needs the queries: use it through attend, or Shaw.bound(q, scale).")

    def bound(self, q: Tensor, scale: float) -> Bias:
        table = self.keys if self.keys.dim() == 3 else self.keys[None]
        acc = torch.promote_types(q.dtype, torch.float32)
        return _Gathered(scale * (q.to(acc) @ table.to(acc).mT))


@dataclass(frozen=True, eq=False)
class _Gathered(Bias):
    """table[b, h, row, clip(j − i) + R]: Shaw once the queries are known."""

    table: Tensor  # [B, H, Q, 2R + 1]

    def values(self, c: Cell) -> Tensor:
        reach = (self.table.shape[-1] - 1) // 2
        return self.table[c.b, c.h, c.q, (c.j - c.i).clamp(-reach, reach) + reach]


@dataclass(frozen=True, eq=False)
class DenseBias(Bias):
    """Float[Q, K] or Float[B, 1 or H, Q, K], by this call's rows and columns."""

    table: Tensor

    reads_query = False

    def __post_init__(self) -> None:
        x = self.table
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() not in (2, 4):
            got = f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"DenseBias must be Float[Q, K] or Float[B, 1 or H, Q, K]; got {got}. "
                "A boolean mask is Dense(tensor)."
            )
        if x.dim() == 2:
            object.__setattr__(self, "table", x[None, None])

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        return dense_misfit("DenseBias", self.table, B, H, Q, K)

    def values(self, c: Cell) -> Tensor:
        batch, heads = self.table.shape[:2]
        return self.table[c.b if batch > 1 else c.b * 0, c.h if heads > 1 else c.h * 0, c.q, c.k]

    def over(self, grid: Grid) -> Tensor:
        return self.table[:, :, slice(*grid.rows), slice(*grid.cols)]


@dataclass(frozen=True, eq=False)
class EdgeBias(Listed, Bias):
    """values[e] (or values[e, h]) where (j, i) is edge e of an `Edges`, 0 elsewhere.

    In the user's order of edges. Duplicate edges are an error that names the first, unless
    `merge` says how their values join: "sum", "max" or "logsumexp".
    """

    index: Tensor
    shape: tuple[int, int]
    weights: Tensor
    merge: Literal["sum", "max", "logsumexp"] | None = None

    reads_query = False
    pointwise = False

    def __init__(self, edges: object, values: Tensor, merge: str | None = None) -> None:
        from atento.core.edges import Edges

        if not isinstance(edges, Edges):
            raise TypeError(f"EdgeBias takes an Edges; got {type(edges).__name__}.")
        if merge not in (None, "sum", "max", "logsumexp"):
            raise ValueError(f"merge must be 'sum', 'max' or 'logsumexp'; got {merge!r}.")
        count = edges.index.shape[1]
        if not isinstance(values, Tensor) or values.dim() not in (1, 2) or len(values) != count:
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                f"EdgeBias(values=…) must be [E] or [E, H] with E = {count}; got {got}."
            )
        for name, value in (
            ("index", edges.index),
            ("shape", edges.shape),
            ("weights", values if values.dim() == 2 else values[:, None]),
            ("merge", merge),
        ):
            object.__setattr__(self, name, value)
        self.keep(edges.adjacency)
        if merge is None and not torch.compiler.is_compiling() and values.device.type != "meta":
            refuse_duplicates(edges.index, edges.adjacency)

    def misfit(self, B: int, H: int, Q: int, K: int, D: int) -> str | None:
        if self.shape != (Q, K):
            return f"EdgeBias has shape (queries, keys) = {self.shape}; the call has ({Q}, {K})"
        return _heads_misfit("EdgeBias(values)", self.weights, H)

    def values(self, c: Cell) -> Tensor:
        raise TypeError("EdgeBias is merged once per call: use it through attend.")

    def bound(self, q: Tensor, scale: float) -> Bias:
        wide = self.weights.to(torch.promote_types(self.weights.dtype, torch.float32))
        known = self.adjacency
        return _Sorted(known.codes, joined(wide, known, self.merge).T, self.shape[1])


@dataclass(frozen=True, eq=False)
class _Sorted(Bias):
    """EdgeBias once its duplicates are merged: found by bisection, so that no Q×K table is held."""

    codes: Tensor  # query · keys + key, ascending
    weights: Tensor  # [H|1, codes]
    keys: int

    reads_query = False
    pointwise = False

    def values(self, c: Cell) -> Tensor:
        code = c.q * self.keys + c.k
        if self.codes.shape[0] == 0:
            return self.weights.new_zeros(()).expand(code.shape)
        place = torch.searchsorted(self.codes, code.contiguous()).clamp(max=len(self.codes) - 1)
        head = c.h if len(self.weights) > 1 else c.h * 0
        return torch.where(self.codes[place] == code, self.weights[head, place], 0.0)

    def on_edges(self, c: Cell, known: Adjacency) -> Tensor:
        if self.codes is known.codes:  # the edges that are attended: nothing is looked for
            return self.weights[None, :, None]
        return self.values(c)


def _heads_misfit(name: str, x: Tensor, heads: int) -> str | None:
    """Why a tensor whose last axis is heads does not go with a call of H heads; 1 goes with any."""
    if x.shape[-1] in (1, heads):
        return None
    return f"{name} is for {x.shape[-1]} heads; q has {heads}"
