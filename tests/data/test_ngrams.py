"""Counting baselines agree with probabilities worked out one by one, and with the literature's."""

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from atento.data import ngrams
from atento.data.ngrams import baselines
from atento.data.text import Tokens, read, split
from atento.data.tokenizers import Characters
from atento.errors import UserError

HERE = Path(os.environ.get("ATENTO_DATA", Path(__file__).parents[3] / "shared" / "data"))
PLAYS = HERE / "text" / "tinyshakespeare.txt"


def slowly(training: list[int], validation: list[int], size: int) -> dict[str, float]:
    """The same with dictionaries, target by target, every probability summed to 1."""
    counts = [Counter(zip(*(training[i:] for i in range(n)), strict=False)) for n in (1, 2, 3)]

    def one(c: int) -> float:
        return (counts[0][(c,)] + 0.01) / (len(training) + 0.01 * size)

    def two(b: int, c: int) -> float:
        after = sum(counts[1][(b, x)] for x in range(size))
        return (counts[1][(b, c)] + 0.01) / (after + 0.01 * size)

    def three(a: int, b: int, c: int) -> float:
        after = sum(counts[2][(a, b, x)] for x in range(size))
        return (counts[2][(a, b, c)] + 30 * two(b, c)) / (after + 30)

    for a in range(size):
        for b in range(size):
            assert sum(three(a, b, c) for c in range(size)) == pytest.approx(1)
    v = validation
    last = [two(v[0], v[1]), *(three(*v[i - 2 : i + 1]) for i in range(2, len(v)))]
    return {
        "uniform": math.log(size),
        "unigram": -np.log([one(c) for c in v[1:]]).mean(),
        "bigram": -np.log([two(v[i - 1], v[i]) for i in range(1, len(v))]).mean(),
        "trigram": -np.log(last).mean(),
    }


def drawn(size: int, length: int, seed: int) -> Tokens:
    draw = np.random.default_rng(seed)
    return np.minimum(draw.geometric(0.3, length), size - 1)


@pytest.mark.parametrize("chunk", [2, 5, 1 << 22])
def test_the_losses_are_those_worked_out_one_by_one(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngrams, "CHUNK", chunk)
    training, validation = drawn(7, 211, 0), drawn(7, 53, 1)
    expected = slowly(training.tolist(), validation.tolist(), 7)
    assert baselines(training, validation, 7) == pytest.approx(expected, rel=1e-12)
    mapped = baselines(training.astype(np.uint16), validation.astype(np.uint16), 7)
    assert mapped == baselines(training, validation, 7)


def test_a_large_vocabulary_takes_no_more_memory() -> None:
    """A million words: a table of pairs would have 10¹² entries, of triples 10¹⁸."""
    training, validation = drawn(7, 5000, 0) * 166_000, drawn(7, 53, 1) * 166_000
    losses = baselines(training, validation, 1_000_000)
    assert losses["uniform"] == pytest.approx(math.log(1e6))
    assert losses["unigram"] < losses["uniform"]


def test_only_the_last_training_tokens_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    training, validation = drawn(7, 500, 0), drawn(7, 53, 1)
    expected = baselines(training[-101:], validation, 7)
    monkeypatch.setattr(ngrams, "COUNTED", 101)
    assert baselines(training, validation, 7) == expected


def test_too_little_is_refused() -> None:
    with pytest.raises(UserError, match="got 2 and 1"):
        baselines(np.arange(2), np.arange(1), 3)


@pytest.fixture(scope="module")
def plays() -> tuple[Tokens, Tokens, int]:
    if not PLAYS.is_file():
        pytest.skip("Tiny Shakespeare is not on this machine")
    content = read(str(PLAYS)).content
    tokenizer = Characters(content)
    return *split(tokenizer.encode(content), 16), len(tokenizer)


def test_tiny_shakespeare_has_the_bigram_it_is_known_by(plays: tuple[Tokens, Tokens, int]) -> None:
    losses = baselines(*plays)
    assert losses["bigram"] == pytest.approx(2.4875, abs=5e-5)
    assert losses["trigram"] == pytest.approx(2.0431, abs=5e-5)
    assert losses["trigram"] < losses["bigram"] < losses["unigram"] < losses["uniform"]


def test_the_trigram_constant_is_chosen_on_training_alone(
    plays: tuple[Tokens, Tokens, int],
) -> None:
    training, _, size = plays
    held = len(training) // 10
    reached = {
        backed: baselines(training[:-held], training[-held:], size, backed)["trigram"]
        for backed in (1.0, 3.0, 10.0, 30.0, 100.0)
    }
    assert min(reached, key=reached.__getitem__) == ngrams.BACKED
