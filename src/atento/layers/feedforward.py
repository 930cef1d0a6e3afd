"""The network that every token passes through alone, between attentions."""

from __future__ import annotations

from torch import Tensor, nn

from atento.layers.dropout import Dropout

__all__ = ["FeedForward", "Gated", "SquaredReLU"]


class SquaredReLU(nn.Module):
    """max(0, x)².

    Ref: So et al. 2021, arXiv:2109.08668, section 3.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.relu().square()


class Gated(nn.Module):
    """f(a) · b for the two halves a, b of what comes in: SwiGLU with SiLU, GEGLU with GELU.

    Ref: Shazeer 2020, arXiv:2002.05202, equation 6.
    """

    inputs = 2  # numbers taken for each one returned

    def __init__(self, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.activation = nn.SiLU() if activation is None else activation

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        gate: Tensor = self.activation(a)
        return gate * b


class FeedForward(nn.Module):
    """W₂ f(W₁ x + b₁) + b₂ for an activation f, such as nn.ReLU(), SquaredReLU() or Gated().

    x: [..., C] → [..., C], through `hidden` numbers (4C unless given). A gated activation takes
    twice as many, so hidden = 8C/3 keeps the number of parameters.
    Ref: Vaswani et al. 2017, arXiv:1706.03762, equation 2.
    Claim: test_feedforward.py::test_changing_a_token_changes_its_own_row_only
    """

    def __init__(
        self,
        width: int,
        hidden: int | None = None,
        *,
        activation: nn.Module | None = None,
        biased: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        self.activation = nn.GELU() if activation is None else activation
        self.up = nn.Linear(width, hidden * getattr(self.activation, "inputs", 1), bias=biased)
        self.dropout = Dropout(dropout)
        self.down = nn.Linear(hidden, width, bias=biased)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.dropout(self.activation(self.up(x))))
        return out
