"""Pairs that are made rather than found: sequences to copy and to reverse."""

import string
from collections.abc import Callable

import numpy as np

__all__ = ["TASKS", "symbols", "symbols_of_length"]

Pair = tuple[str, str]
LONGEST = 20  # symbols of a source in training, validation and test
SIZES = {"training": 20_000, "validation": 1_000, "test": 1_000}
TASKS: dict[str, Callable[[str], str]] = {"copy": str, "reverse": lambda text: text[::-1]}


def symbols(task: str, seed: int = 1) -> dict[str, list[Pair]]:
    """training, validation and test of `copy` or `reverse`: 1 to 20 letters of the alphabet.

    Lengths are drawn evenly; no sequence comes twice, so the shortest are rarer, as there are few.
    Claim: test_generated.py::test_no_sequence_comes_twice
    """
    draw = np.random.Generator(np.random.Philox(key=[seed, 1]))
    known: set[str] = set()
    made = {}
    for split, count in SIZES.items():
        texts: list[str] = []
        while len(texts) < count:
            text = _drawn(int(draw.integers(1, LONGEST + 1)), draw)
            if text not in known:
                known.add(text)
                texts.append(text)
        made[split] = [(text, TASKS[task](text)) for text in texts]
    return made


def symbols_of_length(task: str, length: int, count: int, seed: int = 1) -> list[Pair]:
    """Pairs whose sources all have one length, such as a multiple of the longest in training."""
    draw = np.random.Generator(np.random.Philox(key=[seed, 1 + length]))
    texts = [_drawn(length, draw) for _ in range(count)]
    return [(text, TASKS[task](text)) for text in texts]


def _drawn(length: int, draw: np.random.Generator) -> str:
    return "".join(string.ascii_lowercase[n] for n in draw.integers(0, 26, length))
