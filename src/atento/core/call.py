"""One call of the door, checked and resolved: what every path receives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from atento.core.biases import Bias
from atento.core.compose import Mask, canonical
from atento.core.masks import Causal
from atento.core.positions import At, Grid, Place, Positions, resolved
from atento.core.scores import Score
from atento.core.structure import leaves

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of `attend` after the door's checks; `mask` is canonical, None where Full."""

    q: Tensor  # [B, H, Q, D]
    k: Tensor  # [B, Hk, K, Dk]
    v: Tensor  # [B, Hk, K, Dv]
    mask: Mask | None
    bias: Bias | None
    score: Score
    dropout: float
    place: Place
    at: At = None  # as it was given
    wants_lse: bool = False

    def cast(self, dtype: torch.dtype) -> Call:
        """The call as autocast makes it: float64 stays, all else takes the dtype."""
        if self.q.dtype == torch.float64:
            return self
        q, k, v = (x.to(dtype) for x in (self.q, self.k, self.v))
        return replace(self, q=q, k=k, v=v)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, H, Q, K."""
        return self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2]

    @property
    def accumulator(self) -> torch.dtype:
        """The dtype of logits and statistics."""
        return torch.promote_types(self.q.dtype, torch.float32)

    @property
    def scale(self) -> float:
        return self.score.factor(self.q.shape[-1])

    @property
    def group(self) -> int:
        """Query heads for each head of keys and values."""
        return self.q.shape[1] // self.k.shape[1]

    def grid(
        self, rows: tuple[int, int] | None = None, cols: tuple[int, int] | None = None
    ) -> Grid:
        B, H, Q, K = self.sizes
        return Grid(self.place, rows or (0, Q), cols or (0, K), B, H, self.q.device)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors of mask, bias and score, which may want gradients too."""
        return [leaf for part in (self.mask, self.bias, self.score) for leaf in leaves(part)]

    @property
    def needs_grad(self) -> bool:
        if not torch.is_grad_enabled():
            return False
        return any(x.requires_grad for x in (self.q, self.k, self.v, *self.tensors))


def checked(  # long: the door's arguments
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Bias | None,
    score: Score,
    dropout: float,
    at: At,
    wants_lse: bool = False,
) -> Call:
    """The call, or an error: the argument, what was expected, what was given, what to do."""
    _check_tensors(q, k, v)
    _check_kinds(mask, bias, score, dropout)
    B, H, Q, D = q.shape
    K = k.shape[2]
    _check_widths(q, k, score)
    why = mask.misfit(B, H, Q, K) if mask is not None else None
    why = why or (bias.misfit(B, H, Q, K, D) if bias is not None else None)
    why = why or score.sizes_misfit(Q, K)
    if why:
        raise ValueError(f"{why}. q is [B, H, Q, D] = {list(q.shape)}, k has K = {K}.")
    _check_at(at, q, k, mask, bias)
    if mask is not None:
        mask = canonical(mask)
        mask = None if mask.everything else mask
    place = resolved(at, Q, q.device)
    call = Call(q, k, v, mask, bias, score, float(dropout), place, at, wants_lse)
    _check_devices(call)
    return call


def _check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x, axes in (
        ("q", q, "[B, H, Q, D]"),
        ("k", k, "[B, Hk, K, Dk]"),
        ("v", v, "[B, Hk, K, Dv]"),
    ):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name} must be a torch tensor {axes}; got {type(x).__name__}. "
                "Write torch.as_tensor(…)."
            )
        if x.dim() != 4:
            raise ValueError(
                f"{name} must be {axes}; got {list(x.shape)}. "
                "Add the missing axes with x[None], or split heads with unflatten and transpose."
            )
        if not x.is_floating_point():
            raise TypeError(f"{name} must be floating; got {x.dtype}. Write {name}.float().")
    _check_alike(q, k, v)


def _check_alike(q: Tensor, k: Tensor, v: Tensor) -> None:
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"q, k and v must have one dtype; got {q.dtype}, {k.dtype}, {v.dtype}. "
            "Convert with .to(q.dtype)."
        )
    if not q.device == k.device == v.device:
        raise ValueError(
            f"q, k and v must be on one device; got {q.device}, {k.device}, {v.device}. "
            "Move with .to(q.device)."
        )
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(
            f"q, k and v must have the same batch B; got {q.shape[0]}, {k.shape[0]}, {v.shape[0]}. "
            "Use expand for a batch shared by all."
        )
    if k.shape[1:3] != v.shape[1:3]:
        raise ValueError(
            f"k and v must agree in heads and keys, [B, Hk, K, …]; got {list(k.shape)} and "
            f"{list(v.shape)}. Each key needs its value."
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"the heads of k must divide those of q; got {k.shape[1]} and {q.shape[1]}. "
            "Key head j serves query heads j·g … j·g + g − 1."
        )


