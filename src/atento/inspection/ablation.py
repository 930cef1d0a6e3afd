"""A switch that turns heads off, and what a loss says of it: effect, where maps show only weights.

A head is turned off at the door: what it says is replaced before the layer's output projection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from atento.core.tap import Site, Slot, Tap, tapped
from atento.errors import UserError

__all__ = ["HeadLoss", "Replacement", "ablated", "head_losses", "mean", "zero"]

Replacement = Callable[[Tensor], Tensor]  # of what heads say, [B, heads, Q, Dv]


def zero(out: Tensor) -> Tensor:  # [B, H, Q, Dv] → the same
    """Silence: zeros in place of what the heads say."""
    return torch.zeros_like(out)


def mean(out: Tensor) -> Tensor:  # [B, H, Q, Dv] → the same
    """What each head says on average, over the call's sequences and positions.

    The layers above hear a voice that they are used to, but nothing of this sentence. The average
    is over later positions too, so of a single short sequence it tells a little of what is to come.
    """
    return out.mean((0, 2), keepdim=True).expand_as(out)


@contextmanager
def ablated(
    model: nn.Module, heads: Mapping[str, Collection[int]], to: Replacement = zero
) -> Iterator[None]:
    """The model with heads turned off: layer → its heads, both as `head_losses` names them.

    What `to` makes of their outputs takes their place. A layer that is not there is an error at
    once, a head at the layer's first call.
    Claim: test_ablation.py::test_a_head_turned_off_is_a_head_without_output_weights
    """
    tap = _Off(heads, to)
    with tapped(model, tap):
        there = _layers(model, tap)
        for layer in heads:
            if layer not in there:
                raise UserError(f"layer must be one of {', '.join(there)}; got {layer!r}.")
        yield


@dataclass(frozen=True)
class HeadLoss:
    """What is lost without one head."""

    layer: str
    head: int  # from 0
    loss: float  # without the head
    difference: float  # from the loss of the whole model; above 0: the head helped


def head_losses(
    model: nn.Module, loss: Callable[[], float], to: Replacement = zero
) -> list[HeadLoss]:
    """A row for each head of each layer, the one that is missed most first.

        difference(h) = loss(model without h) − loss(model)

    `loss` runs the model, on the same inputs each time; it is called once for the whole model and
    once for each head, without dropout and gradients. Heads are turned off one at a time, so what
    two of them can do for each other shows in neither.
    Ref: Michel et al. 2019, arXiv:1905.10650, section 3.
    Claim: test_ablation.py::test_the_planted_critical_head_ranks_first
    """
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            counted = _Counter()
            with tapped(model, counted):
                whole = loss()
            rows = []
            for layer, count in counted.heads.items():
                for head in range(count):
                    with ablated(model, {layer: [head]}, to):
                        without = loss()
                    rows.append(HeadLoss(layer, head, without, without - whole))
    finally:
        model.train(was_training)
    return sorted(rows, key=lambda row: -row.difference)


class _Off(Tap):
    """Replaces what some heads say."""

    def __init__(self, heads: Mapping[str, Collection[int]], to: Replacement) -> None:
        self.heads, self.to = heads, to

    def output(self, site: Site, out: Tensor) -> Tensor | None:
        off = sorted(set(self.heads.get(site.name, ())))
        if not off:
            return None
        count = out.shape[1]
        for head in off:
            if not 0 <= head < count:
                raise UserError(
                    f"head must be 0…{count - 1}, as {site.name} has {count}; got {head}."
                )
        replaced = out.clone()
        replaced[:, off] = self.to(out[:, off])
        return replaced


class _Counter(Tap):
    """How many heads each layer has, in the order of their calls."""

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}

    def output(self, site: Site, out: Tensor) -> None:
        self.heads[site.name] = out.shape[1]


def _layers(model: nn.Module, tap: Tap) -> list[str]:
    """The names of the slots that hold this tap."""
    slots = [getattr(module, "tap", None) for module in model.modules()]
    return [slot.name for slot in slots if isinstance(slot, Slot) and slot.tap is tap]
