"""Linear maps of the same input as one: their weights side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__: list[str] = []

# Tokens for each number of the width from which it pays, in half types. Elsewhere two measurements
# disagreed, 0.64 to 1.45 times as fast (2026-11-20).
ENOUGH = 2


def pays(x: Tensor, maps: Sequence[nn.Module]) -> bool:
    """Whether training on a CPU is faster so; hooks and what stands for a map are respected."""
    if not x.is_cpu or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if autocast else x.dtype
    many = x.shape[0] * x.shape[1] >= ENOUGH * x.shape[2]
    return many and dtype.itemsize == 2 and all(_plain(m) for m in maps)


def linear(x: Tensor, maps: Sequence[nn.Module]) -> list[Tensor]:
    """x W₁ᵀ + b₁, x W₂ᵀ + b₂, …, all biased or none.

    Claim: test_joined.py::test_joined_maps_equal_each_by_itself
    """
    weights: list[Tensor] = [m.weight for m in maps]  # type: ignore[misc]
    biases = [m.bias for m in maps]
    bias = None if biases[0] is None else torch.cat(biases)  # type: ignore[arg-type]
    whole = nn.functional.linear(x, torch.cat(weights), bias)
    return list(torch.split(whole, [len(w) for w in weights], -1))


def _plain(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    backward = (module._backward_hooks, module._backward_pre_hooks)
    return type(module) is nn.Linear and not any((*hooks, *backward))
