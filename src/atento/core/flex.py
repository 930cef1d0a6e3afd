"""The path through FlexAttention: blocks without a pair that may attend are skipped.

Compiled once for each structure of mask, bias and score, with a code object of its own, so that
Dynamo's limit of recompilations (past which it would silently run dense) is never met: with
`fullgraph` it would raise, not fall back.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from atento.core.biases import Bias
from atento.core.blocks import Parts, assembled, parts_of
from atento.core.call import Call
from atento.core.compose import Mask
from atento.core.lowering import cell_at, flexible, predicate
from atento.core.masks import Full
from atento.core.positions import Grid
from atento.core.reference import capped, joined_with_sink
from atento.core.sdpa import tables_of

__all__: list[str] = []

Key = tuple[object, ...]


def refusal(call: Call) -> str | None:
    """Why FlexAttention cannot serve; None where it can."""
    if not call.score.is_dot:
        return f"{type(call.score).__name__} is no dot product"
    if call.dropout:
        return "it has no dropout"
    if call.bias is not None and not call.bias.pointwise:
        return f"{type(call.bias).__name__} is no formula on indices"
    if 0 in call.sizes:
        return "it needs at least one query and one key"
    if call.q.device.type == "cpu":
        asks = call.wants_lse or call.score.sink is not None
        if asks or any(x.requires_grad for x in (call.q, call.k, call.v, *call.tensors)):
            return "on CPU it has neither gradients nor a log-sum-exp"
        return None
    if call.q.dtype == torch.float64:
        return "its kernels have no float64"
    if not _has_triton():
        return "its kernels need Triton"
    if min(call.q.shape[-1], call.v.shape[-1]) < 16:
        return "its kernels want heads at least 16 wide"
    return None


def held(call: Call) -> int:
    """Entries of masks that are no formula, which it takes as a table."""
    if call.mask is not None and not call.mask.spellable:
        return tables_of(call) * call.sizes[2] * call.sizes[3]
    tabled = call.mask is not None and not call.mask.pointwise
    return call.sizes[2] * call.sizes[3] if tabled else 0


def run(call: Call) -> tuple[Tensor, Tensor | None]:
    """(out, lse or None)."""
    q, k = call.score.as_dot(call.q, call.k)
    grid = call.grid()
    mask = (
        None
        if call.mask is None and call.place.k is None
        else flexible(Full() if call.mask is None else call.mask, grid)
    )
    bias = None if call.bias is None else call.bias.bound(q.to(call.accumulator), call.scale)
    parts = None if mask is None else parts_of(mask, grid)
    wants_lse = call.wants_lse or call.score.sink is not None
    given = (q, k, call.v, mask, bias, parts, grid, call.score.softcap, call.scale, wants_lse)
    if torch.compiler.is_compiling():
        out, lse = _traced(*given)
    else:
        out, lse = _run_compiled(_key(call, q, k, mask, bias, wants_lse), given)
    if call.score.sink is None or lse is None:
        return out, lse
    return joined_with_sink(out, lse, call.score.sink)


def _run_compiled(key: Key, given: tuple[Any, ...]) -> tuple[Tensor, Tensor | None]:
    """The call through code compiled for its key; looking with taps makes nothing run dense."""
    # Here, not above: Dynamo takes a second to import, which nobody needs who compiles nothing.
    from torch._dynamo.exc import FailOnRecompileLimitHit

    with torch.compiler.set_stance("default"):
        try:
            return _compiled(key, _attempts.get(key, 0))(*given)
        except FailOnRecompileLimitHit:  # something beside the key varies: begin anew
            _attempts[key] = _attempts.get(key, 0) + 1
            return _compiled(key, _attempts[key])(*given)


def _traced(  # long: everything that the compiled code depends on
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Bias | None,
    parts: Parts | None,
    grid: Grid,
    softcap: float | None,
    scale: float,
    wants_lse: bool,
) -> tuple[Tensor, Tensor | None]:
    block_mask = None
    if mask is not None and parts is not None:
        block_mask = assembled(parts, grid, predicate(mask, grid.place))
    out, aux = flex_attention(
        q,
        k,
        v,
        score_mod=_changed(bias, softcap, grid),
        block_mask=block_mask,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
        return_aux=AuxRequest(lse=wants_lse),
    )
    return out, aux.lse


def _changed(bias: Bias | None, softcap: float | None, grid: Grid) -> Callable[..., Tensor] | None:
    """FlexAttention's score_mod: softcap, then bias."""
    if bias is None and softcap is None:
        return None

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        score = capped(score, softcap)
        return score if bias is None else score + bias.values(cell_at(grid.place, b, h, q, k))

    return score_mod


def _key(
    call: Call, q: Tensor, k: Tensor, mask: Mask | None, bias: Bias | None, wants_lse: bool
) -> Key:
    """What compiled code is made for: all that would make Dynamo compile again but lengths.

    torch's template for CPUs gives wrong numbers where tables and lengths vary together (2.13), so
    there each shape has code of its own.
    """
    tensors = (q, k, call.v)
    lengths: tuple[object, ...] = tuple(min(n, 2) for n in call.sizes)
    lengths += (call.sizes[2] == call.sizes[3], min(call.place.start, 2))
    outlines = [None if x is None else x.structure for x in (mask, bias)]
    if q.device.type == "cpu":
        lengths = (*call.sizes, call.place.start)
    else:
        outlines = [_without_shapes(x) for x in outlines]
    return (
        *lengths,
        *((x.shape[1], x.shape[3], _order(x), x.dtype, x.requires_grad) for x in tensors),
        (call.place.q is None, call.place.k is None, q.device, torch.is_grad_enabled()),
        (call.scale, call.score.softcap, wants_lse),
        *(type(x) for x in (mask, bias)),
        *outlines,
    )


def _order(x: Tensor) -> tuple[int, ...]:
    """The axes from the widest stride to the narrowest."""
    strides = x.stride()
    return tuple(sorted(range(x.dim()), key=lambda axis: -strides[axis]))


def _without_shapes(structure: Any) -> Any:
    """The structure with the axes of its tensors, but not their lengths."""
    if not isinstance(structure, tuple):
        return structure
    if len(structure) == 3 and structure[0] == "tensor":
        return ("tensor", len(structure[1]), structure[2])
    return tuple(_without_shapes(x) for x in structure)


@lru_cache(maxsize=256)
def _compiled(key: Key, attempt: int) -> Callable[..., tuple[Tensor, Tensor | None]]:
    # Dynamo counts recompilations by code object: a copy of it starts at zero.
    code = _traced.__code__.replace(co_name=f"flex_{abs(hash((key, attempt))):x}")
    own = types.FunctionType(code, _traced.__globals__, code.co_name)
    return torch.compile(own, fullgraph=True)


_attempts: dict[Key, int] = {}


@cache
def _has_triton() -> bool:
    from torch.utils._triton import has_triton

    return bool(has_triton()) or not torch.cuda.is_available()  # only explained, then
