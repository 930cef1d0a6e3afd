"""Checkpoints: everything a run needs to go on as if it had never stopped.

A checkpoint is a folder, checkpoint/step-N: model.safetensors, optimizer.safetensors (its state,
the sum of losses since the last record, averaged weights, every process's random generators) and
state.json, which has the SHA-256 of the others and of itself. It is written under another name and
renamed, and renamed before it is removed, so there is never half of one; the last two are kept.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor, nn
from torch.optim import Optimizer

from atento.errors import UserError
from atento.models.format import MARK, check_format
from atento.models.storage import write

__all__ = [
    "Damaged",
    "State",
    "generator_states",
    "latest",
    "load_checkpoint",
    "load_latest",
    "save_checkpoint",
    "step_of",
]

KEPT = 2
MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"


class Damaged(UserError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True)
class State:
    """Where a run stands, besides its tensors."""

    step: int = 0  # steps done
    best: float = float("inf")  # the lowest val_loss yet
    losses: int = 0  # steps since the last record
    stale: int = 0  # records since the best one
    source: str = ""  # SHA-256 of what is learned from
    precision: str = "float32"  # of the matrix products, as "auto" came out when it began
    processes: int = 1  # that trained together
    execution: str = "eager"  # of the steps, or "graph"


def save_checkpoint(
    folder: Path,
    state: State,
    model: nn.Module,
    held: Sequence[Optimizer],
    extra: Mapping[str, Tensor],
    generators: Sequence[Mapping[str, Tensor]] = (),
) -> None:
    """Writes checkpoint/step-N in a run's folder; `extra` are tensors by names of the caller's.

    `generators` are the states of each process's, by rank; this process's alone unless given.
    """
    home = folder / "checkpoint"
    whole, part = home / f"step-{state.step:08}", home / f".step-{state.step:08}"
    for leftover in home.glob(".*"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        tensors = dict(_flat(held)) | {f"extra.{k}": x for k, x in extra.items()}
        for rank, states in enumerate(generators or [generator_states()]):
            tensors |= {_of_rank(rank, name): x for name, x in states.items()}
        files = {
            MODEL: _written(part / MODEL, model.state_dict()),
            OPTIMIZER: _written(part / OPTIMIZER, tensors),
        }
        best = None if state.best == float("inf") else state.best  # JSON has no infinity
        settings = MARK | asdict(state) | {"best": best, "files": files}
        settings |= {"sha256": _digest(settings)}
        write(part / STATE, json.dumps(settings, indent=1).encode() + b"\n")
        _remove(whole)
        os.replace(part, whole)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    for old in _found(folder)[:-KEPT]:
        _remove(old)


def latest(folder: Path) -> Path | None:
    """The last checkpoint of a run's folder."""
    return next(reversed(_found(folder)), None)


def step_of(checkpoint: Path) -> int:
    """How many steps were done when it was saved."""
    return int(checkpoint.name.removeprefix("step-"))


def load_latest(
    folder: Path,
    model: nn.Module,
    held: Sequence[Optimizer],
    extra: Mapping[str, Tensor],
    tell: Callable[[str], None] | None = None,
    rank: int = 0,
) -> State | None:
    """Where the last checkpoint of a run's folder stood, filled in; None where there is none.

    A damaged one is an error; or, with `tell`, told, put aside, and the one before it is used.
    Claim: test_checkpoint.py::test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_asked_for
    """
    damaged: list[Path] = []
    for checkpoint in reversed(_found(folder)):
        try:
            state = load_checkpoint(checkpoint, model, held, extra, rank)
        except Damaged as error:
            if tell is None:
                raise Damaged(f"{error} {_remedy(folder, checkpoint)}") from error
            tell(f"{error} It is put aside.")
            damaged.append(checkpoint)
            continue
        for bad in damaged:
            aside = bad.with_name(f"damaged-{bad.name}")
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(bad, aside)
        return state
    if damaged:
        raise Damaged(f"{folder} has no checkpoint that is whole. Begin a new run.")
    return None


