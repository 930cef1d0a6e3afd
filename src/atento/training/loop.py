"""The loop: steps, records, the best model, checkpoints."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer

from atento.errors import UserError
from atento.models.storage import write
from atento.training.average import Average
from atento.training.capture import StillStep, draws, execution_for, hindrance
from atento.training.checkpoint import (
    State,
    generator_states,
    latest,
    load_latest,
    save_checkpoint,
)
from atento.training.config import Train
from atento.training.distributed import (
    anywhere,
    average_gradients,
    check_share,
    everyones,
    first,
    from_first,
    in_turn,
    mean,
    processes,
    rank,
    together,
)
from atento.training.interrupt import interruptible
from atento.training.lock import locked
from atento.training.optim import optimizers, set_rates, still
from atento.training.precision import autocast, precision_for
from atento.training.progress import Progress, Quiet
from atento.training.recompute import recomputed
from atento.training.schedule import rate_at
from atento.training.task import Task
from atento.training.watch import LOOK, Bad, Watch

__all__ = ["METRICS", "fit", "read_metrics"]

METRICS = "metrics.jsonl"


def fit(
    task: Task,
    config: Train,
    folder: Path,
    source: str,
    progress: Progress,
    *,
    resume_previous: bool = False,
) -> State:
    """Trains to the last step, from the folder's last checkpoint if it has one.

    Ctrl-C and SIGTERM save a checkpoint, then interrupt. Stopping and going on gives the same
    numbers, bit for bit on one CPU. Where the last checkpoint is damaged, `resume_previous` goes on
    from the one before it, and says so; otherwise that is an error. The folder is locked meanwhile.
    Several processes do all this as one: the first writes, speaks and judges, and what is heard by
    any of them is heard by all.
    Claim: test_resume.py::test_resuming_is_bit_identical_to_never_stopping
    Claim: test_killed.py::test_killed_at_any_moment_and_resumed_ends_with_the_same_bits
    """
    check_share(config.batch)
    progress = progress if first() else Quiet()
    with ExitStack() as held, recomputed(task.model, config.recompute):
        from_first(lambda: held.enter_context(locked(folder)))
        loop = _Loop.begun(task, config, folder, source, progress, resume_previous)
        progress.begin(loop.state.step, config.steps)
        try:
            with interruptible() as interrupt:
                while not loop.done:
                    loop.step()
                    step, asked = loop.state.step, anywhere(interrupt.asked)
                    if step == config.steps or step % config.evaluate_every == 0:
                        loop.record()
                    if loop.done or step % config.checkpoint_every == 0 or asked:
                        loop.save()
                    if asked and not loop.done:
                        raise KeyboardInterrupt
        finally:
            progress.end()
        if loop.state.step < config.steps:
            progress.say(f"Stopped early: {loop.state.stale} evaluations without a better one.")
    return loop.state


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run: numbers, and what the model said as "sample", where it said something.

    A last line that was cut off is left out.
    """
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


