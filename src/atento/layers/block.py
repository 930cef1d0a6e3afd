"""A block: attention to itself, attention to a context, feed-forward; each with its residual."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from atento.core.biases import Bias
from atento.core.cache import Cache
from atento.core.compose import Mask
from atento.core.positions import At
from atento.layers.attention import Attention, KeysValues

__all__ = ["Block"]


class Block(nn.Module):
    """The sublayers that are given, in the order attention, cross, feedforward.

    `residual` makes a new residual connection, with its own norm, for each of them:
    lambda: PreNorm(LayerNorm(width)). With attention=None the block is the same without its
    attention: it takes the same arguments, and no token hears of another.
    Ref: Vaswani et al. 2017, arXiv:1706.03762, section 3.1 (PostNorm); Xiong et al. 2020,
    arXiv:2002.04745 (PreNorm).
    Claim: test_block.py::test_a_decoder_block_equals_torchs_decoder_layer
    """

    def __init__(
        self,
        attention: Attention | None,
        feedforward: nn.Module,
        residual: Callable[[], nn.Module],
        *,
        cross: Attention | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = None if attention is None else residual()
        self.cross = cross
        self.cross_residual = None if cross is None else residual()
        self.feedforward = feedforward
        self.feedforward_residual = residual()

    def forward(
        self,
        x: Tensor,
        context: Tensor | KeysValues | None = None,
        *,
        mask: Mask | None = None,
        context_mask: Mask | None = None,
        bias: Bias | None = None,
        at: At = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """x: [B, N, C], context: [B, K, C] or `block.cross.keys_values(context)` → [B, N, C].

        mask, bias, at and cache are for the self-attention, context_mask for the attention to the
        context, whose positions play no part.
        """
        attention, cross = self.attention, self.cross
        if (context is None) != (cross is None):
            raise ValueError(
                "context must be given to blocks with cross-attention, and to no others; got "
                f"context={type(context).__name__} and cross={type(cross).__name__}."
            )
        if attention is not None and self.attention_residual is not None:
            x = self.attention_residual(
                x, lambda h: attention(h, mask=mask, bias=bias, at=at, cache=cache)
            )
        if cross is not None and self.cross_residual is not None:
            x = self.cross_residual(x, lambda h: cross(h, context, mask=context_mask))
        out: Tensor = self.feedforward_residual(x, self.feedforward)
        return out
