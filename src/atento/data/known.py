"""Characters that a training knew, and the one token that stands for all others.

A tokenizer of characters has no number for a character that it never saw; one of pieces spells it
in bytes that no training ever touched. Either way a model of pairs is told of one placeholder,
which it learns to pass on, and what it stood for is put back in its place.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from atento.data.text import Tokens
from atento.data.tokenizers import Tokenizer

__all__ = ["STRANGE", "Known"]

STRANGE = "\ue000"  # of Unicode's private use: no text says it, so no training knows it


class Known:
    """A tokenizer of one side of pairs, and the characters of that side that a training saw.

    Number 0, which no text is encoded to, ends a text; the placeholder is the number after the
    tokenizer's last.
    """

    def __init__(self, tokenizer: Tokenizer, characters: Iterable[str]) -> None:
        self.tokenizer = tokenizer
        self.characters = "".join(sorted(set(characters)))
        self.placeholder = len(tokenizer)

    end = 0

    def __len__(self) -> int:
        """Every number that a model of pairs must know: the tokenizer's and the placeholder."""
        return len(self.tokenizer) + 1

    def encode(self, text: str) -> tuple[Tokens, list[str]]:
        """The numbers of a text, and what each of its placeholders stands for.

        A run of characters that were never seen is one placeholder.
        Claim: test_known.py::test_what_was_never_seen_is_one_placeholder_and_comes_back
        """
        runs = self._strange.findall(text)
        if not runs:
            return self.tokenizer.encode(text), []
        parts: list[Tokens] = []
        for number, piece in enumerate(self._strange.split(text)):
            if number:
                parts.append(np.array([self.placeholder], dtype=np.int64))
            if piece:
                parts.append(self.tokenizer.encode(piece))
        return np.concatenate(parts), runs

    def decode(self, numbers: Sequence[int], put_back: Sequence[str] = ()) -> str:
        """The text of numbers, each placeholder replaced by what is next of `put_back`."""
        pieces: list[str] = []
        held: list[int] = []
        following = iter(put_back)
        for number in numbers:
            if number == self.placeholder:
                pieces += [self.tokenizer.decode(held), next(following, "")]
                held = []
            else:
                held.append(number)
        return "".join([*pieces, self.tokenizer.decode(held)])

    @cached_property
    def _strange(self) -> re.Pattern[str]:
        return re.compile(f"[^{re.escape(self.characters)}]+" if self.characters else r"[\s\S]+")
