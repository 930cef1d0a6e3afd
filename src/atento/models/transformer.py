"""What decoders and encoders have in common: everything but who may attend to whom."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from atento.core.cache import Cache, EvictingCache
from atento.core.compose import Mask
from atento.core.positions import Positions
from atento.errors import UserError
from atento.layers.attention import Attention, KeysValues
from atento.layers.block import Block
from atento.layers.dropout import Dropout
from atento.layers.embedding import TokenEmbedding
from atento.layers.fixed import Fixed
from atento.layers.positions import Learned

__all__ = ["Stack", "Transformer"]


class Stack(nn.Module):
    """norm(h_L), with h_0 = drop(x + P[position]) and h_l = block_l(h_{l−1}), for vectors x.

    `positions` is what is added to the vectors, if anything is; rotations and biases are the
    blocks' own. `context` is the number of tokens seen at once in training: learned positions end
    there, the others go on.
    """

    def __init__(
        self,
        blocks: Iterable[Block],
        norm: nn.Module,
        *,
        context: int,
        mask: Mask,
        positions: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.context = context
        self.mask = Fixed(mask)
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    @property
    def limit(self) -> int | None:
        """How many tokens there can be: the learned positions; None where there is no limit."""
        if isinstance(self.positions, Learned):
            return self.positions.table.num_embeddings
        return None

    def through(
        self,
        x: Tensor,
        caches: Sequence[Cache] | None = None,
        *,
        positions: Tensor | None = None,
        mask: Mask | None = None,
        heard: Sequence[KeysValues] | None = None,
        heard_mask: Mask | None = None,
    ) -> Tensor:
        """x [B, N, C] → norm(h_L) [B, N, C]; the arguments are those of `Transformer.states`.

        `heard` is what each block's cross-attention hears, and `heard_mask` which of it may be.
        """
        if self.positions is not None:
            x = x + self.positions(self._places(x, caches, positions))
        h = self.dropout(x)
        own: Mask = self.mask()
        mask = own if mask is None else own & mask
        at = None if positions is None else Positions(positions, positions)
        for n, block in enumerate(self.blocks):
            cache = caches[n] if caches else None
            if cache is not None and not isinstance(block.attention, Attention):
                # Nothing to keep but the count, for the positions: keys of no width.
                nothing = h.new_empty(len(h), 1, h.shape[1], 0)
                cache.update(nothing, nothing, positions)
            context = None if heard is None else heard[n]
            h = block(h, context, mask=mask, context_mask=heard_mask, at=at, cache=cache)
        normed: Tensor = self.norm(h)
        return normed

    def _places(
        self, x: Tensor, caches: Sequence[Cache] | None, positions: Tensor | None
    ) -> Tensor:
        if positions is not None:
            return positions
        held, new = _held(caches), x.shape[1]
        # Here, not in the table: on a GPU an index beyond its end stops the whole process.
        if self.limit is not None and held + new > self.limit:
            raise UserError(
                f"the context must be at most {self.limit} tokens, whose positions were learned; "
                f"got {held + new}. Give fewer, or train with a larger model.context or with "
                "rotary positions."
            )
        return torch.arange(held, held + new, device=x.device)


class Transformer(Stack):
    """norm(h_L), with h_0 = drop(E[token] + P[position]) and h_l = block_l(h_{l−1}).

    `Decoder` and `Encoder` are made of it; the arguments but the embedding are those of `Stack`.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        blocks: Iterable[Block],
        norm: nn.Module,
        *,
        context: int,
        mask: Mask,
        positions: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            blocks, norm, context=context, mask=mask, positions=positions, dropout=dropout
        )
        self.embedding = embedding

    def states(
        self,
        tokens: Tensor,
        caches: Sequence[Cache] | None = None,
        *,
        positions: Tensor | None = None,
        mask: Mask | None = None,
    ) -> Tensor:
        """tokens Int[B, N] → norm(h_L) [B, N, C], what the logits are made from.

        `positions` Int[N] or Int[B, N] says where tokens stand, −1 for pads; None: one after the
        other, after those that the caches hold. `mask` (of a batch: `Padding`, `Documents`) is
        joined to the model's own. With caches, one for each block, tokens follow those they hold;
        positions are then given in every call or in none.
        """
        if tokens.dim() != 2:
            raise ValueError(
                f"tokens must be Int[B, N]; got {list(tokens.shape)}. One sequence is tokens[None]."
            )
        return self.through(self.embedding(tokens), caches, positions=positions, mask=mask)


def _held(caches: Sequence[Cache] | None) -> int:
    """How many tokens the caches have seen."""
    if not caches:
        return 0
    if isinstance(caches[0], EvictingCache):
        raise ValueError(
            "positions must be given with an EvictingCache, which does not say how many tokens it "
            "has seen: Int[N], where the new ones stand."
        )
    return len(caches[0])  # type: ignore[arg-type]
