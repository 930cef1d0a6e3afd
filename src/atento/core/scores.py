"""Scores: how a query and a key are compared.

logits = softcap(scale · score(q, k)); the sink is a logit without a value, one per head.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import torch
from torch import Tensor

from atento.core.positions import Grid
from atento.core.structure import Structured

__all__ = ["Additive", "Bilinear", "Cosine", "Dot"]


@dataclass(frozen=True, eq=False)
class Score(Structured):
    """Base of the scores.

    `scale` multiplies the raw score (default: 1/√D for `Dot`, 1 for the others); `softcap` c makes
    it c · tanh(x / c); `sink` Float[H] joins the softmax's denominator and takes weight to nothing.
    """

    scale: float | None = None
    softcap: float | None = None
    sink: Tensor | None = None

    is_dot = False  # whether `as_dot` says how the score is a dot product
    as_is = False  # whether that is the product of q and k themselves

    def raw(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, Q, K]: the score of each query and key, unscaled; k has H heads here."""
        raise NotImplementedError(f"{type(self).__name__} must define raw(self, q, k)")

    def over(self, grid: Grid, q: Tensor, k: Tensor) -> Tensor:
        """`raw` of a grid's rows and columns, for scores that know pairs apart."""
        return self.raw(q, k)

    def as_dot(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """(q', k') whose dot product is the score; k may have fewer heads than q."""
        raise NotImplementedError(f"{type(self).__name__} is no dot product")

    def misfit(self, H: int, D: int) -> str | None:
        """Why this score does not go with queries of H heads and width D; None where it does."""
        numbers_given: tuple[tuple[str, object], ...] = (
            ("scale", self.scale),
            ("softcap", self.softcap),
        )
        for name, x in numbers_given:
            if x is not None and (isinstance(x, bool) or not isinstance(x, numbers.Real)):
                return f"{name} must be a number; got {type(x).__name__}"
        sink = self.sink
        if sink is not None and not (isinstance(sink, Tensor) and sink.is_floating_point()):
            got = sink.dtype if isinstance(sink, Tensor) else f"{type(sink).__name__} {sink!r}"
            return f"sink must be Float[H] = [{H}]; got {got}"
        if sink is not None and sink.shape not in ((1,), (H,)):
            return f"sink must be Float[H] = [{H}]; got {list(sink.shape)}"
        if D == 0:
            return "q must have width D ≥ 1; got 0"
        if self.softcap is not None and self.softcap <= 0:
            return f"softcap must be > 0; got {self.softcap}"
        return None

    def key_width(self, width: int) -> int | None:
        """The width of keys that goes with queries of `width`; None where any may."""
        return width

    def sizes_misfit(self, Q: int, K: int) -> str | None:
        """Why this score does not go with these numbers of queries and keys; None where it does."""
        return None

    def factor(self, width: int) -> float:
        """The scale in force for queries of `width`."""
        return 1.0 if self.scale is None else self.scale

    def cost(self, width: int) -> int:
        """Numbers held for each pair while `raw` is computed."""
        return 1


@dataclass(frozen=True, eq=False)
class Dot(Score):
    """q · k, scaled by 1/√D.

    Ref: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """

    is_dot = True
    as_is = True

    def raw(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT

    def as_dot(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k

    def factor(self, width: int) -> float:
        return width**-0.5 if self.scale is None else self.scale


DOT = Dot()  # the plain one, which `attend` knows at a glance


@dataclass(frozen=True, eq=False)
class Cosine(Score):
    """q · k / (‖q‖ ‖k‖); a zero vector scores 0 with everything."""

    is_dot = True

    def raw(self, q: Tensor, k: Tensor) -> Tensor:
        return _unit(q) @ _unit(k).mT

    def as_dot(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return _unit(q), _unit(k)


def _unit(x: Tensor) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    length = wide.square().sum(-1, keepdim=True)
    # rsqrt only where the length is positive, so that a zero vector's gradient stays finite.
    inverse = torch.where(length > 0, length, 1.0).rsqrt()
    return (wide * inverse).to(x.dtype)


@dataclass(frozen=True, eq=False)
class Bilinear(Score):
    """qᵀ W k, for W Float[D, Dk] or Float[H, D, Dk] (Luong's "general").

    Ref: Luong et al. 2015, arXiv:1508.04025, section 3.1.
    """

    weight: Tensor | None = None

    is_dot = True

    def misfit(self, H: int, D: int) -> str | None:
        return super().misfit(H, D) or _parameter_misfit(
            "Bilinear(weight)", self.weight, H, D, "Dk"
        )

    def _mapped(self, q: Tensor) -> Tensor:
        assert self.weight is not None
        return q @ self.weight.to(q.dtype)

    def raw(self, q: Tensor, k: Tensor) -> Tensor:
        return self._mapped(q) @ k.mT

    def as_dot(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self._mapped(q), k

    def key_width(self, width: int) -> int | None:
        return None if self.weight is None else self.weight.shape[-1]


@dataclass(frozen=True, eq=False)
class Additive(Score):
    """vᵀ tanh(W_q q + W_k k) for v Float[A] or Float[H, A]; W_q Float[D, A], W_k Float[Dk, A].

    A projection that is None means that the queries (keys) come already projected to width A, as
    a decoder does that projects the encoder's states once.
    Ref: Bahdanau et al. 2015, arXiv:1409.0473, appendix A.1.2.
    """

    v: Tensor | None = None
    query: Tensor | None = None
    key: Tensor | None = None

    def misfit(self, H: int, D: int) -> str | None:
        if self.v is None or self.v.shape[:-1] not in ((), (1,), (H,)):
            got = None if self.v is None else list(self.v.shape)
            return f"Additive(v) must be Float[A] or Float[H, A] with H = {H}; got {got}"
        width = self.v.shape[-1]
        if self.query is None and width != D:
            return f"queries that come projected must have v's width {width}; got {D}"
        for name, x in (("query", self.query), ("key", self.key)):
            if x is not None and (x.dim() != 2 or x.shape[-1] != width):
                return f"Additive({name}) must be Float[…, A], A = {width}; got {list(x.shape)}"
        if self.query is not None and self.query.shape[0] != D:
            return f"Additive(query) must be [D, A] = [{D}, {width}]; got {list(self.query.shape)}"
        return super().misfit(H, D)

    def raw(self, q: Tensor, k: Tensor) -> Tensor:
        assert self.v is not None
        mine = q if self.query is None else q @ self.query.to(q.dtype)
        its = k if self.key is None else k @ self.key.to(k.dtype)
        v = (self.v if self.v.dim() == 2 else self.v[None]).to(q.dtype)
        hidden = (mine[:, :, :, None] + its[:, :, None]).tanh()  # [B, H, Q, K, A]
        return torch.einsum("bhqka,ha->bhqk", hidden, v.expand(q.shape[1], -1))

    def key_width(self, width: int) -> int | None:
        if self.key is not None:
            return self.key.shape[0]
        return width if self.query is None else self.query.shape[-1]

    def cost(self, width: int) -> int:
        return width if self.v is None else self.v.shape[-1]


def _parameter_misfit(name: str, x: Tensor | None, H: int, D: int, last: str) -> str | None:
    """Why x is not Float[D, last] or Float[H, D, last]."""
    if (
        x is not None
        and x.dim() in (2, 3)
        and x.shape[-2] == D
        and x.shape[:-2] in ((), (1,), (H,))
    ):
        return None
    got = None if x is None else list(x.shape)
    return (
        f"{name} must be Float[D, {last}] or Float[H, D, {last}] with D = {D}, H = {H}; got {got}"
    )
