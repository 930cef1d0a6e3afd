"""The path for training on short sequences: every score at once, with a backward of its own.

Where a row has few keys, torch's kernel spends its time on starting tiles in half types; with
dropout it takes its plain one. In float32 without dropout nothing is gained, and it is not chosen.
Claim: bench/records/step_cpu.json
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from atento.core import aten
from atento.core.call import Call
from atento.core.dropout import kept
from atento.core.reference import mask_of, per_head

__all__: list[str] = []

SHORT = 2**12  # Q·K


def refusal(call: Call) -> str | None:
    """Why it cannot serve; None where it can."""
    if not call.score.is_dot:
        return f"{type(call.score).__name__} is no dot product"
    if call.bias is not None or call.score.softcap is not None or call.score.sink is not None:
        return "it has no bias, softcap or sink"
    if call.wants_lse:
        return "it gives no log-sum-exp"
    if torch.compiler.is_compiling():
        return "compiled code needs no backward of its own"
    if 0 in call.sizes:
        return "it needs at least one query and one key"
    return None


def pays(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> bool:
    """Whether these learn, and do so faster here than in torch's kernels; on a CPU."""
    few = q.shape[-2] * k.shape[-2] <= SHORT
    learns = q.requires_grad or k.requires_grad or v.requires_grad
    dearer = dropout > 0 or q.dtype.itemsize == 2  # for torch
    return learns and few and dearer and torch.is_grad_enabled()


def held(call: Call) -> int:
    """All scores."""
    B, H, Q, K = call.sizes
    return B * H * Q * K


def run(call: Call) -> tuple[Tensor, None]:
    """(out, None)."""
    q, k = call.score.as_dot(call.q, call.k)
    k, v = per_head(k, call), per_head(call.v, call)
    mask = mask_of(call)
    out: Tensor = _Short.apply(q, k, v, mask, call.scale, call.dropout)  # type: ignore[no-untyped-call]
    return out, None


class _Short(torch.autograd.Function):
    """W = softmax(s q kᵀ, where the mask allows), out = (W ∘ M) v, for dropout's mask M.

    With G = ∂L/∂out and P = W ∘ M: ∂v = Pᵀ G, ∂W = (G vᵀ) ∘ M, ∂q = s S k and ∂k = s Sᵀ q for
    S = W ∘ (∂W − rows' sums of ∂W ∘ W).
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, p: float
    ) -> Tensor:
        dtype, wide = q.dtype, torch.promote_types(q.dtype, torch.float32)
        q, k, v = (x.to(wide, memory_format=torch.contiguous_format) for x in (q, k, v))
        logits = (q @ k.mT).mul_(scale)
        if mask is not None:
            logits.masked_fill_(~mask, -torch.inf)
        weights = logits.softmax(-1)
        if mask is not None:
            weights.nan_to_num_(0.0)  # rows that may attend to nothing
        keep = kept(weights, p) if p else None
        ctx.save_for_backward(q, k, v, weights, keep)
        ctx.scale, ctx.dtype = scale, dtype
        return _laid(_dropped(weights, keep) @ v, dtype)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, keep = ctx.saved_tensors
        grad = grad.to(q.dtype, memory_format=torch.contiguous_format)
        dv = _dropped(weights, keep).mT @ grad
        dweights = _dropped(grad @ v.mT, keep)
        dlogits = aten.softmax_backward(dweights, weights).mul_(ctx.scale)
        found = (dlogits @ k, dlogits.mT @ q, dv)
        return *(_laid(x, ctx.dtype) for x in found), None, None, None


def _dropped(x: Tensor, keep: Tensor | None) -> Tensor:
    return x if keep is None else x * keep


def _laid(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x [B, H, N, D] such that a token's heads stand side by side in memory, as layers use them."""
    return x.transpose(1, 2).to(dtype, memory_format=torch.contiguous_format).transpose(1, 2)