@dataclass
class _Loop:
    task: Task
    config: Train
    folder: Path
    progress: Progress
    held: list[Optimizer]
    average: Average
    total: Tensor  # of the losses since the last record, on the device: reading it would wait
    watch: Watch
    state: State
    seconds: float  # of training, before this process
    started: float

    @classmethod
    def begun(
        cls,
        task: Task,
        config: Train,
        folder: Path,
        source: str,
        progress: Progress,
        resume_previous: bool,
    ) -> "_Loop":
        model = task.model
        held, average = optimizers(model, config), Average(model, config.ema)
        device = next(model.parameters()).device
        total = torch.zeros((), dtype=torch.float64, device=device)
        extra = _extra(total, average)
        tell = progress.say if resume_previous and first() else None
        state = in_turn(lambda: load_latest(folder, model, held, extra, tell, rank()))
        if state is None:
            state = State(
                source=source,
                precision=precision_for(config.precision, model),
                execution=execution_for(task, config)[0],
            )
        if state.source != source:
            raise UserError(
                "data.source must be what the run began with; its content has changed since. "
                "Bring the old text back, or begin a new run."
            )
        if state.processes != processes():
            state = _shared_anew(state, config.seed, progress)
        if state.execution == "graph" and (against := hindrance(task, config)):
            progress.say(f"Steps are no longer captured, because {against}.")
            state = replace(state, execution="eager")
        seconds = from_first(lambda: _cut_back(folder, state.step))
        if state.execution == "graph":
            still(held)
        watch, now = Watch(device), time.monotonic()
        return cls(task, config, folder, progress, held, average, total, watch, state, seconds, now)

    @cached_property
    def parameters(self) -> list[Tensor]:
        """The model's, in order."""
        return list(self.task.model.parameters())

    @cached_property
    def still(self) -> StillStep | None:
        """The step as it is captured; None where none is."""
        if self.state.execution != "graph" or not draws(self.task):
            return None
        return StillStep(self.task, self.update, self.held)

    @property
    def done(self) -> bool:
        patience = self.config.patience
        tired = patience > 0 and self.state.stale >= patience
        return tired or self.state.step >= self.config.steps

    def step(self) -> None:
        if not self.task.model.training:  # of every module, which takes longer than to ask
            self.task.model.train()
        set_rates(self.held, self.state.step, self.config)
        first_number = self.state.step * self.config.accumulate
        numbers = range(first_number, first_number + self.config.accumulate)
        if self.still:
            loss, norm = self.still(numbers)
        else:
            loss, norm = self.update([partial(self.task.loss, number) for number in numbers])
        self.total += loss
        step = self.state.step + 1
        self.state = replace(self.state, step=step, losses=self.state.losses + 1)
        self.average.update(step)
        self.watch.note(step, loss, norm)
        if step % LOOK == 0:
            self.check()
        self.progress.step()

    def update(self, losses: Sequence[Callable[[], Tensor]]) -> tuple[Tensor, Tensor]:
        """Moves the weights by the mean of these losses; returns it, and its gradient's norm."""
        parameters = self.parameters
        loss = self.backward(losses)
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self.config.clip:
            clip_grads_with_norm_(parameters, self.config.clip, norm)
        for optimizer in self.held:
            optimizer.step()
            optimizer.zero_grad()
        return loss, norm

    def backward(self, losses: Sequence[Callable[[], Tensor]]) -> Tensor:
        """The mean of a step's losses, whose gradients are summed into its own."""
        found = []
        with together():
            for compute in losses:
                with autocast(self.state.precision, self.total.device):
                    loss = compute()
                (loss / len(losses)).backward()  # type: ignore[no-untyped-call]
                found.append(loss.detach())
        average_gradients(self.task.model.parameters())
        return mean(torch.stack(found).mean())

    def record(self) -> None:
        """Measures, appends to metrics.jsonl, and keeps the model if it is the best yet."""
        self.check()
        value = from_first(self.judged)
        better = value < self.state.best
        best, stale = (value, 0) if better else (self.state.best, self.state.stale + 1)
        self.state = replace(self.state, best=best, stale=stale, losses=0)
        self.total.zero_()

    def judged(self) -> float:
        """The val_loss of the model as it is now, once it is recorded."""
        with self.average.in_place():
            metrics = self.task.evaluate()
            value = metrics["val_loss"]
            if not math.isfinite(value):
                raise self.diverged("val_loss", Bad(self.state.step, value, self.watch.norm))
            self.write_record(metrics)
            if value < self.state.best:
                with _disk(self.folder):
                    self.task.save(self.folder)
        return value

    def write_record(self, metrics: dict[str, float]) -> None:
        step, train_loss = self.state.step, float(self.total) / self.state.losses
        seconds = round(self.seconds + time.monotonic() - self.started, 3)
        record: dict[str, Any] = {"step": step, "train_loss": train_loss, **metrics}
        record["seconds"] = seconds
        if said := self.task.say():
            record["sample"] = said
        with _disk(self.folder), (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        numbers = "  ".join(f"{k} {v:.4f}" for k, v in record.items() if k.endswith("loss"))
        self.progress.record(f"step {step}/{self.config.steps}  {numbers}  {seconds:.0f} s")

    def save(self) -> None:
        self.check()
        extra, generators = _extra(self.total, self.average), everyones(generator_states())

        def write_all() -> None:
            with _disk(self.folder):
                save_checkpoint(
                    self.folder, self.state, self.task.model, self.held, extra, generators
                )

        from_first(write_all)

    def check(self) -> None:
        """Stops where a loss or a gradient since the last look was no number."""
        if bad := self.watch.look():
            raise self.diverged(bad.name, bad)

    def diverged(self, name: str, bad: Bad) -> UserError:
        option = "muon_rate" if self.config.optimizer == "muon" else "rate"
        highest = getattr(self.config, option)
        rate = rate_at(bad.step - 1, self.config, highest)
        return UserError(
            f"{name} is no longer a number at step {bad.step}, with learning rate {rate:.3g} and "
            f"gradient norm {bad.norm:.3g}: training has diverged. Try a lower rate in a new run, "
            f"--train.{option} {highest / 3:.2g} instead of {highest:g}; what {self.folder} holds "
            "is from before."
        )


def _shared_anew(state: State, seed: int, progress: Progress) -> State:
    """Where a run stands that this number of processes begins, or takes over from another number.

    Batches are the same for any number; what dropout draws is not.
    """
    now = processes()
    if state.step:
        progress.say(
            f"{state.processes} processes trained up to step {state.step}, and {now} go on: the "
            "batches stay the same, and dropout draws other numbers."
        )
    if state.step or now > 1:
        drawn = np.random.SeedSequence((seed, state.step, rank())).generate_state(1)
        torch.manual_seed(int(drawn[0]))
    return replace(state, processes=now)


def _cut_back(folder: Path, step: int) -> float:
    """Seconds of training up to a step, after which the folder has no record."""
    kept = [r for r in read_metrics(folder) if r["step"] <= step]
    with _disk(folder):
        write(folder / METRICS, "".join(json.dumps(r) + "\n" for r in kept).encode())
    return kept[-1]["seconds"] if kept else 0.0


def _extra(total: Tensor, average: Average) -> dict[str, Tensor]:
    return {"total": total} | {f"average.{name}": x for name, x in average.tensors.items()}


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Says in one sentence that a disk is full or gone; what was saved is not touched."""
    try:
        yield
    except OSError as error:
        last = latest(folder)
        kept = f"{last.name} is whole" if last else "there is no checkpoint yet"
        raise UserError(
            f"{folder} cannot be written ({error.strerror}). What was saved stays: {kept}. Make "
            "room, and go on with --resume."
        ) from error