def load_checkpoint(
    checkpoint: Path,
    model: nn.Module,
    held: Sequence[Optimizer],
    extra: Mapping[str, Tensor],
    rank: int = 0,
) -> State:
    """Fills model, optimizers, `extra` and torch's generators, and returns where the run stood.

    The generators get the states of that rank, or are left alone where fewer processes trained.
    """
    settings = _settings(checkpoint)
    weights, tensors = (_read(checkpoint / n, settings["files"][n]) for n in (MODEL, OPTIMIZER))
    try:
        model.load_state_dict(weights)
        _fill(held, tensors)
        for name, x in extra.items():
            x.copy_(tensors[f"extra.{name}"])
        # What a checkpoint of an earlier atento does not say has its default.
        state = State(**{f.name: settings[f.name] for f in fields(State) if f.name in settings})
        if rank < state.processes:
            _set_generators(tensors, rank)
    except (KeyError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{checkpoint} does not fit this run's model: {error}. Delete that folder to go on "
            "from the one before it."
        ) from error
    return state if state.best is not None else replace(state, best=float("inf"))


def _found(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("checkpoint/step-*") if p.name[5:].isdecimal())


def _remove(checkpoint: Path) -> None:
    """Removes a checkpoint such that it is there whole, or not at all."""
    if checkpoint.exists():
        aside = checkpoint.with_name(f".old-{checkpoint.name}")
        os.replace(checkpoint, aside)
        shutil.rmtree(aside, ignore_errors=True)


def _remedy(folder: Path, checkpoint: Path) -> str:
    before = [other for other in _found(folder) if other < checkpoint]
    if not before:
        return "There is none before it. Begin a new run."
    return f"To go on from the one before it, {before[-1].name}, add --resume-previous."


def _written(file: Path, tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of the safetensors file that it writes."""
    content = bytes_of({name: x.detach().cpu().contiguous() for name, x in tensors.items()})
    write(file, content)
    return hashlib.sha256(content).hexdigest()


def _read(file: Path, sha256: str) -> dict[str, Tensor]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Damaged(f"{file} cannot be read ({error.strerror}).") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Damaged(f"{file} is damaged: its {len(content):,} bytes are not those written.")
    return tensors_of(content)


def _settings(checkpoint: Path) -> dict[str, Any]:
    """What state.json says, once it is known to be what was written."""
    file = checkpoint / STATE
    try:
        content = json.loads(file.read_bytes())
        whole = isinstance(content, dict) and content.pop("sha256", None) == _digest(content)
    except OSError as error:
        raise Damaged(f"{file} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise Damaged(f"{file} is damaged: it holds no JSON.") from error
    if not whole or content.get("step") != step_of(checkpoint):
        raise Damaged(f"{file} is damaged: it is not what was written.")
    check_format(content, str(file))
    found: dict[str, Any] = content
    return found


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _flat(held: Sequence[Optimizer]) -> Iterator[tuple[str, Tensor]]:
    for place, optimizer in enumerate(held):
        for number, values in optimizer.state_dict()["state"].items():
            for name, value in values.items():
                yield f"state.{place}.{number}.{name}", value


def _fill(held: Sequence[Optimizer], tensors: Mapping[str, Tensor]) -> None:
    contents = [optimizer.state_dict() | {"state": {}} for optimizer in held]
    for key, value in tensors.items():
        if key.startswith("state."):
            _, place, number, name = key.split(".", 3)
            contents[int(place)]["state"].setdefault(int(number), {})[name] = value
    for optimizer, content in zip(held, contents, strict=True):
        optimizer.load_state_dict(content)


def generator_states() -> dict[str, Tensor]:
    """The states of this process's random generators."""
    cuda = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {"cpu": torch.get_rng_state()} | cuda


def _set_generators(tensors: Mapping[str, Tensor], rank: int) -> None:
    torch.set_rng_state(tensors[_of_rank(rank, "cpu")])
    cuda = tensors.get(_of_rank(rank, "cuda"))
    if cuda is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(cuda)


def _of_rank(rank: int, name: str) -> str:
    return f"generator.{name}" if rank == 0 else f"generator.{name}.{rank}"
