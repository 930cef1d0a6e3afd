"""The recurrent encoder-decoder: lecture 000's chain from one vector to attention."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from atento.core.compose import Mask
from atento.core.tables import Padding
from atento.layers.attention import KeysValues
from atento.layers.dropout import Dropout
from atento.layers.embedding import TokenEmbedding
from atento.layers.lookback import Bahdanau, FixedContext, Luong, Reached, Source
from atento.layers.recurrent import Recurrent, State

__all__ = ["Progress", "RecurrentEncoderDecoder", "Sentences"]


@dataclass(frozen=True)
class Sentences:
    """A batch of sources: where their encoder ended, and the states on the way."""

    state: State  # each [layers, B, C]
    heard: KeysValues | None
    lengths: Tensor | None  # Int[B]

    @property
    def source(self) -> Source:
        mask: Mask | None = None if self.lengths is None else Padding(self.lengths)
        return Source(self.state[0][-1], self.heard, mask)

    def select(self, rows: Tensor) -> "Sentences":
        """These sources, Int[B'], in this order."""
        heard = self.heard
        if heard is not None:
            heard = KeysValues(heard.k[rows], heard.v[rows])
        lengths = None if self.lengths is None else self.lengths[rows]
        return Sentences(tuple(part[:, rows] for part in self.state), heard, lengths)


@dataclass
class Progress:
    """Where a batch of targets is."""

    reached: Reached

    def select(self, rows: Tensor) -> None:
        """Goes on with these targets, Int[B'], in this order."""
        state, told = self.reached
        state = tuple(part[:, rows] for part in state)
        self.reached = Reached(state, None if told is None else told[rows])


class RecurrentEncoderDecoder(nn.Module):
    """logits = drop(decoder(E[target]; h_1 … h_N)) Eᵀ with h = encoder(E'[source]).

    The decoder says what it knows of the source: its last state alone (`FixedContext`), or all of
    them, looked up at every token (`Bahdanau`, `Luong`). It starts where the encoder ended, layer
    by layer; an encoder that reads both ways has half the width in each direction, so that
    together they are as wide as the decoder.
    Claim: test_recurrent_models.py::test_every_model_equals_its_equations
    """

    limit: int | None = None  # of the target: a recurrence has none

    def __init__(
        self,
        embedding: TokenEmbedding,
        encoder: Recurrent,
        decoder: FixedContext | Luong | Bahdanau,
        *,
        context: int,
        source_embedding: TokenEmbedding | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.source_embedding = source_embedding
        self.encoder, self.decoder = encoder, decoder
        self.context = context
        self.dropout = Dropout(dropout)
        self.aligned: str | None = None if decoder.lookback is None else "decoder.lookback"

    def forward(self, source: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source Int[B, N], target Int[B, M] → logits [B, M, V] of the token after each.

        `lengths` Int[B] are the sources' own; what stands beyond them is heard by nobody.
        Claim: test_recurrent_models.py::test_padding_changes_nothing
        """
        return self.decode(target, self.encode(source, lengths))

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Sentences:
        """source Int[B, N] → what the decoder hears of it, in every step the same."""
        embedding = self.embedding if self.source_embedding is None else self.source_embedding
        states, ends = self.encoder(self.dropout(embedding(source)), lengths)
        step = self.encoder.directions
        ends = tuple(torch.cat([e[n::step] for n in range(step)], -1) for e in ends)
        lookback = self.decoder.lookback
        heard = None if lookback is None else lookback.keys_values(self.dropout(states))
        return Sentences(ends, heard, lengths)

    def decode(self, target: Tensor, heard: Sentences, begun: Progress | None = None) -> Tensor:
        """target Int[B, M] → logits [B, M, V]; its tokens follow those that `begun` has read.

        Claim: test_recurrent_models.py::test_one_pass_equals_stepwise_passes
        """
        progress = self.begin(heard) if begun is None else begun
        y = self.dropout(self.embedding(target))
        said, progress.reached = self.decoder(y, heard.source, progress.reached)
        return self.embedding.logits(self.dropout(said))

    def begin(self, heard: Sentences) -> Progress:
        """A batch of targets of which nothing is said yet."""
        return Progress(Reached(heard.state, None))
