"""Whether the training still is one: losses and gradients that are numbers."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["LOOK", "Bad", "Watch"]

LOOK = 10  # steps between two looks at whether they are numbers: each waits for the device


@dataclass(frozen=True)
class Bad:
    """The first step, counted from 1, whose loss or gradient was no number."""

    step: int
    loss: float
    norm: float

    @property
    def name(self) -> str:
        return "the gradient" if math.isfinite(self.loss) else "train_loss"


class Watch:
    """The losses and gradient norms of the last steps, kept on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        self.seen = torch.zeros(LOOK, 2, device=device)
        self.unread: list[int] = []  # steps, counted from 1
        self.norm = 0.0  # of the gradient of the last step that was read

    def note(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """A step's loss and gradient norm; at most LOOK of them between two looks."""
        assert len(self.unread) < LOOK
        self.seen[step % LOOK] = torch.stack((loss.float(), norm.float()))
        self.unread.append(step)

    def look(self) -> Bad | None:
        """The first bad step since the last look."""
        steps, self.unread = self.unread, []
        if not steps:
            return None
        rows = self.seen.tolist()
        for step in steps:
            loss, self.norm = rows[step % LOOK]
            if not (math.isfinite(loss) and math.isfinite(self.norm)):
                return Bad(step, loss, self.norm)
        return None
