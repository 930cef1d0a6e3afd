"""Batches by tokens: every pair once, room enough, little padding, the same for the same seed."""

import itertools

import numpy as np
import pytest

from atento.data.buckets import buckets, padded
from atento.errors import UserError

PAIRS, ROOM = 1009, 257
LENGTHS = np.random.default_rng(3).integers(1, 41, size=(PAIRS, 2))


def test_each_pair_is_in_one_batch_once() -> None:
    for epoch in (0, 1):
        found = np.concatenate(buckets(LENGTHS, ROOM, 7, epoch))
        assert sorted(found) == list(range(PAIRS))


def test_a_batch_with_its_padding_fits_and_no_pair_more_would() -> None:
    sizes = sorted((LENGTHS[batch].max(), len(batch)) for batch in buckets(LENGTHS, ROOM, 7, 0))
    for longest, count in sizes:
        assert longest * count <= ROOM
    for (longest, count), (after, _) in itertools.pairwise(sizes):
        assert (count + 1) * after > ROOM or after == longest


def test_little_is_padding() -> None:
    made = buckets(LENGTHS, ROOM, 7, 0)
    room = sum(2 * LENGTHS[batch].max() * len(batch) for batch in made)
    shuffled = np.random.default_rng(1).permutation(PAIRS).reshape(-1)
    blind = sum(2 * LENGTHS[part].max() * len(part) for part in np.array_split(shuffled, len(made)))
    longer = 2 * LENGTHS.max(1).sum()
    assert room < 1.05 * longer < 0.8 * blind


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        buckets(LENGTHS, ROOM, seed + 1, epoch + 1)  # what was asked for before is of no effect
        return [batch.tolist() for batch in buckets(LENGTHS, ROOM, seed, epoch)]

    assert order(7, 3) == order(7, 3)
    assert order(7, 3) != order(7, 4)
    assert order(7, 3) != order(8, 3)
    assert order(7, 3) != sorted(order(7, 3), key=lambda batch: LENGTHS[batch].max())


def test_pairs_of_one_length_are_mixed_anew_in_each_epoch() -> None:
    alike = np.full((12, 2), 5)
    made = [{frozenset(batch.tolist()) for batch in buckets(alike, 20, 7, e)} for e in (0, 1)]
    assert made[0] != made[1]


def test_a_pair_that_fits_no_batch_is_named() -> None:
    lengths = np.array([[3, 4], [5, 99], [1, 1]])
    with pytest.raises(UserError, match="pair 2 has 99 tokens, a batch 50"):
        buckets(lengths, 50, 0, 0)


def test_no_pairs_are_no_batches() -> None:
    assert buckets(np.zeros((0, 2), dtype=np.int64), 50, 0, 0) == []


def test_padded_rows_by_hand() -> None:
    sources = [np.array([5, 6]), np.array([], dtype=np.int64)]
    targets = [np.array([7]), np.array([8, 9, 4])]
    made = padded(sources, targets, pad=0, end=2)
    assert made.source.tolist() == [[5, 6, 2], [2, 0, 0]]
    assert made.lengths.tolist() == [3, 1]
    assert made.told.tolist() == [[2, 7, 0, 0], [2, 8, 9, 4]]
    assert made.asked.tolist() == [[7, 2, 0, 0], [8, 9, 4, 2]]
    assert made.real.tolist() == [[True, True, False, False], [True] * 4]
