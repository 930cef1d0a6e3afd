"""What counting alone reaches: uniform, unigram, bigram and trigram losses of a split.

Counts are of the training split; the losses are nats for each token of the validation split but
its first, which are the targets that a model is judged by. Only what occurs is stored, so a large
vocabulary takes no more memory than a small one.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atento.data.text import Tokens
from atento.errors import UserError

__all__ = ["ADDED", "BACKED", "COUNTED", "SMOOTHING", "baselines"]

# Constants for every text. Tiny Shakespeare's bigram as it is known, 2.4875, adds 0.01 (chosen by
# the last tenth of its training split it would be 0.5, and 2.4820: 2026-11-19). The
# trigram's 30 is the best of 1, 3, 10, 30, 100 when the last tenth of its training split is
# predicted from the rest: test_ngrams.py::test_the_trigram_constant_is_chosen_on_training_alone.
ADDED = 0.01
BACKED = 30.0
COUNTED = 1 << 25  # training tokens that are counted: the last ones, next to the validation split
CHUNK = 1 << 22  # tokens sorted at a time
SMOOTHING = (
    f"training counts; unigram and bigram add {ADDED:g} to each; trigram (n(abc) + {BACKED:g}"
    f"·p(c|b)) / (n(ab) + {BACKED:g})"
)

Numbers = NDArray[np.int64]
Odds = NDArray[np.float64]


@dataclass(frozen=True)
class _Counts:
    """How often each key occurs, for the keys that do, in their order."""

    keys: Numbers
    counts: Numbers

    def of(self, keys: Numbers) -> Odds:
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0).astype(np.float64)


def baselines(
    training: Tokens, validation: Tokens, vocabulary: int, backed: float = BACKED
) -> dict[str, float]:
    """`uniform`, `unigram`, `bigram`, `trigram` → nats for each token; `SMOOTHING` says how.

    p(b|a) = (n(ab) + 0.01) / (n(a·) + 0.01 V), and p(c|ab) = (n(abc) + 30 p(c|b)) / (n(ab·) + 30).
    The second token of the validation split has one token before it: there the trigram is the
    bigram.

    Claim: test_ngrams.py::test_tiny_shakespeare_has_the_bigram_it_is_known_by
    """
    if len(training) < 3 or len(validation) < 2:
        raise UserError(
            "n-gram baselines need 3 training and 2 validation tokens; got "
            f"{len(training)} and {len(validation)}. Give a longer text."
        )
    training = training[-COUNTED:]
    one, two, three = (_counted(training, length, vocabulary) for length in (1, 2, 3))
    seen = validation.astype(np.int64)
    before, target = seen[:-1], seen[1:]
    unigram = (one.of(target) + ADDED) / (len(training) + ADDED * vocabulary)
    starts = _starting(two, vocabulary)
    bigram = (two.of(before * vocabulary + target) + ADDED) / (
        starts.of(before) + ADDED * vocabulary
    )
    pairs = before[:-1] * vocabulary + before[1:]
    trigram = bigram.copy()
    trigram[1:] = (three.of(pairs * vocabulary + target[1:]) + backed * bigram[1:]) / (
        _starting(three, vocabulary).of(pairs) + backed
    )
    losses = {"unigram": unigram, "bigram": bigram, "trigram": trigram}
    return {"uniform": math.log(vocabulary)} | {
        name: float(-np.log(odds).mean()) for name, odds in losses.items()
    }


def _counted(tokens: Tokens, length: int, vocabulary: int) -> _Counts:
    """How often each run of `length` tokens occurs; a run is one number in base `vocabulary`."""
    found = _Counts(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for first in range(0, len(tokens) - length + 1, CHUNK):
        part = tokens[first : first + CHUNK + length - 1].astype(np.int64)
        keys = part[: len(part) - length + 1]
        for further in range(1, length):
            keys = keys * vocabulary + part[further : len(part) - length + 1 + further]
        here = _Counts(*np.unique(keys, return_counts=True))
        found = _joined(found, here) if first else here
    return found


def _joined(left: _Counts, right: _Counts) -> _Counts:
    keys, place = np.unique(np.concatenate([left.keys, right.keys]), return_inverse=True)
    counts = np.zeros(len(keys), dtype=np.int64)
    counts[place[: len(left.keys)]] = left.counts
    counts[place[len(left.keys) :]] += right.counts
    return _Counts(keys, counts)


def _starting(counts: _Counts, vocabulary: int) -> _Counts:
    """How often each run but its last token is followed by any."""
    keys = counts.keys // vocabulary
    edges = np.flatnonzero(np.diff(keys, prepend=-1))
    return _Counts(keys[edges], np.add.reduceat(counts.counts, edges))
