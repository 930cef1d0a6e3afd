"""What the loop asks of a task."""

from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

__all__ = ["Drawing", "Task"]


class Task(Protocol):
    """A model, what it is to learn, and how well it does."""

    @property
    def model(self) -> nn.Module: ...

    def loss(self, step: int) -> Tensor:
        """The loss of a batch, with a graph behind it; the batch follows from the number.

        It is the step's, from 0; where a step accumulates A batches, A · step + 0 … A − 1.
        """
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics of the validation split, `val_loss` among them; no generator is touched."""
        ...

    def say(self) -> str:
        """A few words of the model as it is now; "" for none. No generator is touched."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the model as it is now, for `atento.load`."""
        ...


class Drawing(Task, Protocol):
    """A task whose loss is a function of tensors, so that its step can be captured."""

    def drawn(self, step: int) -> tuple[Tensor, ...]:
        """The batch of a number as `loss` draws it, on the CPU, of the same shapes for all."""
        ...

    def loss_on(self, drawn: tuple[Tensor, ...]) -> Tensor:
        """The loss of a batch, wherever it lies, without a look at its values from the host."""
        ...
