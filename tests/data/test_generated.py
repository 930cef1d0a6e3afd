"""Sequences to copy and to reverse."""

from collections import Counter

import pytest

from atento.data.generated import SIZES, symbols, symbols_of_length


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_no_sequence_comes_twice(task: str) -> None:
    made = symbols(task)
    assert {split: len(pairs) for split, pairs in made.items()} == SIZES
    sources = [source for pairs in made.values() for source, _ in pairs]
    assert len(set(sources)) == len(sources)
    for source, target in made["training"]:
        assert target == {"copy": source, "reverse": "".join(reversed(source))}[task]
        assert 1 <= len(source) <= 20


def test_lengths_are_even_but_for_the_shortest_of_which_there_are_few() -> None:
    counts = Counter(len(source) for source, _ in symbols("copy")["training"])
    assert counts[1] <= 26
    expected = sum(SIZES[split] for split in ("training",)) / 20
    for length in range(3, 21):
        assert counts[length] == pytest.approx(expected, rel=0.25)


def test_longer_ones_have_the_length_that_was_asked_for() -> None:
    made = symbols_of_length("reverse", 60, 17)
    assert len(made) == 17 == len({source for source, _ in made})
    assert all(len(source) == 60 and target == source[::-1] for source, target in made)
    assert made == symbols_of_length("reverse", 60, 17)
    assert made != symbols_of_length("reverse", 60, 17, seed=2)


def test_a_seed_gives_the_same_set_and_another_another() -> None:
    once, again, other = symbols("copy"), symbols("reverse"), symbols("copy", 2)
    for split, pairs in once.items():
        assert [source for source, _ in pairs] == [source for source, _ in again[split]]
    assert once["test"] != other["test"]
