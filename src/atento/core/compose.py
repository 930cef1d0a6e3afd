"""Masks as data: the base class, `&`, `|`, `~`, and their canonical form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from atento.core.positions import At, Cell, Grid
from atento.core.structure import Structured

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

    from atento.core.blocks import Tiles

__all__: list[str] = []

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Where = torch.device | str | None


class Mask(Structured):
    """Says which query may attend to which key; True means *may attend*.

    A leaf gives `allows`, a formula on index tensors that broadcast; everything else has a default.
    """

    reads_query = True  # whether the query's position matters
    spellable = True  # whether it is made of tensors and plain values only, no function
    pointwise = True  # whether `allows` is a formula and loads only (what FlexAttention can run)

    def allows(self, c: Cell) -> Tensor:
        """Bool, broadcast from the cell's indices: whether query i may attend to key j."""
        raise NotImplementedError(f"{type(self).__name__} must define allows(self, c)")

    def inside(self, c: Cell) -> Tensor | None:
        """Where its tables know the answer (None: everywhere); outside, `~` is False too."""
        return None

    def over(self, grid: Grid) -> Tensor:
        """`allows` over a grid, broadcastable to [B, H, Q, K]; overridden if slicing is cheaper."""
        return self.allows(grid.cell)

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        """For each block whether some pair (at most) and every pair (at least) may attend."""
        return t.constant(True), t.constant(False)

    def span(self) -> tuple[int | None, int | None]:
        """The farthest attended key behind and ahead of the query; None is unbounded."""
        return None, None

    def density(self, queries: int, keys: int) -> float:
        """The part of the pairs that may attend, as far as static fields tell."""
        before, after = self.span()
        if before is None and after is None:
            return 1.0
        if before is None or after is None:
            return 0.5
        return min(1.0, (before + after + 1) / max(keys, 1))

    def meet(self, other: Mask) -> Mask | None:
        """self & other as one mask, where there is one."""
        return None

    def keeps_self(self) -> bool:
        """Whether every query surely may attend to the key at its own position."""
        return False

    @property
    def has_tiles(self) -> bool:
        """Whether blocks of it can be ruled out without looking at every pair."""
        return type(self).tiles is not Mask.tiles

    @property
    def everything(self) -> bool:
        """Whether every query surely may attend to every key."""
        return False

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        """Why this mask does not go with a call of these sizes; None where it does."""
        return None

    def bound(self) -> Mask:
        """The mask with what is computed once per call already computed."""
        return self

    def __and__(self, other: Mask) -> Mask:
        return _joined(And, self, other)

    def __or__(self, other: Mask) -> Mask:
        return _joined(Or, self, other)

    def __invert__(self) -> Mask:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a mask is neither true nor false: join masks with &, | and ~, not with words."
        )

    def dense(
        self, Q: int, K: int, B: int = 1, H: int = 1, at: At = None, device: Where = None
    ) -> Tensor:
        """Bool[B, H, Q, K], empty slots excluded."""
        from atento.core import lowering

        return lowering.dense(self, (B, H, Q, K), at, device)

    def predicate(
        self, Q: int, K: int, B: int = 1, H: int = 1, at: At = None, device: Where = None
    ) -> Predicate:
        """fn(b, h, q, k) on row and column indices: FlexAttention's mask_mod."""
        from atento.core import lowering

        grid = lowering.grid_of((B, H, Q, K), at, device)
        return lowering.predicate(lowering.flexible(canonical(self), grid), grid.place)

    def block_mask(
        self, Q: int, K: int, B: int = 1, H: int = 1, at: At = None, device: Where = None
    ) -> BlockMask:
        """FlexAttention's BlockMask, made from three-valued logic on the leaves."""
        from atento.core import blocks, lowering

        grid = lowering.grid_of((B, H, Q, K), at, device)
        return blocks.block_mask(canonical(self), grid)

    def edges(
        self, Q: int, K: int, B: int = 1, H: int = 1, at: At = None, device: Where = None
    ) -> Tensor:
        """Int[2, E] of the allowed pairs, row 0 = key, row 1 = query; B and H must be 1."""
        from atento.core import lowering

        return lowering.edges(self, (B, H, Q, K), at, device)


@dataclass(frozen=True, eq=False)
class Joined(Mask):
    """Several masks as one; `And` and `Or` say how."""

    parts: tuple[Mask, ...]

    @property
    def reads_query(self) -> bool:  # type: ignore[override]
        return any(p.reads_query for p in self.parts)

    @property
    def pointwise(self) -> bool:  # type: ignore[override]
        return all(p.pointwise for p in self.parts)

    @property
    def spellable(self) -> bool:  # type: ignore[override]
        return all(p.spellable for p in self.parts)

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        return next((why for p in self.parts if (why := p.misfit(B, H, Q, K))), None)

    def bound(self) -> Mask:
        return type(self)(tuple(p.bound() for p in self.parts))


