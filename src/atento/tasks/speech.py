"""Tokens to text as they come: whole characters only, and never part of a stop string."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from atento.data.tokenizers import Tokenizer
from atento.errors import UserError

__all__ = ["WARMTH", "Speech", "beginning", "spoken"]

WARMTH = 0.8  # the temperature of samples: a little more careful than as learned
SIGHT = 6  # tokens of the prompt that are decoded with the first new one: it may depend on them
BROKEN = "\ufffd"  # what decoders give for a character whose last bytes are still to come


def beginning(tokenizer: Tokenizer) -> int:
    """The token that a text without a prompt follows: a line's end, a space, or the first."""
    for start in ("\n", " "):
        with contextlib.suppress(UserError):
            return int(tokenizer.encode(start)[0])
    return 1


class Speech:
    """What one sample says, piece by piece, until it says a stop string, which is left out.

    Claim: test_speech.py::test_a_stop_string_is_never_half_printed
    """

    def __init__(
        self, decode: Callable[[list[int]], str], prompt: list[int], stop: str | Sequence[str] = ()
    ) -> None:
        self.stop = (stop,) if isinstance(stop, str) else tuple(stop)
        if not all(self.stop):
            raise UserError("stop must be text to stop at; got ''. Leave it out to go on.")
        self.ended = False
        self._decode = decode
        self._tokens = prompt[-SIGHT:]
        self._shown = len(self._tokens)  # tokens whose text was handed on
        self._held = ""  # text that may be the beginning of a stop string

    def hear(self, token: int | None) -> str:
        """What can be shown now that this token is said; None: it says nothing more."""
        if self.ended:
            return ""
        if token is None:
            return self.end()
        self._tokens.append(token)
        text = self._new_text()
        if text.endswith(BROKEN):
            return ""
        self._tokens, self._shown = self._tokens[-SIGHT:], min(len(self._tokens), SIGHT)
        return self._checked(text)

    def end(self) -> str:
        """What was held back, now that no more comes."""
        if self.ended:
            return ""
        shown = self._checked(self._new_text())
        held = "" if self.ended else self._held
        self.ended = True
        return shown + held

    def _new_text(self) -> str:
        before = self._decode(self._tokens[: self._shown])
        return self._decode(self._tokens)[len(before) :]

    def _checked(self, text: str) -> str:
        """The text, with what was held back before it, as far as no stop string can be in it."""
        text = self._held + text
        # The first to be complete, so that nothing depends on how the text is cut into tokens.
        found = [(text.find(s) + len(s), text.find(s)) for s in self.stop if s in text]
        if found:
            self.ended = True
            return text[: min(found)[1]]
        keep = max(
            (n for s in self.stop for n in range(1, len(s)) if text.endswith(s[:n])), default=0
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def spoken(said: Iterator[list[int | None]], speeches: list[Speech]) -> Iterator[list[str]]:
    """At each step what each speech has to show, until all have ended."""
    for tokens in said:
        yield [speech.hear(token) for speech, token in zip(speeches, tokens, strict=True)]
        if all(speech.ended for speech in speeches):
            return
    yield [speech.end() for speech in speeches]
