"""The path in linear memory: queries run by run, each run with the keys near it.

One operator of torch.library, so that compiled code sees one node whatever the lengths. Each run's
scores are made, used and thrown away; backward makes them again from the log-sum-exp.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from atento.core.call import Call
from atento.core.pieces import AT_ONCE, Work
from atento.core.structure import spelled

__all__: list[str] = []


def refusal(call: Call) -> str | None:
    """Why it cannot serve; None where it can."""
    if call.mask is not None and not call.mask.spellable:
        return "Where holds a function, which cannot be passed to an operator"
    return None


def held(call: Call) -> int:
    """Scores held at once."""
    return min(AT_ONCE, call.q.shape[0] * call.q.shape[1] * call.q.shape[2] * call.k.shape[2])


def run(call: Call) -> tuple[Tensor, Tensor]:
    """(out, lse)."""
    q, k, score = call.q, call.k, call.score
    bias = None if call.bias is None else call.bias.bound(q.to(call.accumulator), call.scale)
    mask = None if call.mask is None else call.mask.bound()
    tensors: list[Tensor] = []
    text = spelled((mask, bias, score, call.place.q, call.place.k), tensors)
    seed = torch.randint(2**62, ()) if call.dropout else None
    # Gradients of the lse reach the kernel through its second output; `attend` alone never asks.
    out, lse = _forward(q, k, call.v, tensors, text, call.place.start, call.dropout, seed)
    return out, lse


@torch.library.custom_op("atento::chunked", mutates_args=())
def _forward(  # long: an operator takes tensors and plain values only
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: list[Tensor],
    text: str,
    start: int,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    work = Work.read(q, k, v, tensors, text, start, dropout, seed)
    out = q.new_empty(*q.shape[:3], v.shape[-1])
    lse = q.new_empty(q.shape[:3], dtype=work.accumulator)
    for piece in work.pieces():
        out[:, :, piece.rows], lse[:, :, piece.rows] = piece.forward()
    return out, lse


@_forward.register_fake
def _shapes(  # long: as the operator
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: list[Tensor],
    text: str,
    start: int,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    acc = torch.promote_types(q.dtype, torch.float32)
    return q.new_empty(*q.shape[:3], v.shape[-1]), q.new_empty(q.shape[:3], dtype=acc)


@torch.library.custom_op("atento::chunked_backward", mutates_args=())
def _backward(  # long: an operator takes tensors and plain values only
    grad: Tensor,
    grad_lse: Tensor | None,
    saved: list[Tensor],
    tensors: list[Tensor],
    wanted: list[bool],
    text: str,
    start: int,
    dropout: float,
    seed: Tensor | None,
) -> list[Tensor]:
    q, k, v, out, lse = saved
    work = Work.read(q, k, v, tensors, text, start, dropout, seed)
    wide = work.accumulator
    grads = [torch.zeros_like(x, dtype=wide) for x in (q, k, v)]
    grads += [
        torch.zeros_like(x, dtype=wide if w else x.dtype)
        for x, w in zip(tensors, wanted, strict=True)
    ]
    for piece in work.pieces():
        piece.backward(grads, wanted, (grad, grad_lse, out, lse))
    return [g.to(x.dtype) for g, x in zip(grads, (q, k, v, *tensors), strict=True)]


@_backward.register_fake
def _shapes_of_backward(  # long: as the operator
    grad: Tensor,
    grad_lse: Tensor | None,
    saved: list[Tensor],
    tensors: list[Tensor],
    wanted: list[bool],
    text: str,
    start: int,
    dropout: float,
    seed: Tensor | None,
) -> list[Tensor]:
    return [torch.empty_like(x) for x in (*saved[:3], *tensors)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, tensors, text, start, dropout, seed = inputs
    ctx.save_for_backward(q, k, v, *output, *([] if seed is None else [seed]), *tensors)
    ctx.seeded = seed is not None
    ctx.plain = (text, start, dropout)
    ctx.wanted = [x.requires_grad for x in tensors]
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
    text, start, dropout = ctx.plain
    held = list(ctx.saved_tensors)  # once: activation checkpointing allows one reading
    saved, rest = held[:5], held[5:]
    seed = rest.pop(0) if ctx.seeded else None
    if grad is None:
        grad = torch.zeros_like(saved[3])
    dq, dk, dv, *found = _backward(
        grad, grad_lse, saved, rest, ctx.wanted, text, start, dropout, seed
    )
    kept = [g if w else None for g, w in zip(found, ctx.wanted, strict=True)]
    return dq, dk, dv, kept, None, None, None, None


_forward.register_autograd(_gradients, setup_context=_save)
