"""Dropout as a module."""

from __future__ import annotations

from torch import Tensor, nn

from atento.core.dropout import dropout

__all__ = ["Dropout"]


class Dropout(nn.Dropout):
    """In training x · m, where each m is 0 with probability p and else 1 / (1 − p).

    torch's module, with random numbers that cost a fraction on a CPU.
    Claim: bench/records/step_cpu.json
    """

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training and self.p else x