def _check_kinds(mask: object, bias: object, score: object, dropout: object) -> None:
    if mask is not None and not isinstance(mask, Mask):
        remedy = "Write Dense(tensor) for a boolean tensor, True = may attend"
        if not isinstance(mask, Tensor):
            remedy = "Write Causal(), with its brackets, or another mask's name likewise"
        if isinstance(mask, Tensor) and mask.is_floating_point():
            remedy = "Write mask, bias = Dense.additive(tensor) for 0 / −inf floats"
        raise TypeError(
            f"mask must be a mask such as Causal() or None; got {_kind(mask)}. {remedy}."
        )
    if bias is not None and not isinstance(bias, Bias):
        raise TypeError(
            f"bias must be a bias such as Alibi.standard(heads) or None; got {_kind(bias)}. "
            "Write DenseBias(tensor) for a tensor that is added to the logits."
        )
    if not isinstance(score, Score):
        raise TypeError(f"score must be a score such as Dot(); got {_kind(score)}.")
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise ValueError(f"dropout must be a probability 0 ≤ p < 1; got {dropout!r}.")


def _check_widths(q: Tensor, k: Tensor, score: Score) -> None:
    why = score.misfit(q.shape[1], q.shape[-1])
    if why:
        raise ValueError(f"{why}. q is [B, H, Q, D] = {list(q.shape)}.")
    expected = score.key_width(q.shape[-1])
    if expected is not None and k.shape[-1] != expected:
        raise ValueError(
            f"k must have width Dk = {expected} for {type(score).__name__} and queries of width "
            f"{q.shape[-1]}; got {k.shape[-1]}. Bilinear compares unequal widths."
        )


def _check_at(at: At, q: Tensor, k: Tensor, mask: Mask | None, bias: Bias | None) -> None:
    B, Q, K = q.shape[0], q.shape[2], k.shape[2]
    if at is None:
        reader = next((x for x in (mask, bias) if x is not None and x.reads_query), None)
        if Q != K and reader is not None:
            raise ValueError(
                f"at is needed: {_named(reader)} reads the queries' positions, and {Q} "
                f"queries on {K} keys do not say where they stand. {_where_they_may_stand(Q, K)}"
            )
    elif isinstance(at, Positions):
        for name, x, count in (("q", at.q, Q), ("k", at.k, K)):
            if x.shape[-1] != count or (x.dim() == 2 and x.shape[0] not in (1, B)):
                raise ValueError(
                    f"at.{name} must be Int[{count}] or Int[{B}, {count}]; got {list(x.shape)}."
                )
    elif isinstance(at, Tensor):
        if at.device != q.device:
            raise ValueError(
                f"at must be on q's device {q.device}; got {at.device}. Move it with .to(q.device)."
            )
        if at.is_floating_point() or at.dtype == torch.bool or at.shape not in ((), (1,), (B,)):
            raise ValueError(f"at must be Int[B] = Int[{B}]; got {at.dtype} {list(at.shape)}.")
    elif isinstance(at, bool) or not isinstance(at, (int, torch.SymInt)):
        raise TypeError(f"at must be an int, Int[B] or Positions(q, k); got {_kind(at)}.")
    elif at < 0:
        raise ValueError(f"at must be ≥ 0, the first query's position; got {at}.")


def _named(reader: Mask | Bias) -> str:
    return "Causal" if reader == Causal() else type(reader).__name__


def _where_they_may_stand(queries: int, keys: int) -> str:
    if queries > keys:
        return "Write at=0 if both begin at position 0, or Positions(q, k)."
    last = keys - queries
    return f"Write at={last} if they are the last ones, or pass what a cache's update returned."


def _check_devices(call: Call) -> None:
    place = [x for x in (call.place.q, call.place.k) if x is not None]
    for x in (*call.tensors, *place):
        if x.device != call.q.device:
            raise ValueError(
                f"mask, bias, score and at must be on q's device {call.q.device}; got a tensor "
                f"{list(x.shape)} on {x.device}. Move them with .to(q.device)."
            )


def _kind(x: object) -> str:
    if isinstance(x, Tensor):
        return f"a {str(x.dtype).removeprefix('torch.')} tensor {list(x.shape)}"
    return type(x).__name__ if not isinstance(x, type) else f"the class {x.__name__}"
