"""Activation checkpointing: what a block computes is computed again in backward, not stored."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from atento.errors import UserError
from atento.layers.block import Block

__all__ = ["recomputed"]


@contextmanager
def recomputed(model: nn.Module, what: str) -> Iterator[None]:
    """Within it each Block of the model keeps its inputs alone, where gradients are asked for.

    Gradients are the same to the bit, dropout included, for the generators are set back.
    Ref: Chen et al. 2016, arXiv:1604.06174.
    Claim: test_recompute.py::test_gradients_are_identical_and_the_peak_is_lower
    """
    blocks = [m for m in model.modules() if isinstance(m, Block)] if what == "blocks" else []
    if what == "blocks" and not blocks:
        raise UserError(
            f"train.recompute must be 'nothing' for this model; got {what!r}, and "
            f"{type(model).__name__} has no blocks."
        )
    for block in blocks:
        vars(block)["forward"] = _checkpointed(block.forward)
    try:
        yield
    finally:
        for block in blocks:
            vars(block).pop("forward", None)


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def recomputing(*inputs: Any, **named: Any) -> Any:  # kwargs: those of the block
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return recomputing
