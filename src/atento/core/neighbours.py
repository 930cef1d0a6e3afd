"""The path for graphs: each query with its neighbours, nothing else; no table of queries × keys.

One operator of torch.library. A number for each edge and head is held while it runs; kept for
backward is the log-sum-exp, from which the weights are made again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from atento.core.adjacency import Adjacency
from atento.core.call import Call
from atento.core.compose import And, Mask
from atento.core.edge_work import AT_ONCE, Work
from atento.core.edges import Edges
from atento.core.graph_scores import UnitScore
from atento.core.lowering import cell_at
from atento.core.positions import Cell
from atento.core.reference import joined_with_sink

__all__: list[str] = []


def refusal(call: Call) -> str | None:
    """Why it cannot serve; None where it can."""
    if _listed(call.mask)[0] is None:
        return "its pairs are no list: it needs an Edges mask, alone or joined to others by &"
    if not call.score.is_dot and not isinstance(call.score, UnitScore):
        return f"{type(call.score).__name__} has no form for edges"
    return None


def held(call: Call) -> int:
    """A number for each edge and head of a slab."""
    edges, _ = _listed(call.mask)
    assert edges is not None
    B, H, _, _ = call.sizes
    E = edges.index.shape[1]
    return min(E * B * H, max(AT_ONCE, E * call.group))


def _listed(mask: Mask | None) -> tuple[Edges | None, list[Mask]]:
    """The shortest list of edges among masks joined by &, and the other masks."""
    parts = list(mask.parts) if isinstance(mask, And) else [] if mask is None else [mask]
    edges: Edges | None = None
    for part in parts:  # a loop, for Dynamo knows no min with a key
        shorter = edges is None or _length(part) < _length(edges)
        if isinstance(part, Edges) and shorter:
            edges = part
    return edges, [part for part in parts if part is not edges]


def _length(edges: Mask) -> int:
    return edges.index.shape[1] if isinstance(edges, Edges) else 0


def run(call: Call) -> tuple[Tensor, Tensor]:
    """(out, lse)."""
    edges, others = _listed(call.mask)
    assert edges is not None
    known, wide, score = edges.adjacency, call.accumulator, call.score
    bias = _added(call, known, others)
    weight = edge = slope = None
    q, k = call.q.to(wide), call.k.to(wide)
    if isinstance(score, UnitScore):
        left, right, weight, slope, features = score.as_units(q, k)
        edge = None if features is None else features.on_edges(known, wide)
    else:
        left, right = score.as_dot(q, k)
    seed = torch.randint(2**62, ()) if call.dropout else None
    out, lse = _forward(
        [left, right, call.v.to(wide)],
        weight,
        edge,
        bias,
        [*known[2:7]],
        call.scale,
        slope,
        score.softcap,
        call.dropout,
        seed,
    )
    if score.sink is not None:
        out, lse = joined_with_sink(out, lse, score.sink)
    return out.to(call.q.dtype), lse


def _added(call: Call, known: Adjacency, others: list[Mask]) -> Tensor | None:  # [E, B|1, H|1]
    """What is added to the logits of edges: the bias, and −inf where another mask forbids."""
    B, H, _, _ = call.sizes
    device, wide = call.q.device, call.accumulator
    cell = cell_at(
        call.place,
        torch.arange(B, device=device)[:, None, None, None],
        torch.arange(H, device=device)[None, :, None, None],
        known.receivers.long()[None, None, None],
        known.senders.long()[None, None, None],
    )
    total = None
    if call.bias is not None:
        bound = call.bias.bound(call.q.to(wide), call.scale)
        total = bound.on_edges(cell, known).to(wide)
    forbidden = _forbidden(cell, call, known, others)
    if forbidden is not None:
        total = torch.zeros((), dtype=wide, device=device) if total is None else total
        total = torch.where(forbidden, -torch.inf, total)
    if total is None:
        return None
    E = len(known.codes)
    return total.expand(*total.shape[:-1], E)[:, :, 0].permute(2, 0, 1).contiguous()


def _forbidden(cell: Cell, call: Call, known: Adjacency, others: list[Mask]) -> Tensor | None:
    """Bool, broadcastable to [B, H, 1, E]."""
    found = [~mask.bound().allows(cell) for mask in others]
    if known.again is not None:
        found.append(known.again[None, None, None])
    if call.place.k is not None:
        found.append(cell.j < 0)
    total = None
    for x in found:
        total = x if total is None else total | x
    return total


@torch.library.custom_op("atento::neighbours", mutates_args=())
def _forward(  # long: an operator takes tensors and plain values only
    qkv: list[Tensor],
    weight: Tensor | None,
    edge: Tensor | None,
    bias: Tensor | None,
    graph: list[Tensor],
    scale: float,
    slope: float | None,
    softcap: float | None,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    work = Work.read(qkv, weight, edge, bias, graph, (scale, slope, softcap, dropout), seed)
    return work.forward()


@_forward.register_fake
def _shapes(  # long: as the operator
    qkv: list[Tensor],
    weight: Tensor | None,
    edge: Tensor | None,
    bias: Tensor | None,
    graph: list[Tensor],
    scale: float,
    slope: float | None,
    softcap: float | None,
    dropout: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    q, _, v = qkv
    return q.new_empty(*q.shape[:3], v.shape[-1]), q.new_empty(q.shape[:3])


@torch.library.custom_op("atento::neighbours_backward", mutates_args=())
def _backward(  # long: an operator takes tensors and plain values only
    grad: Tensor,
    grad_lse: Tensor | None,
    known: list[Tensor],
    qkv: list[Tensor],
    weight: Tensor | None,
    edge: Tensor | None,
    bias: Tensor | None,
    graph: list[Tensor],
    scale: float,
    slope: float | None,
    softcap: float | None,
    dropout: float,
    seed: Tensor | None,
) -> list[Tensor]:
    work = Work.read(qkv, weight, edge, bias, graph, (scale, slope, softcap, dropout), seed)
    return work.backward(grad, grad_lse, known[0], known[1])


@_backward.register_fake
def _shapes_of_backward(  # long: as the operator
    grad: Tensor,
    grad_lse: Tensor | None,
    known: list[Tensor],
    qkv: list[Tensor],
    weight: Tensor | None,
    edge: Tensor | None,
    bias: Tensor | None,
    graph: list[Tensor],
    scale: float,
    slope: float | None,
    softcap: float | None,
    dropout: float,
    seed: Tensor | None,
) -> list[Tensor]:
    # Each is laid out anew, whatever the strides of what it is the gradient of.
    return [x.new_empty(x.shape) for x in (*qkv, weight, edge, bias) if x is not None]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, weight, edge, bias, graph, scale, slope, softcap, dropout, seed = inputs
    optional = (weight, edge, bias, seed)
    given = [x for x in optional if x is not None]
    ctx.save_for_backward(*output, *qkv, *given, *graph)
    ctx.has = [x is not None for x in optional]
    ctx.plain = (scale, slope, softcap, dropout)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
    held = list(ctx.saved_tensors)  # once: activation checkpointing allows one reading
    known, qkv, rest = held[:2], held[2:5], held[5:]
    weight, edge, bias, seed = (rest.pop(0) if has else None for has in ctx.has)
    if grad is None:
        grad = torch.zeros_like(known[0])
    found = _backward(grad, grad_lse, known, qkv, weight, edge, bias, rest, *ctx.plain, seed)
    more = iter(found[3:])
    dweight, dedge, dbias = (next(more) if has else None for has in ctx.has[:3])
    return found[:3], dweight, dedge, dbias, [None] * len(rest), *[None] * 5


_forward.register_autograd(_gradients, setup_context=_save)