@dataclass(frozen=True, eq=False)
class And(Joined):
    """Every part allows."""

    def allows(self, c: Cell) -> Tensor:
        return _all([p.allows(c) for p in self.parts])

    def over(self, grid: Grid) -> Tensor:
        return _all([p.over(grid) for p in self.parts])

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        pairs = [p.tiles(t) for p in self.parts]
        return _all([some for some, _ in pairs]), _all([every for _, every in pairs])

    def span(self) -> tuple[int | None, int | None]:
        spans = [p.span() for p in self.parts]
        return _least([b for b, _ in spans]), _least([a for _, a in spans])

    def density(self, queries: int, keys: int) -> float:
        return min(p.density(queries, keys) for p in self.parts)

    def keeps_self(self) -> bool:
        return all(p.keeps_self() for p in self.parts)


@dataclass(frozen=True, eq=False)
class Or(Joined):
    """Some part allows."""

    def allows(self, c: Cell) -> Tensor:
        return _any([p.allows(c) for p in self.parts])

    def over(self, grid: Grid) -> Tensor:
        return _any([p.over(grid) for p in self.parts])

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        pairs = [p.tiles(t) for p in self.parts]
        return _any([some for some, _ in pairs]), _any([every for _, every in pairs])

    def span(self) -> tuple[int | None, int | None]:
        spans = [p.span() for p in self.parts]
        return _most([b for b, _ in spans]), _most([a for _, a in spans])

    def density(self, queries: int, keys: int) -> float:
        return min(1.0, sum(p.density(queries, keys) for p in self.parts))

    def keeps_self(self) -> bool:
        return any(p.keeps_self() for p in self.parts)


@dataclass(frozen=True, eq=False)
class Not(Mask):
    """The part does not allow, though its tables know the pair."""

    part: Mask

    @property
    def pointwise(self) -> bool:  # type: ignore[override]
        return self.part.pointwise

    @property
    def spellable(self) -> bool:  # type: ignore[override]
        return self.part.spellable

    @property
    def reads_query(self) -> bool:  # type: ignore[override]
        return self.part.reads_query

    def allows(self, c: Cell) -> Tensor:
        known = self.part.inside(c)
        refused = ~self.part.allows(c)
        return refused if known is None else refused & known

    def over(self, grid: Grid) -> Tensor:
        known = self.part.inside(grid.cell)
        refused = ~self.part.over(grid)
        return refused if known is None else refused & known

    def tiles(self, t: Tiles) -> tuple[Tensor, Tensor]:
        some, every = self.part.tiles(t)
        # Where tables end is not known per block, so a block is never promised to be full there.
        return ~every, (t.constant(False) if t.has_tables(self.part) else ~some)

    def density(self, queries: int, keys: int) -> float:
        return 1.0

    def misfit(self, B: int, H: int, Q: int, K: int) -> str | None:
        return self.part.misfit(B, H, Q, K)

    def bound(self) -> Mask:
        return Not(self.part.bound())


def _joined(kind: type[And] | type[Or], left: Mask, right: Mask) -> Mask:
    for side in (left, right):
        if not isinstance(side, Mask):
            raise TypeError(
                f"& and | join masks; got {type(side).__name__}. "
                "For a boolean tensor (True = may attend) write Dense(tensor)."
            )
    parts = [
        part
        for side in (left, right)
        for part in (side.parts if isinstance(side, kind) else (side,))
    ]
    return kind(tuple(parts))


def canonical(mask: Mask) -> Mask:
    """The same mask with `~` on leaves only, `&` and `|` flat, intervals intersected, Full gone."""
    return _canonical(mask, negated=False)


def _canonical(mask: Mask, negated: bool) -> Mask:
    if isinstance(mask, Not):
        return _canonical(mask.part, not negated)
    if isinstance(mask, (And, Or)):
        flips = isinstance(mask, And) is negated  # De Morgan
        parts = [_canonical(p, negated) for p in mask.parts]
        return _flat(Or if flips else And, parts)
    return Not(mask) if negated else mask


def _flat(kind: type[And] | type[Or], parts: list[Mask]) -> Mask:
    flat = [q for p in parts for q in (p.parts if isinstance(p, kind) else (p,))]
    full = next((p for p in flat if p.everything), None)
    if full is not None:
        if kind is Or:
            return full
        flat = [p for p in flat if not p.everything] or [full]
    kept: list[Mask] = []
    for part in flat:
        for n, other in enumerate(kept):
            joined = other.meet(part) if kind is And else (other if other == part else None)
            if joined is not None:
                kept[n] = joined
                break
        else:
            kept.append(part)
    return kept[0] if len(kept) == 1 else kind(tuple(kept))


def _all(xs: list[Tensor]) -> Tensor:
    out = xs[0]
    for x in xs[1:]:
        out = out & x
    return out


def _any(xs: list[Tensor]) -> Tensor:
    out = xs[0]
    for x in xs[1:]:
        out = out | x
    return out


def _least(xs: list[int | None]) -> int | None:
    known = [x for x in xs if x is not None]
    return min(known) if known else None


def _most(xs: list[int | None]) -> int | None:
    return None if any(x is None for x in xs) else max(x for x in xs if x is not None)
