"""Residual connections: how a sublayer f joins the stream that passes it by."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from atento.layers.dropout import Dropout

__all__ = ["DropPath", "PostNorm", "PreNorm"]


class DropPath(nn.Module):
    """Stochastic depth: in training, x / (1 − p) with probability 1 − p, else 0, per sequence.

    x: [B, ...]. Its expectation is x, which is what evaluation gives.
    Ref: Huang et al. 2016, arXiv:1603.09382 (which scales in evaluation instead).
    Claim: test_residual.py::test_drop_path_expects_in_training_what_evaluation_gives
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p must be a probability 0 ≤ p < 1; got {p}.")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        ones = x.new_ones(x.shape[0], *(1,) * (x.dim() - 1))
        return x * torch.dropout(ones, self.p, True)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class PreNorm(nn.Module):
    """x + drop(f(norm(x))).

    Claim: test_block.py::test_a_pre_norm_block_equals_torchs_encoder_layer
    """

    def __init__(self, norm: nn.Module, *, dropout: float = 0.0, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.drop = nn.Sequential(Dropout(dropout), DropPath(drop_path))

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        dropped: Tensor = self.drop(f(self.norm(x)))
        return x + dropped


class PostNorm(nn.Module):
    """norm(x + drop(f(x))).

    Claim: test_block.py::test_a_post_norm_block_equals_torchs_encoder_layer
    """

    def __init__(self, norm: nn.Module, *, dropout: float = 0.0, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.drop = nn.Sequential(Dropout(dropout), DropPath(drop_path))

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        out: Tensor = self.norm(x + self.drop(f(x)))
        return out
