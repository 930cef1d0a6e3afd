"""Questions to a model: what it is shown of a text, and which tokens it is to foretell from that.

Training draws them, from (seed, step) alone; judging asks for every token once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from atento.data.batches import random_windows, whole_windows
from atento.data.text import Tokens

__all__ = ["HIDDEN", "Hidden", "NextToken", "Objective", "Questions"]

HIDDEN = 0  # <PAD>, which no text is encoded to: so it hides a token, and the vocabulary stays
APART = (0, 0, 0, 1)  # where on Philox's counter the hidden places begin; windows begin at 0


class Questions(NamedTuple):
    """A batch of them."""

    shown: Tokens  # [B, N]
    targets: Tokens  # [B, M]
    places: Tokens | None = None  # [B, M], where the targets belong; None: one after each token


class Objective(Protocol):
    """How questions are made from a text."""

    def drawn(self, tokens: Tokens, context: int, batch: int, seed: int, step: int) -> Questions:
        """Those of one step of training."""
        ...

    def whole(self, tokens: Tokens, context: int, batch: int) -> Iterator[Questions]:
        """Every token as a target once, in windows without overlap, at most `batch` together."""
        ...

    def judged(self, length: int) -> int:
        """How many targets `whole` has for so many tokens."""
        ...


@dataclass(frozen=True)
class NextToken:
    """After each token of a window, the next: targets are what is shown, shifted by one.

    Claim: test_questions.py::test_the_targets_are_what_is_shown_shifted_by_one
    """

    def drawn(self, tokens: Tokens, context: int, batch: int, seed: int, step: int) -> Questions:
        return _shifted(random_windows(tokens, context, batch, seed, step))

    def whole(self, tokens: Tokens, context: int, batch: int) -> Iterator[Questions]:
        """The first token, before which nothing stands, is no target."""
        return map(_shifted, whole_windows(tokens, context, batch))

    def judged(self, length: int) -> int:
        return length - 1


@dataclass(frozen=True)
class Hidden:
    """Tokens of a window hidden, and foretold from those on both sides of them.

    In training each window of N has max(1, round(share · N)) of them, at places drawn without
    return. All are shown as `<PAD>`. BERT shows a tenth of them as they are and a tenth as other
    tokens, to prepare for fine-tuning on texts in which nothing is hidden; here the model is asked,
    judged and trained in one and the same way.

    `whole` splits each window's places, shuffled by a seed that never changes, into as many parts
    as makes them the nearest to training's size, and asks for one part at a time: each token is
    hidden once, among as many others as in training.
    Ref: Devlin et al. 2019, arXiv:1810.04805, section 3.1.
    Claim: test_questions.py::test_the_hidden_share_is_exact_in_every_window
    Claim: test_questions.py::test_each_token_is_hidden_once_among_as_many_as_in_training
    """

    share: float

    def drawn(self, tokens: Tokens, context: int, batch: int, seed: int, step: int) -> Questions:
        windows = random_windows(tokens, context - 1, batch, seed, step)
        draw = np.random.Generator(np.random.Philox(key=[seed, step], counter=APART))
        order = draw.random(windows.shape).argsort(1)
        return _hidden(windows, np.sort(order[:, : self.count(context)]))

    def whole(self, tokens: Tokens, context: int, batch: int) -> Iterator[Questions]:
        draw = np.random.Generator(np.random.Philox(key=[0, 0], counter=APART))
        for windows in _apart(tokens, context, batch):
            # Drawn one after another, so that it does not matter how many are asked together.
            order = draw.random(windows.shape).argsort(1)
            parts = round(windows.shape[1] / self.count(windows.shape[1]))
            for part in range(parts):
                yield _hidden(windows, np.sort(order[:, part::parts]))

    def count(self, length: int) -> int:
        """How many of a window's tokens are hidden."""
        return max(1, round(self.share * length))

    def judged(self, length: int) -> int:
        return length


def _shifted(windows: Tokens) -> Questions:
    return Questions(windows[:, :-1], windows[:, 1:])


def _hidden(windows: Tokens, places: Tokens) -> Questions:
    shown = windows.copy()
    np.put_along_axis(shown, places, HIDDEN, 1)
    return Questions(shown, np.take_along_axis(windows, places, 1), places)


def _apart(tokens: Tokens, context: int, batch: int) -> Iterator[Tokens]:  # each [B, N]
    """All tokens in windows that share none, then the shorter rest."""
    whole = len(tokens) // context
    for first in range(0, whole, batch):
        end = min(first + batch, whole)
        yield tokens[first * context : end * context].reshape(-1, context).astype(np.int64)
    if len(tokens) % context:
        yield tokens[None, whole * context :].astype(np.int64)
