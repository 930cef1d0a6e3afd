"""A training's first steps, tried and thrown away, to say how long the whole will take."""

import contextlib
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from atento.models.config import PAIRED
from atento.tasks.describe import Description, describe
from atento.tasks.subject import Learning
from atento.training.config import Train
from atento.training.loop import fit
from atento.training.progress import progress

__all__ = ["Rehearsal", "rehearse"]

MEASURED = 3  # steps, after one in which memory is found and kernels are chosen


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What a training would be: `seconds` are those of all its steps and evaluations, about."""

    task: Learning
    described: Description | None  # None where nothing works out what it costs
    steps: int
    tokens: int  # in each step
    step_seconds: float  # the median of three
    evaluations: int
    evaluation_seconds: float

    @property
    def seconds(self) -> float:
        return self.steps * self.step_seconds + self.evaluations * self.evaluation_seconds


def rehearse(task: Learning, config: Train) -> Rehearsal:
    """Takes four steps by the loop that trains, in a folder that is then removed.

    The task's model is trained a little by it.
    """
    tried = _Tried(task, config.accumulate)
    never = replace(config, evaluate_every=config.steps + 9, checkpoint_every=config.steps + 9)
    never = replace(never, steps=max(config.steps, MEASURED + 2))
    somewhere = tempfile.TemporaryDirectory(prefix="atento-")
    with somewhere as folder, contextlib.suppress(_EnoughError):
        fit(tried, never, Path(folder), "", progress(quiet=True))
    times = [b - a for a, b in zip(tried.times[1:], tried.times[2:], strict=False)]
    return Rehearsal(
        task=task,
        described=None if task.config.kind in PAIRED else describe(task.config, config.batch),
        steps=config.steps,
        tokens=round(task.tokens_each_step * config.accumulate),
        step_seconds=statistics.median(times),
        evaluations=-(-config.steps // config.evaluate_every),
        evaluation_seconds=_evaluation(task),
    )


class _EnoughError(Exception):
    """Enough was measured."""


@dataclass
class _Tried:
    """The task, its steps timed, until there were enough."""

    task: Learning
    accumulate: int
    times: list[float] = field(default_factory=list)  # at which each step begins

    @property
    def model(self) -> nn.Module:
        return self.task.model

    def loss(self, number: int) -> Tensor:
        if number % self.accumulate == 0:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.times.append(time.perf_counter())
            if len(self.times) == MEASURED + 2:
                raise _EnoughError
        return self.task.loss(number)

    def evaluate(self) -> dict[str, float]:
        return {"val_loss": 0.0}

    def say(self) -> str:
        return ""

    def save(self, folder: Path) -> None: ...


def _evaluation(task: Learning) -> float:
    """Seconds that the whole validation split will take, from a part of it."""
    start = time.perf_counter()
    share = task.judge_a_part()
    return (time.perf_counter() - start) / share
