"""The path through torch's scaled_dot_product_attention: plain, causal, or a dense mask."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from atento.core import aten
from atento.core.call import Call
from atento.core.lowering import allowed
from atento.core.masks import Prefix, Window
from atento.core.reference import mask_of, per_head

__all__: list[str] = []


class Form(NamedTuple):
    """How a call reads without a mask tensor: these keys, causal from the upper left or not."""

    keys: tuple[int, int]
    causal: bool


def refusal(call: Call) -> str | None:
    """Why torch's kernel cannot serve; None where it can."""
    if not call.score.is_dot:
        return f"{type(call.score).__name__} is no dot product"
    if call.score.softcap is not None:
        return "it has no softcap"
    if call.score.sink is not None:
        return "it has no sink"
    if call.wants_lse:
        if call.needs_grad:
            return "its log-sum-exp has no gradient"
        if call.q.device.type != "cpu" or call.dropout or call.q.shape[-1] != call.v.shape[-1]:
            return "its log-sum-exp is to be had on CPU only, without dropout, for D = Dv"
        form = plain_form(call)
        if 0 in (*call.sizes, call.q.shape[-1]) or (form and form.keys[0] == form.keys[1]):
            return "its log-sum-exp needs at least one query and one key"
    return None


def held(call: Call) -> int:
    """Entries of the dense mask; all scores where torch falls back to its plain kernel."""
    B, H, Q, K = call.sizes
    form = plain_form(call)
    fallback = _falls_back(call, masked=form is None)
    if call.bias is not None or fallback:
        return B * H * Q * K
    if form is not None:
        return 0
    if call.mask is not None and not call.mask.spellable:
        return tables_of(call) * Q * K
    return (B if call.tensors or call.place.q is not None else 1) * Q * K


def _falls_back(call: Call, masked: bool) -> bool:
    """Whether torch would take its plain kernel, which holds all scores."""
    q, v = call.q, call.v
    widths = (q.shape[-1], v.shape[-1])
    if q.device.type == "cuda":
        eighths = 4 if q.dtype == torch.float32 else 8
        uneven = any(width % eighths for width in widths)
        # Unmasked half types go to the flash kernel, for which torch pads.
        return q.dtype == torch.float64 or (uneven and (masked or q.dtype == torch.float32))
    return q.device.type not in ("cpu", "meta") or call.dropout > 0 or widths[0] != widths[1]


def tables_of(call: Call) -> int:
    """How many tables [Q, K] a function makes: the shape of its first cell tells."""
    assert call.mask is not None
    Q, K = call.sizes[2:]
    first = allowed(call.mask, call.grid((0, min(Q, 1)), (0, min(K, 1))))
    return math.prod(first.shape[:-2])


def plain_form(call: Call) -> Form | None:
    """The call as a slice of keys, causal or not, where that is what its mask says."""
    Q, K = call.sizes[2:]
    if call.bias is not None or call.place.q is not None or call.place.k is not None:
        return None
    first, mask = call.place.start, call.mask
    if mask is None:
        return Form((0, K), False)
    if isinstance(mask, Prefix) and isinstance(mask.n, int):
        return Form((0, min(mask.n, K)), False)
    if isinstance(mask, Window):
        if Q == 1:
            least = 0 if mask.before is None else max(first - mask.before, 0)
            most = K if mask.after is None else min(first + mask.after + 1, K)
            return Form((min(least, most), most), False)
        # torch aligns causality at the upper left, which is where position 0 stands. A window that
        # reaches past the first key is causal too; asked while compiling, Q would be guarded.
        if mask.after == 0 and first == 0:
            compiling = torch.compiler.is_compiling()
            if mask.before is None or (not compiling and mask.before >= Q - 1):
                return Form((0, K), True)
    return None


def run(call: Call) -> tuple[Tensor, Tensor | None]:
    """(out, lse or None)."""
    form = plain_form(call)
    q, k = call.score.as_dot(call.q, call.k)
    # torch's fused kernels want the last axis in order, and would fall back to holding all scores.
    q, k, v = (aten.in_order(x) for x in (q, k, call.v))
    if form is not None:
        k, v = (x[:, :, slice(*form.keys)] for x in (k, v))
        return _plain(call, q, k, v, form.causal)
    return _masked(call, q, k, v)


def _plain(
    call: Call, q: Tensor, k: Tensor, v: Tensor, causal: bool
) -> tuple[Tensor, Tensor | None]:
    if call.wants_lse:
        return aten.flash_cpu(q, k, v, None, causal, call.scale)
    if call.group > 1 and q.is_cuda and q.shape[-1] != v.shape[-1]:
        k, v = per_head(k, call), per_head(v, call)  # torch's fused kernels would refuse
    grouped = k.shape[1] != q.shape[1]
    out = scaled_dot_product_attention(
        q, k, v, None, call.dropout, causal, scale=call.scale, enable_gqa=grouped
    )
    return out, None


def _masked(call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
    mask = mask_of(call)
    if call.bias is not None:
        added = call.bias.bound(call.q.to(call.accumulator), call.scale).over(call.grid())
        table = added if mask is None else added.masked_fill(~mask, -torch.inf)
    else:
        assert mask is not None
        table = mask
    Q, K = call.sizes[2:]
    table = table.expand(*table.shape[:2], Q, K)
    if call.wants_lse:
        out, lse = aten.flash_cpu(q, k, v, _cast(table, q), False, call.scale)
        return out, _without_rows(lse, mask)
    k, v = per_head(k, call), per_head(v, call)
    if not q.is_cuda:
        return _dense(call, q, k, v, _cast(table, q)), None
    # cuDNN gives NaN gradients for explicit masks on Hopper (pytorch#196678) and misread float32
    # ones (#191612), and not every kernel leaves a row without a key at zero: such a row attends to
    # everything here, and is emptied afterwards.
    empty = None if mask is None else ~mask.any(-1, keepdim=True)
    if empty is not None:
        table = table | empty if table.dtype == torch.bool else table.masked_fill(empty, 0.0)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        out = _dense(call, q, k, v, _cast(table, q))
    return out if empty is None else out.masked_fill(empty, 0.0), None


def _dense(call: Call, q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, table, call.dropout, scale=call.scale)


def _cast(table: Tensor, q: Tensor) -> Tensor:
    """Biases in the kernel's dtype; on CPU float32 beside half types keeps their precision."""
    precise = not q.is_cuda and table.dtype == torch.float32 and q.dtype != torch.float64
    return table if table.dtype == torch.bool or precise else table.to(q.dtype)


def _without_rows(lse: Tensor, mask: Tensor | None) -> Tensor:
    """−inf where a row has no key, whatever the kernel put there."""
    if mask is None:
        return lse
    return lse.masked_fill(~mask.any(-1).expand(lse.shape), -torch.inf)
