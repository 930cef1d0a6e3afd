"""What static masks look like, computed once: tables and block masks that depend on no tensor."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from atento.core.compose import Mask
from atento.core.lowering import allowed
from atento.core.positions import Grid, Place
from atento.core.structure import leaves

__all__: list[str] = []

LARGEST = 2**20  # entries of a table worth keeping


def is_static(mask: Mask, grid: Grid) -> bool:
    """Whether the mask depends on no tensor, and eager code is asking, so that it may be kept.

    A tensor made under a dispatch mode may be a fake one, and one made while compiling is a node.
    """
    place = grid.place
    if grid.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return False  # what is made now lives in the graph's memory, and is empty until a replay
    return (
        place.q is None
        and place.k is None
        and not torch.compiler.is_compiling()
        and not leaves(mask)
        and mask.spellable
        and _get_current_dispatch_mode() is None
    )


def table_of(mask: Mask, grid: Grid) -> Tensor:
    """Bool, broadcastable to [B, H, Q, K]: the mask over a whole call."""
    Q, K = grid.rows[1], grid.cols[1]
    if is_static(mask, grid) and Q * K <= LARGEST:
        return _kept(mask, grid.place.start, Q, K, grid.device)
    return allowed(mask.bound(), grid)


@lru_cache(maxsize=64)
def _kept(mask: Mask, start: int, Q: int, K: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return allowed(mask.bound(), Grid(Place(start), (0, Q), (0, K), 1, 1, device))
