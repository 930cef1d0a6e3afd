"""Linear maps of the same input as one: their weights side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__: list[str] = []

ENOUGH = 256  # tokens from which one product is worth laying the weights side by side


def pays(x: Tensor, maps: Sequence[nn.Module]) -> bool:
    """Whether training on a CPU is faster so; hooks and what stands for a map are respected."""
    if not (x.is_cpu and torch.is_grad_enabled() and x.shape[0] * x.shape[1] >= ENOUGH):
        return False
    return not torch.compiler.is_compiling() and all(_plain(m) for m in maps)


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
