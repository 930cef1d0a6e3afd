"""Steps that are captured as a CUDA graph and replayed: their kernels without Python between them.

A captured step finds everything where it lay when it was captured: weights, gradients, learning
rates, and the batch, which is drawn on the host and copied into its place.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor
from torch.optim import Optimizer

from atento.errors import UserError
from atento.training.config import Train
from atento.training.distributed import processes
from atento.training.task import Drawing, Task

__all__ = ["StillStep", "Update", "draws", "execution_for", "hindrance"]

Losses = Sequence[Callable[[], Tensor]]
Update = Callable[[Losses], tuple[Tensor, Tensor]]  # the losses of a step → its loss, its norm

WARM = 3  # steps taken before one is captured: libraries choose their kernels in them
# On one H200 (torch 2.11) a step of 6 layers, d 384, 16,384 tokens took 25 ms with Python between
# its kernels and 7.4 ms without; capturing cost 0.1 to 2.8 s.
ENOUGH = 200  # steps, of which the gain outweighs the capture
HEAVY = 2e13  # operations of a step so long that the kernels hide what happens between them


def execution_for(task: Task, config: Train) -> tuple[str, str]:
    """("graph" or "eager", why it is not the other), from device, shapes and steps alone.

    "graph" that is asked for and cannot be is an error.
    Claim: test_capture.py::test_what_is_chosen_follows_from_device_shapes_and_steps
    """
    if config.execution == "eager":
        return "eager", "train.execution says so"
    against = hindrance(task, config)
    if config.execution == "graph":
        if against:
            raise UserError(
                f"train.execution must be 'auto' or 'eager' here, because {against}; got 'graph'."
            )
        return "graph", "train.execution says so"
    if against is None and config.steps < ENOUGH:
        against = f"fewer than {ENOUGH} steps do not repay a capture"
    if against is None and _operations(task, config) > HEAVY:
        against = "its kernels are long enough to hide their launches"
    return ("eager", against) if against else ("graph", "")


def hindrance(task: Task, config: Train) -> str | None:
    """Why a step cannot be captured; None where it can."""
    device = _device(task)
    if device != "cuda":
        return f"graphs are CUDA's, and the device is {device}"
    if processes() > 1:
        return "several processes train"
    if config.recompute != "nothing":
        return f"train.recompute = {config.recompute!r} sets generators back"
    if not draws(task):
        return "the task does not draw its batches apart from its loss"
    return None


def _device(task: Task) -> str:
    return next(task.model.parameters()).device.type


def draws(task: Task) -> TypeGuard[Drawing]:
    """Whether the task's loss is a function of tensors that are drawn on the host."""
    return hasattr(task, "drawn") and hasattr(task, "loss_on")


def _operations(task: Task, config: Train) -> float:
    """About how many a step takes: 6 for each weight and token."""
    assert draws(task)
    tokens = task.drawn(0)[0].numel() * config.accumulate
    return 6.0 * tokens * sum(p.numel() for p in task.model.parameters())


class StillStep:
    """A step whose batches lie still: the first few are taken, one is captured, the rest replayed.

    All of them are steps of the training; none is thrown away. Off CUDA nothing is captured, and
    each step is taken: so all but the capture is the same there.
    Claim: test_capture.py::test_still_steps_are_the_loops_own_to_the_bit
    """

    def __init__(self, task: Drawing, update: Update, held: Sequence[Optimizer]) -> None:
        self.task, self.update, self.held = task, update, held
        self.device = next(task.model.parameters()).device
        self.batches: list[tuple[Tensor, ...]] = []
        self.taken = 0
        self.replay: Callable[[], tuple[Tensor, Tensor]] | None = None
        self.aside = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

    def __call__(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The loss and the norm of the step of these batches."""
        self._place(numbers)
        self.taken += 1
        if self.taken <= WARM:
            return self._take_aside()
        if self.replay is None:
            self.replay = self._captured()
        return self.replay()

    def _place(self, numbers: Sequence[int]) -> None:
        drawn = [self.task.drawn(number) for number in numbers]
        if not self.batches:
            self.batches = [tuple(x.to(self.device, copy=True) for x in parts) for parts in drawn]
            return
        for places, parts in zip(self.batches, drawn, strict=True):
            for place, x in zip(places, parts, strict=True):
                # torch keeps pinned memory from being used again before it is copied.
                source = x.contiguous().pin_memory() if self.aside else x
                place.copy_(source, non_blocking=True)

    def _take(self) -> tuple[Tensor, Tensor]:
        return self.update([partial(self.task.loss_on, batch) for batch in self.batches])

    def _take_aside(self) -> tuple[Tensor, Tensor]:
        """Taken on the stream on which a step will be captured, as CUDA asks."""
        if self.aside is None:
            return self._take()
        current = torch.cuda.current_stream(self.device)
        self.aside.wait_stream(current)
        with torch.cuda.stream(self.aside):
            found = self._take()
        current.wait_stream(self.aside)
        return found

    def _captured(self) -> Callable[[], tuple[Tensor, Tensor]]:
        if self.aside is None:
            return self._take
        for optimizer in self.held:
            for group in optimizer.param_groups:
                if "capturable" in group:
                    group["capturable"] = True
        graph = torch.cuda.CUDAGraph()
        # Dropout needs no more: torch registers its own generator with every graph.
        with torch.cuda.graph(graph, stream=self.aside, capture_error_mode="thread_local"):
            found = self._take()

        def replay() -> tuple[Tensor, Tensor]:
            graph.replay()
            return found

        return replay
