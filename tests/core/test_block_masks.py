"""Block masks of several blocks: three-valued logic never claims full or empty wrongly."""

import random

import pytest
import torch

from atento.core.edges import Edges
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window, bigbird, longformer
from atento.core.positions import Positions
from atento.core.random_blocks import RandomBlocks
from atento.core.tables import Blocks, Documents, Padding, Where
from core_oracle import NAMES, Largest, Place, leaves, of_block_mask, places, says

B, H = 2, 3

# Sizes that are no multiple of a block of 128, and longer than one.
WIDE_Q, WIDE_K, WIDE_SPAN = 257, 389, 521


def wide_places() -> dict[str, Place]:
    """Beside the general ones: sorted keys, so that whole blocks are full or empty."""
    made = dict(places(B, WIDE_Q, WIDE_K, WIDE_SPAN))
    del made["shared"]
    q, k = list(range(131, 131 + WIDE_Q)), [*range(WIDE_K - 3), -1, -1, -1]
    made["sorted"] = Place(Positions(torch.tensor(q), torch.tensor(k)), [q] * B, [k] * B)
    k = [-1] * 150 + list(range(WIDE_K - 150))
    made["padded"] = Place(Positions(torch.tensor(q), torch.tensor(k)), [q] * B, [k] * B)
    return made


WIDE = wide_places()
WIDE_LEAVES = leaves(B, H, WIDE_Q, WIDE_K, WIDE_SPAN)


@pytest.mark.parametrize("where", WIDE)
@pytest.mark.parametrize("name", NAMES)
def test_block_masks_of_several_blocks_never_claim_full_or_empty_wrongly(name, where):
    leaf, place = WIDE_LEAVES[name], WIDE[where]
    call = (WIDE_Q, WIDE_K, B, H, place.at)
    draw = random.Random(11)
    for tree, mask in ((leaf, leaf.mask), (("~", leaf), ~leaf.mask)):
        dense = mask.dense(*call)
        assert torch.equal(of_block_mask(mask.block_mask(*call), B, H, WIDE_Q, WIDE_K), dense)
        for _ in range(53):
            b, h, r, c = (draw.randrange(n) for n in (B, H, WIDE_Q, WIDE_K))
            i, j = place.i[b][r], place.j[b][c]
            assert bool(dense[b, h, r, c]) == (j != -1 and says(tree, (b, h, r, c, i, j)))


def counts(mask, length: int, **kw) -> tuple[int, int]:
    """How many blocks are listed as partial, as full."""
    made = mask.block_mask(length, length, **kw)
    return int(made.kv_num_blocks.sum()), int(made.full_kv_num_blocks.sum())


@pytest.mark.parametrize(
    ("mask", "partial", "full"),
    [
        (Full(), 0, 64),
        (Causal(), 8, 28),
        (Window(127), 15, 0),
        (Window(255), 8 + 6, 7),
        (Window(128, 128), 2 * 7, 8),
        (Prefix(256), 0, 16),
        (Prefix(200), 8, 8),
        (Padding(torch.tensor([200])), 8, 8),
        (Padding(torch.arange(1024) < 384), 0, 24),
        (Documents(torch.arange(1024) // 256), 0, 16),
        (Documents(torch.arange(1024) // 256) & Causal(), 8, 4),
        (Blocks(torch.eye(4, dtype=torch.bool), 256), 0, 16),
        (Global([3]), 15, 0),
        (Global(torch.arange(1024) < 128), 0, 15),
        (RandomBlocks(1, 128, seed=3), 0, 8),
        (Edges(torch.tensor([[5, 1000], [1000, 5]]), (1024, 1024)), 2, 0),
        (~Causal(), 8, 28),
        (~Prefix(256), 0, 48),
    ],
    ids=str,
)
def test_block_masks_rule_out_what_they_can(mask, partial, full):
    # A block may be called partial when it is empty or full; calling all of them so is no use.
    assert counts(mask, 1024) == (partial, full)


@pytest.mark.parametrize(
    "mask",
    [
        Causal(),
        Window(255) & Padding(torch.tensor([4000])),
        longformer(127, [0, 7]),
        bigbird(127, [0], random=2, size=64, seed=3),
        Documents(torch.arange(4096) // 512) & Causal(),
        ~Documents(torch.arange(4096) // 512),
        Dilated(3),
        Blocks(torch.eye(8, dtype=torch.bool), 512),
        Causal() | Prefix(torch.tensor([100])),
    ],
    ids=str,
)
def test_block_masks_look_at_no_square_of_pairs(mask):
    with Largest() as seen:
        mask.block_mask(4096, 4096)
    assert seen.numel <= 4096 * 64


def test_a_block_mask_follows_a_table_that_a_function_holds():
    # FlexAttention's contract lets fn close over a tensor; training changes it in place.
    allowed = torch.zeros(300, dtype=torch.bool)
    mask = Where(lambda b, h, i, j: allowed[j])
    assert not of_block_mask(mask.block_mask(300, 300), 1, 1, 300, 300).any()
    allowed.fill_(True)
    assert of_block_mask(mask.block_mask(300, 300), 1, 1, 300, 300).all()


def test_a_block_mask_of_a_function_sees_every_head_and_sequence():
    mask = Where(lambda b, h, i, j: (j // 128 == h) & (i // 128 == b))
    made = of_block_mask(mask.block_mask(257, 389, 2, 3), 2, 3, 257, 389)
    assert torch.equal(made, mask.dense(257, 389, 2, 3))
    assert made.any(-1).any(-1).all()


@pytest.mark.parametrize(
    "name",
    [
        "Documents",
        "Documents across",
        "Documents none",
        "Padding keep",
        "Blocks",
        "Global",
        "Global shared",
    ],
)
def test_block_masks_know_where_a_table_ends(name):
    # The table ends inside the second block of keys and queries.
    g = torch.Generator().manual_seed(5)
    full = {
        "Documents": Documents(torch.randint(0, 2, (2, 200), generator=g)),
        "Documents across": Documents(torch.zeros(200).long(), torch.zeros(300).long()),
        "Documents none": Documents(torch.full((200,), -1)),
        "Padding keep": Padding(torch.ones(200, dtype=torch.bool)),
        "Blocks": Blocks(torch.ones(2, 3, dtype=torch.bool), 100),
        "Global": Global(torch.ones(2, 200, dtype=torch.bool)),
        "Global shared": Global(torch.ones(200, dtype=torch.bool)),
    }[name]
    for mask in (full, ~full, full & Causal(), ~full | Window(3)):
        for at in (None, 77, Positions(torch.arange(257) - 1, torch.arange(389).flip(0))):
            call = (257, 389, 2, 1, at)
            assert torch.equal(
                of_block_mask(mask.block_mask(*call), 2, 1, 257, 389), mask.dense(*call)
            )
