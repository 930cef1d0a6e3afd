"""A running average of the weights, judged and kept in their place."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["Average"]


class Average:
    """a ← d · a + (1 − d) · w after each step t, with d = min(memory, (1 + t) / (10 + t)).

    The first weights, which are random, are so forgotten soon. With a memory of 0 nothing is held
    and the weights stand for themselves.
    Ref: Polyak and Juditsky 1992; TensorFlow's ExponentialMovingAverage for the rise of d.
    Claim: test_average.py::test_the_average_is_the_sum_by_hand
    """

    def __init__(self, model: nn.Module, memory: float) -> None:
        self.memory = memory
        self.parameters = dict(model.named_parameters()) if memory else {}
        self.tensors: dict[str, Tensor] = {
            name: p.detach().clone() for name, p in self.parameters.items()
        }

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After the step of that number, counted from 1."""
        memory = min(self.memory, (1 + step) / (10 + step))
        for name, held in self.tensors.items():
            held.lerp_(self.parameters[name], 1 - memory)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it the model has the averaged weights; afterwards its own again, to the bit."""
        own = {name: p.detach().clone() for name, p in self.parameters.items()}
        try:
            self._put(self.tensors)
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, tensors: dict[str, Tensor]) -> None:
        for name, x in tensors.items():
            self.parameters[name].copy_(x)
