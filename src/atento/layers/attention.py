"""Multi-head attention: projections around one call of the door."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from atento.core.attend import attend
from atento.core.biases import Bias
from atento.core.cache import Cache
from atento.core.compose import Mask
from atento.core.positions import At, Positions, resolved
from atento.core.rotary import Rotary
from atento.core.scores import DOT, Score
from atento.core.tap import Slot, Tap
from atento.layers import joined
from atento.layers.fixed import owned
from atento.layers.norm import RMSNorm

__all__ = ["Attention", "KeysValues"]


class KeysValues(NamedTuple):
    """A context's keys and values, projected once for all the steps of a decoder."""

    k: Tensor  # [B, Hk, K, D]
    v: Tensor  # [B, Hk, K, D]


class Attention(nn.Module):
    """Concat(head_1, …, head_H) W_O + b_O, head_h = attend(x W_Q, c W_K, c W_V).

    c is x, or a context: x [B, Q, C], context [B, K, context_width] → [B, Q, C]. `kv_heads` that
    divide the heads make groups of queries share keys and values; `head_width` is C / heads unless
    given; `normed` puts an RMSNorm over each head's q and k (QK-norm, before the rotation). Score,
    bias and rotation are objects of the door, or modules whose call returns one (`AdditiveScore`,
    `T5Table`).
    Ref: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2; Ainslie et al. 2023,
    arXiv:2305.13245 (groups); Henry et al. 2020, arXiv:2010.04245 (QK-norm).
    Claim: test_attention.py::test_attention_equals_torchs_multi_head_attention
    """

    tap: Slot | Tap | None = None

    def __init__(  # long: each part of the equation is an argument
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        context_width: int | None = None,
        biased: bool = True,
        normed: bool = False,
        score: Score | nn.Module | None = None,
        bias: Bias | nn.Module | None = None,
        rotary: Rotary | nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.head_width = _head_width(width, heads, self.kv_heads, head_width)
        self.context_width = width if context_width is None else context_width
        self.dropout = dropout
        inner, shared = heads * self.head_width, self.kv_heads * self.head_width
        self.query = nn.Linear(width, inner, bias=biased)
        self.key = nn.Linear(self.context_width, shared, bias=biased)
        self.value = nn.Linear(self.context_width, shared, bias=biased)
        self.out = nn.Linear(inner, width, bias=biased)
        self.query_norm = RMSNorm(self.head_width) if normed else nn.Identity()
        self.key_norm = RMSNorm(self.head_width) if normed else nn.Identity()
        self.score = owned(DOT if score is None else score)
        self.bias = None if bias is None else owned(bias)
        self.rotary = None if rotary is None else owned(rotary)

    def forward(
        self,
        x: Tensor,
        context: Tensor | KeysValues | None = None,
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
        at: At = None,
        cache: Cache | None = None,
    ) -> Tensor:  # [B, Q, C]
        """Self-attention, or attention to a context where one is given.

        `bias` is added to the module's own. `at` says where queries and keys stand, as for
        `attend`. With a cache it says where the new tokens stand (Positions.q, for left-padded
        batches), and None means after those already in it.
        """
        _check("x", x, self.width)
        q, k, v = self._projected(x, context)
        if cache is not None:
            if context is not None:
                raise ValueError(
                    "cache is for self-attention, whose keys grow; got one with a context. Project "
                    "the context once: context=attention.keys_values(context)."
                )
            k, v, at = cache.update(k, v, _new_positions(at, x))
        if self.rotary is not None:
            rotary: Rotary = self.rotary()
            q, k = rotary.rotate(q, k, at)
        seen = attend(
            q,
            k,
            v,
            mask=mask,
            bias=self._bias(bias),
            score=self.score(),
            dropout=self.dropout if self.training else 0.0,
            at=at,
            tap=self.tap,
        )
        out: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return out

    def keys_values(self, context: Tensor) -> KeysValues:
        """What `forward` takes as context in every step once the context [B, K, C] is known."""
        _check("context", context, self.context_width)
        return self._keys_values(self.key(context), self.value(context))

    def _projected(
        self, x: Tensor, context: Tensor | KeysValues | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, Q, D], and k and v [B, Hk, K, D]."""
        maps = (self.query, self.key, self.value)
        if context is None and joined.pays(x, maps):
            # In training three narrow products and their gradients cost more than a wide one.
            q, k, v = joined.linear(x, maps)
            return self._queries(q), *self._keys_values(k, v)
        source = x if context is None else context
        held = source if isinstance(source, KeysValues) else self.keys_values(source)
        return self._queries(self.query(x)), *held

    def _queries(self, q: Tensor) -> Tensor:
        normed: Tensor = self.query_norm(
            q.view(*q.shape[:2], self.heads, self.head_width).transpose(1, 2)
        )
        return normed

    def _keys_values(self, k: Tensor, v: Tensor) -> KeysValues:
        k, v = (
            y.view(*y.shape[:2], self.kv_heads, self.head_width).transpose(1, 2) for y in (k, v)
        )
        return KeysValues(self.key_norm(k), v)

    def _bias(self, given: Bias | None) -> Bias | None:
        if self.bias is None:
            return given
        mine: Bias = self.bias()
        return mine if given is None else mine + given


def _head_width(width: int, heads: int, kv_heads: int, given: int | None) -> int:
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise ValueError(
            f"kv_heads must divide heads; got heads={heads}, kv_heads={kv_heads}. Each "
            "key head serves heads / kv_heads query heads."
        )
    if given is None and width % heads:
        raise ValueError(
            f"heads must divide width; got width={width}, heads={heads}. Or give head_width."
        )
    return width // heads if given is None else given


def _check(name: str, x: Tensor, width: int) -> None:
    if x.dim() != 3 or x.shape[-1] != width:
        raise ValueError(
            f"{name} must be [B, N, C] = [B, N, {width}]; got {list(x.shape)}. "
            "A single sequence is x[None]."
        )


def _new_positions(at: At, x: Tensor) -> Tensor | None:
    """Int[1 or B, N], where a cache's new tokens stand; None: after those seen."""
    if at is None:
        return None
    if isinstance(at, Positions):
        return at.q
    return resolved(at, x.shape[1], x.device).queries(x.shape[1], x.device)
