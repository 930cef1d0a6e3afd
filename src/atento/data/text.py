"""Texts: read from what a source names; split in order."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atento.data.sources import absolute, parts, stream
from atento.data.survey import Survey, Surveyor
from atento.errors import UserError

__all__ = ["Text", "Tokens", "absolute", "no_text", "read", "split"]

# int64 in memory; uint16 or uint32 where a file of tokens is mapped. Windows are always int64.
Tokens = NDArray[np.integer[Any]]

LARGEST_VALIDATION = 1_000_000  # tokens


@dataclass(frozen=True)
class Text:
    """A text and where it came from."""

    content: str
    source: str  # as a recipe can name it from any folder: sets' names, absolute paths, or -
    sha256: str
    survey: Survey = field(default_factory=Survey, compare=False)


def read(source: str) -> Text:
    """The text that `data.source` names, whole; line ends become \\n, a byte order mark is dropped.

    For a text that may be larger than memory: `corpus.corpus`.
    """
    surveyor = Surveyor()
    content = "".join(stream(parts(source), surveyor))
    if not content.strip():
        raise no_text(source)
    return Text(
        content,
        absolute(source),
        hashlib.sha256(content.encode()).hexdigest(),
        surveyor.survey(),
    )


def no_text(source: str) -> UserError:
    """What is said of a source with nothing but blanks."""
    return UserError(f"data.source {source!r} holds no text. Name a file with text in it.")


def split(tokens: Tokens, context: int) -> tuple[Tokens, Tokens]:
    """(training, validation): the last tenth, at most a million tokens, is validation."""
    held_out = min(len(tokens) // 10, LARGEST_VALIDATION)
    training, validation = tokens[: len(tokens) - held_out], tokens[len(tokens) - held_out :]
    if len(training) <= context or len(validation) < 2:
        least = _least(context)
        raise UserError(
            f"data.source must have at least {least} tokens for a context of {context}, of which "
            f"nine tenths are trained on; got {len(tokens)}. Give a longer text, or a smaller "
            "--model.context."
        )
    return training, validation


def _least(context: int) -> int:
    """The smallest n with n − n // 10 > context and n // 10 ≥ 2."""
    least = max(20, context + 1)
    while least - least // 10 <= context:
        least += 1
    return least
