"""The path through torch's flash kernel for ragged sequences: windows and packed documents as is.

Nothing is compiled and no mask is made. The kernel aligns windows at the lower right, so it serves
where the queries are the last ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atento.core.call import Call
from atento.core.compose import And, Mask
from atento.core.masks import Window
from atento.core.reference import per_head
from atento.core.tables import Documents

__all__: list[str] = []

WIDEST = 256  # head width that the flash kernels serve


class Plan(NamedTuple):
    """What the kernel is told: a window (−1 is unbounded) and, where packed, the documents."""

    window: tuple[int, int]
    documents: Documents | None


def plan_of(call: Call) -> Plan | str:
    """How the kernel computes this mask, or why it cannot."""
    Q, K = call.sizes[2:]
    parts: tuple[Mask, ...] = ()
    if call.mask is not None:
        parts = call.mask.parts if isinstance(call.mask, And) else (call.mask,)
    windows = [p for p in parts if isinstance(p, Window)]
    documents = [p for p in parts if isinstance(p, Documents) and p.packed and p.k_ids is None]
    if len(windows) + len(documents) < len(parts) or len(windows) > 1 or len(documents) > 1:
        return "it knows windows and Documents(packed=True) only"
    if call.place.q is not None or call.place.k is not None:
        return "it knows no positions but runs"
    before, after = windows[0].span() if windows else (None, None)
    if call.place.start != K - Q and (before, after) != (None, None):
        return "it takes the queries for the last ones"
    if documents and not (Q == K == documents[0].q_ids.shape[-1] and call.place.start == 0):
        return "packed documents need an id for each query and key"
    return Plan((_bound(before), _bound(after)), documents[0] if documents else None)


def refusal(call: Call) -> str | None:
    """Why the kernel cannot serve; None where it can."""
    if call.q.device.type != "cuda":
        return "its kernel is for CUDA"
    if call.q.dtype not in (torch.float16, torch.bfloat16):
        return "its kernel takes float16 and bfloat16 only"
    if not call.score.is_dot:
        return f"{type(call.score).__name__} is no dot product"
    if call.bias is not None or call.score.softcap is not None or call.dropout:
        return "it has no bias, softcap or dropout"
    if call.score.sink is not None or call.wants_lse:
        return "its log-sum-exp has no gradient"
    if call.q.shape[-1] != call.v.shape[-1] or call.q.shape[-1] > WIDEST or 0 in call.sizes:
        return f"it wants D = Dv ≤ {WIDEST}, and at least one query and one key"
    if call.q.shape[-1] % 8 or not _modern(call.q.device):
        return "it wants D in eights, and a card of compute capability 8.0 or more"
    plan = plan_of(call)
    return plan if isinstance(plan, str) else None


def held(call: Call) -> int:
    """No scores."""
    return 0


def run(call: Call) -> tuple[Tensor, None]:
    """(out, None)."""
    from torch.nn.attention.varlen import varlen_attn

    plan = plan_of(call)
    assert isinstance(plan, Plan)
    B, H, Q, K = call.sizes
    q, k = call.score.as_dot(call.q, call.k)
    v = call.v
    kernel: Callable[..., Any] = varlen_attn
    if call.group > 1 and _groups():
        kernel = partial(kernel, enable_gqa=True)
    elif call.group > 1:
        k, v = per_head(k, call), per_head(v, call)
    q_starts, k_starts, longest = _even(B, Q, q), _even(B, K, q), (Q, K)
    ids = None
    if plan.documents is not None:
        ids = plan.documents.q_ids.expand(B, K)
        q_starts = k_starts = starts(ids)
    out: Tensor = kernel(
        *(x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)),
        q_starts,
        k_starts,
        *longest,
        scale=call.scale,
        window_size=plan.window,
    )
    out = out.view(B, Q, H, -1).transpose(1, 2)
    if ids is not None:  # −1 attends to nothing; the kernel took its run for a document
        out = out.masked_fill((ids < 0)[:, None, :, None], 0.0)
    return out, None


@torch.library.custom_op("atento::starts", mutates_args=())
def starts(ids: Tensor) -> Tensor:
    """Int32[documents + 1]: where runs of equal ids [B, N] begin in the flat batch, and its end."""
    fresh = torch.ones_like(ids, dtype=torch.bool)
    fresh[:, 1:] = ids[:, 1:] != ids[:, :-1]
    begins = fresh.flatten().nonzero()[:, 0]
    return torch.cat([begins, begins.new_tensor([ids.numel()])]).int()


@starts.register_fake
def _some(ids: Tensor) -> Tensor:
    return ids.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int32)


def _even(batch: int, length: int, like: Tensor) -> Tensor:
    return torch.arange(batch + 1, dtype=torch.int32, device=like.device) * length


def _bound(reach: int | None) -> int:
    return -1 if reach is None else reach


@cache
def _modern(device: torch.device) -> bool:
    if not torch.cuda.is_available():
        return True  # a call that is only explained, for a card that is not here
    return torch.cuda.get_device_capability(device) >= (8, 0)


@cache
def _groups() -> bool:
    """Whether this torch's kernel serves grouped queries itself (2.11 does not)."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters
