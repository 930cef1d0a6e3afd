"""torch's private attention operators, in one place: they may change with any release.

Claim: test_aten.py::test_private_operators_have_the_signatures_used_here
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__: list[str] = []


def flash_cpu(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:  # [B, H, Q, D], [B, H, Q]
    """torch's tiled attention on CPU with its log-sum-exp; rows without a key are zero."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *map(in_order, (q, k, v)), 0.0, causal, attn_mask=_added(mask, q), scale=scale
    )
    return out, lse


def flash_cpu_backward(
    grad: Tensor,
    saved: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    mask: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v; saved = (q, k, v, out, lse) of the forward."""
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *map(in_order, (grad, *saved)), 0.0, False, attn_mask=_added(mask, grad), scale=scale
    )
    return dq, dk, dv


def softmax_backward(grad: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the logits whose softmax over the last axis gave the weights."""
    found: Tensor = torch.ops.aten._softmax_backward_data(grad, weights, -1, weights.dtype)
    return found


def in_order(x: Tensor) -> Tensor:
    """x, its last axis contiguous: the operators do not ask, and would read foreign memory."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _added(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A boolean mask as 0 and −inf, which is what the operator itself takes."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(~mask, -torch.inf)


@contextmanager
def autograd_inside() -> Iterator[None]:
    """Lets autograd record within an operator of torch.library, which runs below it."""
    key = torch._C.DispatchKey.AutogradFunctionality
    with torch._C._SetExcludeDispatchKeyGuard(key, False), torch.enable_grad():
        yield
