"""A convolutional encoder of sequences: each layer hears a few neighbours, depth does the rest."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from atento.layers.dropout import Dropout

__all__ = ["Convolutional"]


class Convolutional(nn.Module):
    """x + v · σ(g), layer upon layer, where v and g are convolutions of x over `kernel` tokens.

    Layer l, from 0, takes every `dilation`^l-th neighbour, on both sides alike. x: [B, N, C] →
    [B, N, C]; what lies beyond a sequence is 0. A token hears of `receptive_field` tokens, and of
    no others.
    Ref: Gehring et al. 2017, arXiv:1705.03122, section 3.2 (without dilation); the field's size as
    in Oord et al. 2016, arXiv:1609.03499, section 2.1.
    Claim: test_convolution.py::test_the_gradient_reaches_the_receptive_field_and_no_farther
    """

    def __init__(
        self, width: int, layers: int, *, kernel: int = 3, dilation: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(
                f"kernel must be odd, as many tokens before as after; got {kernel}. Try "
                f"{max(kernel, 0) + 1}."
            )
        if dilation < 1 or layers < 1:
            raise ValueError(
                f"layers and dilation must be at least 1; got layers={layers}, dilation={dilation}."
            )
        self.width, self.kernel = width, kernel
        self.steps: list[int] = [int(dilation**n) for n in range(layers)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, 2 * width, kernel, padding=(kernel - 1) // 2 * step, dilation=step)
            for step in self.steps
        )
        self.dropout = Dropout(dropout)

    @property
    def receptive_field(self) -> int:
        """How many tokens each one hears of: 1 + (kernel − 1) · Σ_l dilation^l."""
        return 1 + (self.kernel - 1) * sum(self.steps)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x [B, N, C], lengths Int[B] → [B, N, C]; beyond a sequence's length it is 0."""
        if x.dim() != 3 or x.shape[-1] != self.width:
            raise ValueError(
                f"x must be [B, N, C] = [B, N, {self.width}]; got {list(x.shape)}. "
                "A single sequence is x[None]."
            )
        real: Tensor | None = None
        if lengths is not None:
            real = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
            real = real[..., None]
            x = x * real
        for convolution in self.convolutions:
            values, gates = convolution(self.dropout(x).mT).mT.chunk(2, -1)
            x = x + values * gates.sigmoid()
            if real is not None:
                x = x * real  # or the next layer would hear what stands beyond the end
        return x
