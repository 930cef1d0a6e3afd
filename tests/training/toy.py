"""A small decoder on a made-up language, and the loop on it, for tests and their processes."""

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.storage import write_tensors
from atento.training.checkpoint import State
from atento.training.config import Train
from atento.training.distributed import share
from atento.training.loop import fit
from atento.training.progress import Quiet

CONFIG = ModelConfig(width=12, layers=2, heads=2, context=7, vocabulary=11, dropout=0.2)
SETTINGS = {"batch": 5, "rate": 0.01, "warmup": 3, "evaluate_every": 5, "checkpoint_every": 3}


class Toy:
    """Foretells the next of tokens in which t is mostly followed by 3 t + 1 mod 11."""

    def __init__(
        self, config: ModelConfig = CONFIG, log: Path | None = None, batch: int = 5
    ) -> None:
        torch.manual_seed(7)
        self.model = build(config)
        self.log, self.batch = log, batch

    def loss(self, number: int) -> Tensor:
        if self.log:
            descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, f"{number}\n".encode())
            os.close(descriptor)
        return self.loss_on(self.drawn(number))

    def drawn(self, number: int) -> tuple[Tensor, ...]:
        return (share(self.tokens(self.batch, number)),)

    def loss_on(self, drawn: tuple[Tensor, ...]) -> Tensor:
        return self._loss(*drawn)

    def tokens(self, batch: int, number: int) -> Tensor:
        generator = torch.Generator().manual_seed(number)
        steps = [torch.randint(11, (batch,), generator=generator)]
        for _ in range(7):
            other = torch.randint(11, (batch,), generator=generator)
            luck = torch.rand(batch, generator=generator) < 0.1
            steps.append(torch.where(luck, other, (3 * steps[-1] + 1) % 11))
        return torch.stack(steps, 1)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        return {"val_loss": float(self._loss(self.tokens(101, 10**9)))}

    def say(self) -> str:
        return ""

    def save(self, folder: Path) -> None:
        write_tensors(folder / "model.safetensors", self.model.state_dict())

    def _loss(self, tokens: Tensor) -> Tensor:
        return cross_entropy(self.model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def train(
    folder: Path,
    given: dict[str, object] | None = None,
    task: Toy | None = None,
    resume_previous: bool = False,
    hook: Callable[[str], None] = lambda line: None,
) -> State:
    """The loop on a Toy; `hook` gets what it says."""

    class Heard(Quiet):
        def say(self, line: str) -> None:
            hook(line)

    folder.mkdir(exist_ok=True, parents=True)
    config = Train(**(SETTINGS | {"steps": 17} | (given or {})))  # type: ignore[arg-type]
    return fit(task or Toy(), config, folder, "a hash", Heard(), resume_previous=resume_previous)
