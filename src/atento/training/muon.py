"""Muon, with the matrices of one shape made orthogonal together."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Muon

__all__ = ["StackedMuon"]


class StackedMuon(Muon):
    """torch's Muon, step for step, in fewer and larger products.

    B ← μB + (1 − μ)G, O = orthogonal((1 − μ)G + μB), W ← W(1 − ηλ) − η √max(1, rows/columns) O.

    A model of small matrices spends more on calling a product than on the product. Settings and
    state are torch's, so a checkpoint of one is a checkpoint of the other. A rate that is a tensor
    is read where it lies, so that a step can be captured: torch's own reads it on the host.
    Ref: Jordan et al. 2024, kellerjordan.github.io/posts/muon.
    Claim: test_muon.py::test_steps_are_those_of_torchs_muon
    Claim: test_muon.py::test_a_rate_that_is_a_tensor_makes_the_same_steps
    Claim: bench/records/muon_cpu.json
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            held: list[Tensor] = []
            grads: list[Tensor] = []
            averages: list[Tensor] = []
            self._init_group(group, held, grads, averages)
            if held:
                _update(held, grads, averages, group)
        return loss


def _update(
    held: list[Tensor], grads: list[Tensor], averages: list[Tensor], group: dict[str, Any]
) -> None:
    rate, momentum = group["lr"], group["momentum"]
    torch._foreach_lerp_(averages, grads, 1 - momentum)
    ahead = torch._foreach_lerp(grads, averages, momentum) if group["nesterov"] else averages
    torch._foreach_mul_(held, 1 - rate * group["weight_decay"])
    for members in _by_shape(held):
        rows, columns = held[members[0]].shape
        tall = rows > columns
        stacked = torch.stack([ahead[n] for n in members])  # [M, rows, columns]
        made = _orthogonal(stacked.mT if tall else stacked, group)
        moves = (made.mT if tall else made).float()
        step, weights = (
            rate * _ratio(rows, columns, group["adjust_lr_fn"]),
            [held[n] for n in members],
        )
        if isinstance(step, Tensor):
            torch._foreach_sub_(weights, list((moves * step).unbind()))
        else:
            torch._foreach_add_(weights, list(moves.unbind()), alpha=-step)


def _ratio(rows: int, columns: int, adjustment: str | None) -> float:
    if adjustment == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def _by_shape(held: Sequence[Tensor]) -> list[list[int]]:
    shapes: dict[torch.Size, list[int]] = {}
    for n, weight in enumerate(held):
        shapes.setdefault(weight.shape, []).append(n)
    return list(shapes.values())


def _orthogonal(x: Tensor, group: dict[str, Any]) -> Tensor:  # [M, R, C], R ≤ C
    """The nearest matrices with singular values near 1, by Newton and Schulz's iteration."""
    a, b, c = group["ns_coefficients"]
    x = x.bfloat16()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
