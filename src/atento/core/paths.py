"""Which path a call takes: from static facts alone, never by reading a tensor.

A path is a file with `refusal(call)`, why it cannot serve, and `run(call)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from atento.core import chunked, flex, neighbours, reference, sdpa, short, varlen
from atento.core.call import Call

__all__ = ["Explanation"]

LARGEST = 2**26  # scores that `auto` may hold at once
SMALL = 2**20  # Q·K up to which a dense mask costs less than cutting the call into chunks
SPARSE = 0.5  # density from which on the whole square is worth computing
WIDE_BUT_SHORT = 2**14  # keys up to which FlexAttention beats the flash kernel at widths above 64
INSIDE = frozenset({"scores", "weights"})


class Path(NamedTuple):
    """One way to compute a call."""

    name: str
    refusal: Callable[[Call], str | None]
    run: Callable[[Call], tuple[Tensor, Tensor | None]]
    held: Callable[[Call], int]  # scores or mask entries held at once


PATHS = {
    name: Path(name, module.refusal, module.run, module.held)
    for name, module in (
        ("reference", reference),
        ("sdpa", sdpa),
        ("flex", flex),
        ("varlen", varlen),
        ("short", short),
        ("chunked", chunked),
        ("edges", neighbours),
    )
}


@dataclass(frozen=True)
class Explanation:
    """Which path, why, and why not the others."""

    path: str
    why: str
    others: dict[str, str]

    def __str__(self) -> str:
        rest = "\n".join(f"  not {name}: {why}" for name, why in self.others.items())
        return f"{self.path}: {self.why}\n{rest}"


def chosen(call: Call, path: str, reads: frozenset[str] = frozenset()) -> Path:
    """The path that serves the call; one asked for by name serves or raises."""
    if path == "auto":
        for name, _ in _preferences(call):  # one of the preferred serves nearly always
            if _refusal(PATHS[name], call, reads) is None and _fits(PATHS[name], call):
                return PATHS[name]
        ranked = _ranked(call, reads)
        found = next((p for p, why_not, _ in ranked if why_not is None), None)
        return found or _nothing(call, reads)
    named = _named(path)
    why_not = _refusal(named, call, reads)
    if why_not is not None:
        raise ValueError(
            f"path={path!r} cannot serve this call: {why_not}. "
            'Leave path="auto", or ask atento.explain(…) what can.'
        )
    return named


def explained(call: Call, path: str, reads: frozenset[str]) -> Explanation:
    """The choice in words."""
    ranked = list(_ranked(call, reads))
    taken = chosen(call, path, reads)
    words = {p.name: (why_not, why) for p, why_not, why in ranked}
    why = "asked for by name" if path != "auto" else words[taken.name][1]
    others = {
        name: why_not or f"{taken.name} is preferred here"
        for name, (why_not, _) in words.items()
        if name != taken.name
    }
    return Explanation(taken.name, why, others)


def _nothing(call: Call, reads: frozenset[str]) -> Path:
    reasons = "; ".join(f"{p.name}: {why_not}" for p, why_not, _ in _ranked(call, reads))
    raise ValueError(f"no path serves this call of shape {call.sizes} (B, H, Q, K). {reasons}.")


def _named(path: str) -> Path:
    if not isinstance(path, str) or path not in PATHS:
        raise ValueError(f"path must be 'auto' or one of {', '.join(PATHS)}; got {path!r}.")
    return PATHS[path]


def _refusal(path: Path, call: Call, reads: frozenset[str]) -> str | None:
    if reads & INSIDE and path.name != "reference":
        return f"the tap reads {', '.join(sorted(reads & INSIDE))}, which only reference holds"
    return path.refusal(call)


def _ranked(call: Call, reads: frozenset[str]) -> Iterator[tuple[Path, str | None, str]]:
    """Every path as (path, why not, why), the preferred first."""
    preferred = _preferences(call)
    for name in dict.fromkeys([*(name for name, _ in preferred), *PATHS]):
        path = PATHS[name]
        why_not = _refusal(path, call, reads)
        if why_not is None and not _fits(path, call):
            why_not = f"it would hold more than 2^26 scores; ask for path={name!r} by name"
        yield path, why_not, dict(preferred).get(name, "nothing that is preferred can serve")


def _fits(path: Path, call: Call) -> bool:
    """Whether the path holds few enough scores; exported code must not depend on the length."""
    return torch.compiler.is_exporting() or path.held(call) <= LARGEST


def _preferences(call: Call) -> list[tuple[str, str]]:
    learns = call.q.is_cpu and short.pays(call.q, call.k, call.v, call.dropout)
    if learns and neighbours.refusal(call) is not None:
        return [("short", "rows are short, and learn fastest all at once"), *_usual(call)]
    return _usual(call)


def _usual(call: Call) -> list[tuple[str, str]]:
    if sdpa.refusal(call) is None and sdpa.held(call) == 0:
        return [("sdpa", "torch's fused kernel needs no mask tensor here")]
    if neighbours.refusal(call) is None:
        listed = [("edges", "each query is compared with its neighbours alone")]
        return listed + [p for p in _beside_edges(call) if p[0] != "edges"]
    return _beside_edges(call)


def _beside_edges(call: Call) -> list[tuple[str, str]]:
    _, _, Q, K = call.sizes
    large = not torch.compiler.is_exporting() and Q * K > SMALL
    sparse = large and call.mask is not None and call.mask.density(Q, K) < SPARSE
    if call.q.is_cuda:
        return _preferences_on_cuda(call, large, sparse)
    if sparse:
        return [("chunked", "only the keys near each run of queries are computed")]
    in_runs = ("chunked", "the scores are made run by run, never all at once")
    if sdpa.refusal(call) is None:
        dense = "the mask is small or dense, and torch's kernel takes it as a tensor"
        return [("sdpa", dense), in_runs]
    if large or not reference.light(call):
        return [in_runs]
    return [("reference", "small enough that nothing is gained elsewhere"), in_runs]


def _preferences_on_cuda(call: Call, large: bool, sparse: bool) -> list[tuple[str, str]]:
    flash = ("varlen", "windows and packed documents run on the flash kernel as they are")
    blocks = ("flex", "blocks without a pair that may attend are skipped")
    first = [blocks] if large else []
    if sparse or (call.mask is not None and varlen.refusal(call) is None):
        # Measured on an H200 with torch 2.11 (2026-11): heads 128 wide at 8k tokens flex 0.80 ms,
        # varlen 1.03; at 32k 4.04 and 3.88; 64 wide at 8k 0.458 and 0.462. varlen waits for no
        # compiler.
        wide = call.q.shape[-1] > 64 and call.k.shape[2] <= WIDE_BUT_SHORT
        first = [blocks, flash] if wide and large else [flash, blocks]
    return [
        *first,
        ("sdpa", "the mask is small or dense, and torch's kernel takes it as a tensor"),
        ("reference", "small enough that nothing is gained elsewhere"),
        blocks,
        ("chunked", "the scores are made run by run, never all at once"),
    ]
