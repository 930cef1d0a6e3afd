"""Constants of the door's objects as a module's buffers, so that they move with the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from atento.core.structure import Structured, leaves

__all__ = ["Fixed"]

T = TypeVar("T", bound=Structured | Tensor)


class Fixed(nn.Module, Generic[T]):
    """Returns the mask, bias, score, rotation or tensor that it was given, on the module's device.

    Its tensors are buffers: they follow `.to(device)`, never `.to(dtype)`, because frequencies and
    slopes in half precision misplace tokens; they are made anew from the configuration, so they are
    not in the state dict. What is learned belongs to a module of its own, such as `T5Table`.
    Claim: test_fixed.py::test_a_change_of_dtype_leaves_constants_exact
    """

    def __init__(self, value: T) -> None:
        super().__init__()
        tensors = leaves(value)
        if any(x.requires_grad for x in tensors):
            raise ValueError(
                f"Fixed holds constants; got a {type(value).__name__} with a tensor that wants "
                "gradients. Write a module that owns the tensor as a parameter, as T5Table does."
            )
        for n, x in enumerate(tensors):
            self.register_buffer(f"tensor_{n}", x, persistent=False)
        # A value without tensors is returned as it is; of others only the frame is kept.
        self._frame = _frame(value, iter(range(len(tensors)))) if tensors else value

    def forward(self) -> T:
        tensors = list(self._buffers.values())
        return cast(T, _filled(self._frame, tensors) if tensors else self._frame)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        held = dict(self._buffers)
        self._buffers.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._buffers.update({name: _moved(x, fn) for name, x in held.items() if x is not None})
        return self


@dataclass(frozen=True)
class _Gap:
    """Where a tensor stood: its number."""

    number: int


def owned(value: nn.Module | Structured) -> nn.Module:
    """A module that returns the object: the module itself where it is one already."""
    return Fixed(value) if isinstance(value, Structured) else value


def _frame(value: object, numbers: Iterator[int]) -> Any:
    """The value with gaps where its tensors are, in the order of `leaves`."""
    if isinstance(value, Tensor):
        return _Gap(next(numbers))
    return _rebuilt(value, lambda part: _frame(part, numbers))


def _filled(frame: object, tensors: list[Tensor | None]) -> Any:
    if isinstance(frame, _Gap):
        return tensors[frame.number]
    return _rebuilt(frame, lambda part: _filled(part, tensors))


def _rebuilt(value: object, change: Callable[[object], Any]) -> Any:
    """The value with every part of it changed; validation is skipped, for gaps are no tensors."""
    if isinstance(value, tuple):
        return tuple(change(part) for part in value)
    if not isinstance(value, Structured):
        return value
    made = object.__new__(type(value))
    for field in fields(value):  # type: ignore[arg-type]
        object.__setattr__(made, field.name, change(getattr(value, field.name)))
    return made


def _moved(x: Tensor, fn: Callable[[Tensor], Tensor]) -> Tensor:
    """x where fn puts tensors, in x's own dtype; MPS knows no float64."""
    device = fn(torch.empty(0, device=x.device)).device
    if device.type == "mps" and x.dtype == torch.float64:
        x = x.float()
    return x.to(device)
