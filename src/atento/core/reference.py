"""The path that defines the truth: plain PyTorch, any device, any dtype, everything supported."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from atento.core.biases import Bias
from atento.core.call import Call
from atento.core.dropout import dropout
from atento.core.lowering import allowed_if_asked
from atento.core.positions import Grid
from atento.core.remember import table_of
from atento.core.scores import Score

__all__: list[str] = []

Change = Callable[[Tensor], Tensor]


def refusal(call: Call) -> str | None:
    """Why this path cannot serve; it always can."""
    return None


def held(call: Call) -> int:
    """Scores held at once, and what the score needs for each."""
    B, H, Q, K = call.sizes
    return B * H * Q * K * call.score.cost(call.q.shape[-1])


def light(call: Call) -> bool:
    """Whether all scores together are few enough for the caches."""
    return held(call) <= 2**22


def run(call: Call) -> tuple[Tensor, Tensor]:
    """(out, lse): softmax(softcap(scale · score) + bias, where the mask allows) · v."""
    return run_watched(call, None, None)


def run_watched(call: Call, scores: Change | None, weights: Change | None) -> tuple[Tensor, Tensor]:
    """`run`, with the scores before the mask and the weights before dropout handed to functions."""
    logits = logits_of(call)
    if scores is not None:
        logits = scores(logits)
    attended, lse = softmax_with_sink(logits, mask_of(call), call.score.sink)
    if weights is not None:
        attended = weights(attended)
    attended = dropout(attended, call.dropout) if call.dropout else attended
    return (attended @ per_head(call.v, call).to(call.accumulator)).to(call.q.dtype), lse


def logits_of(call: Call) -> Tensor:  # [B, H, Q, K]
    """softcap(scale · score(q, k)) + bias, in the accumulator's dtype, before the mask."""
    q, k = call.q.to(call.accumulator), per_head(call.k, call).to(call.accumulator)
    bias = None if call.bias is None else call.bias.bound(q, call.scale)
    return logits_over(call.grid(), q, k, call.score, bias)


def logits_over(grid: Grid, q: Tensor, k: Tensor, score: Score, bias: Bias | None) -> Tensor:
    """The logits of a grid, q and k being its rows and columns, k for each query head."""
    logits = capped(score.over(grid, q, k) * score.factor(q.shape[-1]), score.softcap)
    return logits if bias is None else logits + bias.over(grid)


def mask_of(call: Call) -> Tensor | None:
    """Bool, broadcastable to [B, H, Q, K]; None where everything may attend."""
    if call.mask is not None:
        return table_of(call.mask, call.grid())
    return allowed_if_asked(None, call.grid())


def per_head(x: Tensor, call: Call) -> Tensor:
    """Keys or values [B, Hk, …] repeated for the query heads that they serve."""
    return repeated(x, call.group)


def repeated(x: Tensor, group: int) -> Tensor:
    """Each head of keys or values as often as it serves query heads."""
    return x if group == 1 else x.repeat_interleave(group, 1)


def capped(x: Tensor, softcap: float | None) -> Tensor:
    """softcap · tanh(x / softcap): gently limited to ±softcap."""
    return x if softcap is None else softcap * (x / softcap).tanh()


def joined_with_sink(out: Tensor, lse: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """(out, lse) of a softmax over keys, with the sink [H] joined to it afterwards."""
    joined = torch.logaddexp(lse, sink.to(lse.dtype)[:, None])
    empty = joined == -torch.inf  # neither a key nor a sink: −∞ less −∞ would be NaN
    share = (lse - joined.masked_fill(empty, 0.0)).masked_fill(empty, -torch.inf).exp()
    return out * share[..., None].to(out.dtype), joined


def softmax_with_sink(
    logits: Tensor, mask: Tensor | None, sink: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(weights, lse): softmax over keys, zeros and −inf in rows that may attend to nothing."""
    if mask is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    least = torch.finfo(logits.dtype).min
    if logits.shape[-1]:
        top = logits.detach().amax(-1, keepdim=True).clamp(min=least)
    else:
        top = logits.new_full((*logits.shape[:-1], 1), least)
    if sink is not None:
        column = sink.to(logits.dtype)[None, :, None, None]
        top = torch.maximum(top, column.detach())
    weights = (logits - top).exp()
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (column - top).exp()
    empty = total == 0
    # Rows with nothing to attend to divide by 1: zero weights and finite gradients.
    total = total.masked_fill(empty, 1.0)
    lse = (top + total.log()).masked_fill(empty, -torch.inf)
    return weights / total, lse[..., 0]
