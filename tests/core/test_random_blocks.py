"""RandomBlocks: distinct draws that never change, the same for all heads, evenly spread."""

import pytest
import torch

from atento.core.random_blocks import RandomBlocks


@pytest.mark.parametrize("among", [None, 11])
@pytest.mark.parametrize(("count", "size"), [(1, 3), (3, 5), (7, 2), (20, 3)])
def test_random_blocks_draws_distinct_blocks_up_to_its_own_or_among_the_first(count, size, among):
    rows = 19
    table = RandomBlocks(count, size, seed=13, blocks=among).dense(rows * size, rows * size)[0, 0]
    tiles = table.unflatten(0, (rows, size)).unflatten(2, (rows, size))  # [row, ., column, .]
    assert torch.equal(tiles.any(1).any(-1), tiles.all(1).all(-1)), "blocks are whole"
    drawn = tiles[:, 0, :, 0]
    for row in range(rows):
        reach = row + 1 if among is None else among
        assert drawn[row, reach:].sum() == 0
        assert drawn[row].sum() == min(count, reach)


@pytest.mark.parametrize("among", [None, 11])
def test_random_blocks_never_change_as_the_sequence_grows(among):
    mask = RandomBlocks(3, 5, seed=2, blocks=among)
    long = mask.dense(199, 211)
    for rows, cols in ((1, 1), (23, 29), (97, 101)):
        assert torch.equal(mask.dense(rows, cols), long[:, :, :rows, :cols])
    assert torch.equal(mask.dense(1, 211, at=150), long[:, :, 150:151])


def test_random_blocks_are_the_same_for_all_heads_and_sequences():
    dense = RandomBlocks(2, 3, seed=1).dense(53, 53, 2, 3)
    assert torch.equal(dense, dense[:1, :1].expand_as(dense))


def test_random_blocks_differ_by_seed_and_by_block_and_spread_evenly():
    drawn = torch.stack(
        [
            RandomBlocks(1, 1, seed=s, blocks=7).dense(211, 7)[0, 0].long().argmax(-1)
            for s in range(23)
        ]
    )
    assert len({tuple(row.tolist()) for row in drawn}) == 23
    counts = torch.bincount(drawn.flatten(), minlength=7).double()
    expected = drawn.numel() / 7
    # χ² with 6 degrees of freedom exceeds 30 with a probability of 4e-5.
    assert ((counts - expected).square() / expected).sum() < 30


@pytest.mark.parametrize("among", [None, 4])
def test_random_blocks_of_several_draws_choose_every_set_equally_often(among):
    # Floyd's sampling: of the sets of 2 among 4, each of the 6 comes up as often.
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(300):
        row = RandomBlocks(2, 1, seed=seed, blocks=among).dense(1, 4, at=3)[0, 0, 0]
        chosen = tuple(row.nonzero()[:, 0].tolist())
        seen[chosen] = seen.get(chosen, 0) + 1
    assert len(seen) == 6
    assert sum((n - 50) ** 2 / 50 for n in seen.values()) < 30
