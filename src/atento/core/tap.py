"""Taps: watch, or replace, what passes through the door, in any model, by name.

An attention module declares a slot, `tap: Slot | None = None`, and hands it to `attend`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from atento.core.biases import Bias
from atento.core.call import Call
from atento.core.compose import Mask
from atento.core.positions import At
from atento.core.scores import Score

__all__ = ["Site", "Slot", "Tap", "tapped"]


READABLE = frozenset({"lse", "scores", "weights"})


@dataclass(frozen=True)
class Site:
    """Which call a tap is looking at, and what it was called with."""

    name: str  # of the module that called, as in named_modules()
    count: int  # how many calls of this slot came before, since it was tapped
    mask: Mask | None
    bias: Bias | None
    score: Score
    at: At
    recomputed: bool  # a repeat within backward, by activation checkpointing


class Tap:
    """Override what you want to see; return a tensor to replace it, None to leave it.

    A tap that reads `scores` (after scale, softcap and bias, before the mask) or `weights` (after
    the softmax, before dropout) says so in `reads`, and `auto` then chooses a path that has them.
    Taps are not re-entrant: one model, one thread.
    """

    reads: frozenset[str] = frozenset()  # of "lse", "scores", "weights"

    def begin(self, site: Site) -> None:
        """The call, before anything is computed."""

    def inputs(
        self, site: Site, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """q [B, H, Q, D], k [B, Hk, K, Dk], v [B, Hk, K, Dv]."""
        return None

    def scores(self, site: Site, scores: Tensor) -> Tensor | None:
        """[B, H, Q, K], before the mask."""
        return None

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        """[B, H, Q, K], before dropout."""
        return None

    def output(self, site: Site, out: Tensor) -> Tensor | None:
        """[B, H, Q, Dv], for each head."""
        return None

    def lse(self, site: Site, lse: Tensor) -> None:
        """[B, H, Q]: only watched."""


class Slot:
    """A tap in its place: knows the module's name and counts the calls."""

    def __init__(self, tap: Tap, name: str = "") -> None:
        if not isinstance(tap, Tap):
            raise TypeError(f"tap must be a Tap, or the Slot around one; got {type(tap).__name__}.")
        unknown = sorted(set(tap.reads) - READABLE)
        if unknown:
            raise ValueError(
                f"a tap reads {', '.join(sorted(READABLE))}; {type(tap).__name__}.reads has "
                f"{unknown[0]!r}."
            )
        self.tap, self.name, self.count = tap, name, 0

    def opened(self, call: Call) -> Site:
        """The site of the next call, after the tap was told of it."""
        site = Site(
            self.name, self.count, call.mask, call.bias, call.score, call.at, _in_backward()
        )
        self.count += 1
        self.tap.begin(site)
        return site


def slot_of(tap: Slot | Tap) -> Slot:
    """The slot, or a nameless one around a tap that was passed by hand."""
    return tap if isinstance(tap, Slot) else Slot(tap)


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


@contextmanager
def tapped(model: nn.Module, tap: Tap) -> Iterator[Tap]:
    """Fills every slot of a model with the tap, and empties them again.

    Compiled models run eager meanwhile, so that taps of any kind compile nothing anew; afterwards
    the compiled code is used again. Where activations are checkpointed, run backward inside too:
    recomputed outside, a layer would lack what the tap replaced.
    """
    slots = _slots(model)
    if not slots:
        raise ValueError(
            f"{type(model).__name__} has no slot: none of its modules has an attribute `tap`. "
            "Give each attention module `tap = None` and hand it on: attend(…, tap=self.tap)."
        )
    own = {name: module.__dict__["tap"] for name, module in slots.items() if "tap" in vars(module)}
    with _eager():
        try:
            for name, module in slots.items():
                module.tap = Slot(tap, name)
            yield tap
        finally:
            for name, module in slots.items():
                if name in own:
                    module.tap = own[name]
                else:  # the slot is the class's: leave the module as it was, for compiled guards
                    vars(module).pop("tap", None)


def _eager() -> AbstractContextManager[Any]:
    """Within it compiled code runs eager. Where nothing can be compiled yet there is nothing to do:
    the compiler was not imported, which takes a second.

    Claim: test_tapped.py::test_looking_at_a_model_that_is_not_compiled_imports_no_compiler
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def _slots(model: nn.Module) -> dict[str, Any]:
    """The modules with a slot, by the model's own names, torch.compile's wrappers seen through."""
    found = {}
    for name, module in model.named_modules():
        if hasattr(module, "tap") and "_orig_mod" not in module._modules:
            found[".".join(part for part in name.split(".") if part != "_orig_mod")] = module
    return found
