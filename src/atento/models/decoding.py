"""Translations while they grow: what is known of each, kept or read anew at every token."""

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Begun", "Decoding", "Heard", "Translator"]


class Heard(Protocol):
    """A batch of sources as a decoder hears them."""

    def select(self, rows: Tensor) -> "Heard":
        """These sources, Int[B'], in this order; one may be there several times."""
        ...


class Begun(Protocol):
    """What a decoder keeps of the tokens it has read, and changes as it reads on."""

    def select(self, rows: Tensor) -> None: ...


class Translator(Protocol):
    """What decoding asks of a model that turns one text into another."""

    aligned: str | None  # the module whose weights say what is looked at; None: nothing is
    limit: int | None  # how many tokens there can be; None where there is no limit

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Heard: ...

    def decode(self, target: Tensor, heard: Heard, begun: Begun | None = None) -> Tensor: ...

    def begin(self, heard: Heard) -> Begun: ...


class Decoding:
    """The logits of each row's next token; rows can be dropped, repeated and put in order.

    With `cached=False` every token is read anew at every step, from the source's states on.
    """

    def __init__(
        self, model: Translator, source: Tensor, lengths: Tensor | None, *, cached: bool = True
    ) -> None:
        self.model = model
        self.heard = model.encode(source, lengths)
        self._begun = model.begin(self.heard) if cached else None
        self._said = source[:, :0]

    def logits(self, tokens: Tensor) -> Tensor:  # [R, V]
        """What follows when each row has gone on with one of tokens Int[R]."""
        new = tokens[:, None]
        if self._begun is not None:
            return self.model.decode(new, self.heard, self._begun)[:, -1]
        self._said = torch.cat([self._said, new], 1)
        return self.model.decode(self._said, self.heard)[:, -1]

    def select(self, rows: Tensor) -> None:
        """Goes on with these rows, Int[R'], in this order."""
        self.heard = self.heard.select(rows)
        self._said = self._said[rows]
        if self._begun is not None:
            self._begun.select(rows)
