"""The door: every attention of every model is one call of `attend`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from atento.core import paths, reference, short
from atento.core.biases import Bias
from atento.core.call import Call, checked
from atento.core.compose import Mask
from atento.core.masks import Causal
from atento.core.paths import Explanation
from atento.core.positions import At
from atento.core.scores import DOT, Score
from atento.core.tap import Slot, Tap, slot_of

__all__ = ["attend", "attend_lse", "explain", "merge"]

_CAUSAL = Causal()


def attend(  # long: the design fixes these arguments
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    score: Score = DOT,
    dropout: float = 0.0,
    at: At = None,
    path: str = "auto",
    tap: Slot | Tap | None = None,
) -> Tensor:  # [B, H, Q, Dv]
    """softmax(softcap(scale · score(q, k)) + bias, over the keys that the mask allows) · v.

    q: [B, H, Q, D], k: [B, Hk, K, Dk], v: [B, Hk, K, Dv]; Hk divides H. The result has q's dtype;
    logits and statistics are float32 (float64 for float64). A query that may attend to nothing gets
    zeros. `at` says where queries and keys stand; every cache's `update` returns it. Under autocast
    q, k and v are cast first, as torch casts them for its own kernel.
    Claim: test_contract.py::test_every_path_equals_the_oracle
    Claim: test_contract.py::test_autocast_casts_once_at_the_door
    Claim: bench/records/door_cpu.json
    """
    # The plainest calls go straight to torch: what is checked here or by torch itself is all that
    # could be wrong with them, and whatever torch complains of is explained below.
    plain = bias is None and at is None and tap is None and score is DOT and path == "auto"
    plain = plain and type(dropout) is float and dropout == 0.0
    plain = plain and (mask is None or mask is _CAUSAL)
    if plain and not torch.compiler.is_compiling():
        try:
            in_order = q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
            alike = in_order and q.shape == k.shape == v.shape and q.is_cpu and q.dim() == 4
            if alike and not short.pays(q, k, v, 0.0):
                return scaled_dot_product_attention(q, k, v, is_causal=mask is not None)
        except (AttributeError, IndexError, RuntimeError, TypeError):
            pass
    return _run(checked(q, k, v, mask, bias, score, dropout, at), path, tap)[0]


def attend_lse(  # long: the design fixes these arguments
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    score: Score = DOT,
    dropout: float = 0.0,
    at: At = None,
    path: str = "auto",
    tap: Slot | Tap | None = None,
) -> tuple[Tensor, Tensor]:  # [B, H, Q, Dv], [B, H, Q]
    """`attend`, and the log of the softmax's denominator, sink included.

    lse is float32 (float64 for float64) and differentiable; −inf where a row has neither key nor
    sink. Results over disjoint keys are joined by `merge`.
    """
    call = checked(q, k, v, mask, bias, score, dropout, at, wants_lse=True)
    out, lse = _run(call, path, tap)
    assert lse is not None
    return out, lse


def explain(  # long: the design fixes these arguments
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    score: Score = DOT,
    dropout: float = 0.0,
    at: At = None,
    path: str = "auto",
    tap: Slot | Tap | None = None,
    lse: bool = False,
) -> Explanation:
    """Which path this call takes, why, and why not the others; nothing is computed.

    Tensors may be on the meta device; shapes, dtypes and devices are all that is read.
    """
    call = checked(q, k, v, mask, bias, score, dropout, at, wants_lse=lse)
    return paths.explained(call, path, frozenset() if tap is None else slot_of(tap).tap.reads)


def merge(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """(out, lse) of one softmax over all keys, from `attend_lse` over disjoint sets of keys.

    A sink may be given to one of the parts only. out_p: [B, H, Q, Dv], lse_p: [B, H, Q].
    """
    if not parts:
        raise ValueError("merge needs at least one (out, lse) of attend_lse; got none.")
    if any(out.shape[:-1] != lse.shape for out, lse in parts):
        shapes = [(list(out.shape), list(lse.shape)) for out, lse in parts]
        raise ValueError(f"merge takes (out [B, H, Q, Dv], lse [B, H, Q]) pairs; got {shapes}.")
    if len({out.shape for out, _ in parts}) > 1:
        found = [list(out.shape) for out, _ in parts]
        raise ValueError(f"merge takes parts of one shape; got {found}.")
    all_lse = torch.stack([lse for _, lse in parts])
    top = all_lse.detach().amax(0)
    top = torch.where(top == -torch.inf, 0.0, top)  # a row that is empty in every part
    shares = (all_lse - top).exp()
    total = shares.sum(0)
    empty = total == 0
    total = total.masked_fill(empty, 1.0)
    outs = torch.stack([out for out, _ in parts])
    out = ((shares / total)[..., None] * outs.to(shares.dtype)).sum(0).to(outs.dtype)
    return out, (top + total.log()).masked_fill(empty, -torch.inf)


def _run(call: Call, path: str, tap: Slot | Tap | None) -> tuple[Tensor, Tensor | None]:
    kind = call.q.device.type
    if kind != "meta" and torch.is_autocast_enabled(kind):
        # What comes in is cast once, as torch casts it for its own kernel; what is computed here
        # keeps the dtypes that the door promises.
        call = call.cast(torch.get_autocast_dtype(kind))
        with torch.autocast(kind, enabled=False):
            return _taken(call, path, tap)
    return _taken(call, path, tap)


def _taken(call: Call, path: str, tap: Slot | Tap | None) -> tuple[Tensor, Tensor | None]:
    if tap is None:
        return paths.chosen(call, path).run(call)
    slot = slot_of(tap)
    watcher, site = slot.tap, slot.opened(call)
    changed = watcher.inputs(site, call.q, call.k, call.v)
    if changed is not None:
        call = checked(
            *changed, call.mask, call.bias, call.score, call.dropout, call.at, call.wants_lse
        )
    if "lse" in watcher.reads:
        call = replace(call, wants_lse=True)
    chosen = paths.chosen(call, path, watcher.reads)
    run: Callable[[Call], tuple[Tensor, Tensor | None]]
    if watcher.reads & paths.INSIDE:
        # Only paths that hold scores and weights can show them; `chosen` has seen to that.
        run = partial(
            reference.run_watched,
            scores=lambda x: _or(watcher.scores(site, x), x),
            weights=lambda x: _or(watcher.weights(site, x), x),
        )
    else:
        run = chosen.run
    out, lse = run(call)
    if lse is not None and "lse" in watcher.reads:
        watcher.lse(site, lse)
    return _or(watcher.output(site, out), out), lse


def _or(replaced: Tensor | None, kept: Tensor) -> Tensor:
    if replaced is None:
        return kept
    if replaced.shape != kept.shape or replaced.dtype != kept.dtype:
        raise ValueError(
            f"a tap must replace a tensor by its like, {kept.dtype} {list(kept.shape)}; got "
            f"{replaced.dtype} {list(replaced.shape)}."
        )
    return replaced
