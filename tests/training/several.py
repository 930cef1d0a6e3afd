"""Trains Toys in the processes that torchrun starts; leaves what came of it in a folder.

Usage: python -m torch.distributed.run --nproc-per-node=2 several.py FOLDER PART …
"""

import json
import os
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from atento.cli import main
from atento.errors import UserError
from atento.models.config import ModelConfig
from atento.models.storage import write_tensors
from atento.training.distributed import joined, processes, rank
from tasks.books import OPTIONS, book
from training.toy import Toy, train

PLAIN = ModelConfig(width=12, layers=2, heads=2, context=7, vocabulary=11)
ALIKE = {"precision": "float32", "evaluate_every": 1, "checkpoint_every": 1000, "clip": 0.0}
MIXED = {
    "optimizer": "muon",
    "ema": 0.9,
    "accumulate": 2,
    "recompute": "blocks",
    "precision": "bfloat16",
}


def alike(folder: Path, steps: int) -> None:
    """Leaves the gradients of the first step, and the loss of each."""
    gradients: dict[str, Tensor] = {}
    task = Toy(PLAIN, batch=6)

    def look(*rest: object) -> None:
        if not gradients:
            for name, p in task.model.named_parameters():
                assert p.grad is not None
                gradients[name] = p.grad.clone()

    handle = register_optimizer_step_pre_hook(look)
    train(folder, ALIKE | {"batch": 6, "steps": steps}, task)
    handle.remove()
    if rank() == 0:
        write_tensors(folder / "gradients.safetensors", gradients)


class Signalled(Toy):
    """The last process alone is told to end, in the midst of a step."""

    def loss(self, number: int) -> Tensor:
        if number == 15 and rank() == processes() - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().loss(number)


def stopping(folder: Path) -> None:
    """One run that never stops, and one that is stopped and goes on."""
    given = MIXED | {"batch": 3 * processes()}
    train(folder / "whole", given, Toy(batch=3 * processes()))
    try:
        train(folder / "run", given, Signalled(batch=3 * processes()))
    except KeyboardInterrupt:
        (folder / f"heard-{rank()}").touch()
    torch.rand(13)
    train(folder / "run", given, Toy(batch=3 * processes()))


class Failing(Toy):
    """Meets a mistake of the user's in step 4, on one process only."""

    def loss(self, number: int) -> Tensor:
        if number == 3 and rank() == 1:
            raise UserError("the second process has lost its text.")
        return super().loss(number)


def failing(folder: Path) -> None:
    """Leaves what each process was told."""
    for name, task, batch in (("lost", Failing(batch=6), 6), ("odd", Toy(), 5)):
        try:
            train(folder / name, {"batch": batch}, task)
        except UserError as error:
            (folder / f"{name}-{rank()}.json").write_text(json.dumps(str(error)))


def command(folder: Path) -> None:
    """What `atento train` does in each process; each says so in a file of its own."""
    if rank() == 0:
        folder.mkdir()
        book(folder)
    words = [word for k, v in (OPTIONS | {"batch": 6}).items() for word in (f"--{k}", str(v))]
    words += ["--source", str(folder / "livro.txt"), "--out", str(folder / "run")]
    with (folder.parent / f"said-{rank()}").open("w") as said, redirect_stdout(said):
        assert main(["train", "text", *words]) == 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    home = Path(sys.argv[1])
    with joined():
        for part in sys.argv[2:]:
            match part.split(":"):
                case ["alike", steps]:
                    alike(home / "alike", int(steps))
                case ["stopping"]:
                    stopping(home)
                case ["command"]:
                    command(home / "book")
                case ["failing"]:
                    failing(home)
