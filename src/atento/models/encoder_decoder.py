"""The encoder-decoder Transformer: the target's tokens hear the source's, and those before them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from atento.core.cache import GrowingCache
from atento.core.compose import Mask
from atento.core.tables import Padding
from atento.layers.attention import Attention, KeysValues
from atento.layers.embedding import TokenEmbedding
from atento.models.transformer import Stack

__all__ = ["Caches", "EncoderDecoder", "Sources"]


@dataclass(frozen=True)
class Sources:
    """A batch of sources: each decoder block's keys and values of them, and which are real."""

    states: tuple[KeysValues, ...]
    lengths: Tensor | None  # Int[B]

    @property
    def mask(self) -> Mask | None:
        return None if self.lengths is None else Padding(self.lengths)

    def select(self, rows: Tensor) -> "Sources":
        """These sources, Int[B'], in this order."""
        states = tuple(KeysValues(held.k[rows], held.v[rows]) for held in self.states)
        return Sources(states, None if self.lengths is None else self.lengths[rows])


@dataclass(frozen=True)
class Caches:
    """A cache for each decoder block."""

    blocks: Sequence[GrowingCache]

    def select(self, rows: Tensor) -> None:
        """Goes on with these targets, Int[B'], in this order."""
        for cache in self.blocks:
            cache.select(rows)


class EncoderDecoder(nn.Module):
    """logits = decoder(E[target]; encoder(E'[source])) Eᵀ, the norms included.

    Every block of the decoder attends to the target so far, then to the encoder's last states, by
    the same layer. E' is E unless a `source_embedding` is given.
    Ref: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    Claim: test_encoder_decoder.py::test_it_equals_torchs_transformer
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        encoder: Stack,
        decoder: Stack,
        *,
        source_embedding: TokenEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.source_embedding = source_embedding
        self.encoder, self.decoder = encoder, decoder
        self.context, self.limit = decoder.context, decoder.limit
        # Of the last block, as fairseq shows it; heads are averaged.
        self.aligned: str | None = f"decoder.blocks.{len(decoder.blocks) - 1}.cross"

    def forward(self, source: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source Int[B, N], target Int[B, M] → logits [B, M, V] of the token after each.

        `lengths` Int[B] are the sources' own; what stands beyond them is heard by nobody. A
        target's padding is on its right, where no token before it looks.
        Claim: test_encoder_decoder.py::test_padding_changes_nothing
        """
        return self.decode(target, self.encode(source, lengths))

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Sources:
        """source Int[B, N] → what the decoder hears of it, in every step the same."""
        embedding = self.embedding if self.source_embedding is None else self.source_embedding
        mask = None if lengths is None else Padding(lengths)
        states = self.encoder.through(embedding(source), mask=mask)
        every = (cast(Attention, block.cross).keys_values(states) for block in self.decoder.blocks)
        return Sources(tuple(every), lengths)

    def decode(self, target: Tensor, heard: Sources, begun: Caches | None = None) -> Tensor:
        """target Int[B, M] → logits [B, M, V]; with caches, its tokens follow those they hold.

        Claim: test_encoder_decoder.py::test_one_pass_equals_stepwise_passes
        Claim: test_encoder_decoder.py::test_cached_decoding_equals_uncached
        """
        h = self.decoder.through(
            self.embedding(target),
            None if begun is None else begun.blocks,
            heard=heard.states,
            heard_mask=heard.mask,
        )
        return self.embedding.logits(h)

    def begin(self, heard: Sources) -> Caches:
        """Empty caches for one batch of targets."""
        return Caches([GrowingCache() for _ in self.decoder.blocks])
