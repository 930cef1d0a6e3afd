"""What an argument must be, each with the sentence that says so: expected, got, remedy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__: list[str] = []


def count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)) or value < least:
        raise ValueError(f"{name} must be an integer ≥ {least}; got {value!r}.")
    if not isinstance(value, torch.SymInt) and value >= 2**62:
        raise ValueError(f"{name} must be below 2^62, as positions are; got {value}.")
    return value  # type: ignore[return-value]


def integers(name: str, x: Tensor, axes: int) -> None:
    if x.is_floating_point() or x.dtype == torch.bool or x.dim() != axes:
        raise ValueError(f"{name} must be Int[B]; got {shape_of(x)}.")


def table_of(name: str, x: Any, dtypes: tuple[torch.dtype, ...]) -> Tensor:
    if not isinstance(x, Tensor) or x.dtype not in dtypes or x.dim() not in (1, 2):
        kind = "Bool" if torch.bool in dtypes else "Int"
        raise ValueError(f"{name} must be {kind}[N] or {kind}[B, N]; got {shape_of(x)}.")
    return x if x.dim() == 2 else x[None]


def shape_of(x: object) -> str:
    return (
        f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
        if isinstance(x, Tensor)
        else repr(x)
    )


def batch_misfit(name: str, x: Tensor, batch: int) -> str | None:
    """Why a tensor [B, …] does not go with `batch` sequences; a batch of 1 goes with any."""
    if x.shape[0] in (1, batch):
        return None
    return f"{name} has a batch of {x.shape[0]}; q has {batch}"


def dense_misfit(name: str, x: Tensor, B: int, H: int, Q: int, K: int) -> str | None:
    """Why a table [B|1, H|1, Q, K] does not go with a call of these sizes."""
    batch, heads, rows, cols = x.shape
    if (rows, cols) == (Q, K) and batch in (1, B) and heads in (1, H):
        return None
    return (
        f"{name} must be [{Q}, {K}] or [{B} or 1, {H} or 1, {Q}, {K}] (B, H, Q, K); "
        f"got {list(x.shape)}"
    )
