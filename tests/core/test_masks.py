"""Every mask of the table against a rule in plain Python, by each of its lowerings."""

import random

import pytest
import torch

from atento.core.compose import canonical
from atento.core.edges import Edges
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window, bigbird, longformer
from atento.core.positions import Positions
from atento.core.random_blocks import RandomBlocks
from atento.core.tables import Blocks, Dense, Documents, Padding
from core_oracle import (
    NAMES,
    Leaf,
    blocks,
    documents,
    global_table,
    keep,
    leaves,
    of_block_mask,
    of_edges,
    of_predicate,
    places,
    says,
    truth,
)

B, H, Q, K, SPAN = 2, 3, 5, 7, 17
PLACES = list(places(1, 5, 7, 17))
KEYS_ONLY = [Full(), Prefix(4), Padding(torch.tensor([3])), Window(None, None)]


@pytest.mark.parametrize("negated", [False, True], ids=["", "not"])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_dense_predicate_and_block_mask_say_what_the_rule_says(name, where, negated):
    leaf, place = leaves(B, H, Q, K, SPAN)[name], places(B, Q, K, SPAN)[where]
    tree, mask = (("~", leaf), ~leaf.mask) if negated else (leaf, leaf.mask)
    expected = truth(tree, B, H, Q, K, place)
    call = (Q, K, B, H, place.at)
    dense = mask.dense(*call)
    assert dense.shape == (B, H, Q, K)
    assert dense.dtype == torch.bool
    assert torch.equal(dense, expected)
    assert torch.equal(of_predicate(mask.predicate(*call), B, H, Q, K), expected)
    assert torch.equal(of_block_mask(mask.block_mask(*call), B, H, Q, K), expected)


@pytest.mark.parametrize("negated", [False, True], ids=["", "not"])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_edges_list_each_allowed_pair_once(name, where, negated):
    leaf, place = leaves(1, 1, Q, K, SPAN)[name], places(1, Q, K, SPAN)[where]
    tree, mask = (("~", leaf), ~leaf.mask) if negated else (leaf, leaf.mask)
    index = mask.edges(Q, K, at=place.at)
    assert index.dtype == torch.int64
    assert index.shape[0] == 2
    assert torch.equal(of_edges(index, Q, K), truth(tree, 1, 1, Q, K, place)[0, 0])


def test_edges_of_a_composition_agree_with_dense_in_strips(monkeypatch):
    mask = (Causal() & Padding(torch.tensor([6]))) | Edges(torch.tensor([[0, 6], [1, 4]]), (Q, K))
    expected = mask.dense(Q, K)[0, 0]
    assert torch.equal(of_edges(mask.edges(Q, K), Q, K), expected)


@pytest.mark.slow
def test_edges_of_many_queries_are_made_in_strips_and_all_are_there():
    rows, keys = 5003, 1009  # several strips of 2²² cells
    found = Window(1, 1).edges(rows, keys)
    assert found.shape[1] == 3 * keys - 1
    assert torch.equal(found[0] - found[1], (found[0] - found[1]).clamp(-1, 1))


@pytest.mark.parametrize(("batch", "heads"), [(2, 1), (1, 3)])
def test_edges_refuse_a_batch_or_heads(batch, heads):
    with pytest.raises(ValueError, match="B and H must be 1"):
        Causal().edges(Q, Q, batch, heads)


def test_edges_stay_on_the_device_asked_for():
    assert Causal().dense(Q, K, device="meta").device.type == "meta"
    assert Causal().edges(0, K, device="meta").device.type == "meta"


@pytest.mark.parametrize("name", NAMES)
def test_predicate_takes_scalars_as_flex_attention_passes_them(name):
    leaf, place = leaves(B, H, Q, K, SPAN)[name], places(B, Q, K, SPAN)["permuted"]
    fn = leaf.mask.predicate(Q, K, B, H, place.at)
    draw = random.Random(3)
    for _ in range(11):
        b, h, r, c = (draw.randrange(n) for n in (B, H, Q, K))
        i, j = place.i[b][r], place.j[b][c]
        expected = j != -1 and says(leaf, (b, h, r, c, i, j))
        answer = fn(*(torch.tensor(x) for x in (b, h, r, c)))
        assert answer.shape == ()
        assert bool(answer) == expected


# Tables that end before the positions do.

SHORT = {
    "Documents": documents(torch.tensor([[0, 0, 1], [1, 0, 0]])),
    "Documents across": documents(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1, 0])),
    "Documents none": documents(torch.tensor([[0, -1, 1], [-1, -1, -1]])),
    "Padding keep": keep(torch.tensor([[True, False, True], [True, True, False]])),
    "Blocks": blocks(torch.tensor([[True, False, True], [False, True, True]]), 2),
    "Global": global_table(torch.tensor([[True, False, False], [False, True, False]])),
    "Global shared": global_table(torch.tensor([True, False, False])),
}


@pytest.mark.parametrize("negated", [False, True], ids=["", "not"])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", SHORT)
def test_outside_a_table_nothing_is_attended_under_not_either(name, where, negated):
    leaf, place = SHORT[name], places(B, Q, K, SPAN)[where]
    tree, mask = (("~", leaf), ~leaf.mask) if negated else (leaf, leaf.mask)
    expected = truth(tree, B, H, Q, K, place)
    call = (Q, K, B, H, place.at)
    assert torch.equal(mask.dense(*call), expected)
    assert torch.equal(of_predicate(mask.predicate(*call), B, H, Q, K), expected)
    assert torch.equal(of_block_mask(mask.block_mask(*call), B, H, Q, K), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Documents(torch.zeros(0, dtype=torch.long)),
        lambda: Padding(torch.zeros(2, 0, dtype=torch.bool)),
        lambda: Global(torch.zeros(0, dtype=torch.bool)),
        lambda: Blocks(torch.zeros(0, 3, dtype=torch.bool), 2),
    ],
    ids=["Documents", "Padding", "Global", "Blocks"],
)
def test_an_empty_table_allows_nothing(make):
    assert not make().dense(Q, K, 2).any()
    assert not (~make()).dense(Q, K, 2).any()


def test_empty_slots_are_attended_by_nothing_under_any_mask():
    at = Positions(torch.arange(Q), torch.tensor([0, -1, 2, -1, 4, 5, -1]))
    empty = torch.tensor([1, 3, 6])
    for name, leaf in leaves(1, 1, Q, K, SPAN).items():
        for mask in (leaf.mask, ~leaf.mask, leaf.mask | Full(), ~(leaf.mask & ~Full())):
            assert not mask.dense(Q, K, at=at)[..., empty].any(), name
            assert not torch.isin(mask.edges(Q, K, at=at)[0], empty).any(), name


def test_no_document_attends_to_itself_where_its_id_is_minus_one():
    mask = Documents(torch.tensor([-1, 0, -1, 0, 1]))
    for m in (mask, ~mask):
        dense = m.dense(Q, Q)[0, 0]
        assert not dense[[0, 2]].any()
        assert not dense[:, [0, 2]].any()
    assert mask.dense(Q, Q)[0, 0, 1].tolist() == [False, True, False, True, False]
    assert (~mask).dense(Q, Q)[0, 0, 1].tolist() == [False, False, False, False, True]


def test_dense_and_edges_go_by_rows_and_columns_whatever_the_positions():
    table = torch.rand(Q, K, generator=torch.Generator().manual_seed(1)) < 0.5
    index = table.T.nonzero().T
    for place in places(1, Q, K, SPAN).values():
        slots = torch.tensor(place.j[0]) >= 0
        for mask in (Dense(table), Edges(index, (Q, K))):
            assert torch.equal(mask.dense(Q, K, at=place.at)[0, 0], table & slots)


def test_a_key_outside_a_global_table_is_attended_by_nothing():
    # The table names four positions; query 1 is global, keys 4, 5, 6 are outside of the table.
    mask = Global(torch.tensor([False, True, False, False]))
    assert mask.dense(Q, K)[0, 0, 1].tolist() == [True] * 4 + [False] * 3
    assert not (~mask).dense(Q, K)[..., 4:].any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_positions_of_a_narrow_dtype_work_or_are_refused(dtype):
    q, k = torch.arange(3, 3 + Q), torch.arange(K).flip(0)
    ids = torch.tensor([0, 1, 1, 0, 2, 1, 0, 1, -1, 0])
    try:
        narrow = Positions(q.to(dtype), k.to(dtype))
    except TypeError:
        return
    for mask in (Documents(ids), Window(1, 1), Dilated(3), RandomBlocks(2, 3, seed=1)):
        assert torch.equal(mask.dense(Q, K, at=narrow), mask.dense(Q, K, at=Positions(q, k)))


@pytest.mark.parametrize("dtype", [torch.int32])
def test_masks_take_positions_and_ids_of_any_integer_dtype(dtype):
    q, k = torch.arange(3, 3 + Q), torch.tensor([4, 0, -1, 7, 2, 9, 5])
    ids = torch.tensor([0, 1, 1, 0, 2, 1, 0, 1, -1, 0])
    for mask, narrow in (
        (Documents(ids), Documents(ids.to(dtype))),
        (Padding(torch.tensor([6])), Padding(torch.tensor([6], dtype=dtype))),
        (Prefix(torch.tensor([6])), Prefix(torch.tensor([6], dtype=dtype))),
        (RandomBlocks(2, 3, seed=1), RandomBlocks(2, 3, seed=1)),
        (Global([4, 5]), Global([4, 5])),
        (Blocks(torch.eye(4, dtype=torch.bool), 3), Blocks(torch.eye(4, dtype=torch.bool), 3)),
    ):
        wide = mask.dense(Q, K, at=Positions(q, k))
        assert torch.equal(narrow.dense(Q, K, at=Positions(q.to(dtype), k.to(dtype))), wide)


# Global, Dilated, and the famous compositions


def test_global_list_equals_global_table():
    table = torch.zeros(SPAN, dtype=torch.bool)
    table[[2, 11]] = True
    for place in places(B, Q, K, SPAN).values():
        by_list, by_table = (
            m.dense(Q, K, B, at=place.at) for m in (Global([11, 2, 2]), Global(table))
        )
        real = torch.tensor(place.i)[:, None, :, None] >= 0  # a query at −1 is in no table
        assert torch.equal(by_list & real, by_table & real)


def test_longformer_is_a_window_and_global_positions():
    expected = [
        [abs(i - j) <= 2 or i in (0, 7) or j in (0, 7) for j in range(13)] for i in range(11)
    ]
    assert longformer(2, [0, 7]).dense(11, 13)[0, 0].tolist() == expected


def test_bigbird_is_longformer_and_random_blocks():
    mask = bigbird(1, [0], random=2, size=3, seed=5)
    expected = longformer(1, [0]).dense(29, 31) | RandomBlocks(2, 3, seed=5).dense(29, 31)
    assert torch.equal(mask.dense(29, 31), expected)


def test_bigbird_reaches_every_token_in_two_steps():
    # Universality wants the global star: any two tokens are at most two steps apart.
    once = bigbird(1, [0], random=1, size=2, seed=5).dense(31, 31)[0, 0].long()
    assert ((once @ once) > 0).all()


# Dense.additive


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("closed", ["inf", "least"])
def test_additive_splits_a_float_mask_into_mask_and_bias(dtype, closed):
    value = -torch.inf if closed == "inf" else torch.finfo(dtype).min
    x = torch.tensor([[0.0, value, 1.5], [value, value, -2.0]], dtype=dtype)
    mask, bias = Dense.additive(x)
    assert mask.dense(2, 3)[0, 0].tolist() == [[True, False, True], [False, False, True]]
    assert bias.table[0, 0].tolist() == [[0.0, 0.0, 1.5], [0.0, 0.0, -2.0]]


def test_additive_keeps_the_gradient_of_a_learned_bias():
    x = torch.randn(Q, K, dtype=torch.float64, requires_grad=True)
    _, bias = Dense.additive(x)
    bias.table.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


# Canonical form


def test_causal_is_the_window_that_is_open_behind():
    assert Causal() == Window(None, 0)
    assert hash(Causal()) == hash(Window(None, 0))
    assert Causal() != Window(None, 1)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (Window(5, 1) & Window(3, 2), Window(3, 1)),
        (Causal() & Window(255), Window(255)),
        (Window(None, 3) & Window(5, None), Window(5, 3)),
        (Window(4, None) & Window(None, None) & Causal(), Window(4)),
        (Full() & Causal(), Causal()),
        (~~Causal(), Causal()),
        (~~~~Window(3), Window(3)),
        (Causal() | Full(), Full()),
        (Causal() | Causal(), Causal()),
        (~(~Window(3) | ~Window(5, 2)), Window(3)),
        (Full() & Full(), Full()),
    ],
    ids=str,
)
def test_intervals_intersect_and_double_negation_vanishes(mask, expected):
    assert canonical(mask) == expected


def test_canonical_form_is_flat_and_keeps_not_on_leaves():
    def depth(mask, kind) -> bool:
        parts = getattr(mask, "parts", ())
        assert all(type(p) is not kind for p in parts)
        return all(depth(p, type(p)) for p in parts)

    a, b, c = Dilated(2), Global([1]), Prefix(3)
    made = canonical(~((a & (b & ~c)) | ~(c | (a | b))))
    depth(made, type(made))
    for part in getattr(made, "parts", ()):
        inner = getattr(part, "part", None)
        assert inner is None or not hasattr(inner, "parts")


def test_windows_that_other_parts_stand_between_still_intersect():
    keep_all = Padding(torch.tensor([9]))
    made = canonical(Window(5) & keep_all & Window(3, 3) & Dilated(2))
    assert Window(3) in made.parts
    assert len(made.parts) == 3


def test_and_or_refuse_what_is_no_mask():
    table = torch.ones(Q, K, dtype=torch.bool)
    for wrong in (table, True, None):
        with pytest.raises(TypeError, match=r"join masks.*Dense\(tensor\)"):
            Causal() & wrong
        with pytest.raises(TypeError, match=r"join masks.*Dense\(tensor\)"):
            Causal() | wrong


def test_leaf_rules_cover_every_public_mask():
    from atento.core import edges, masks, random_blocks, tables

    public = {n for m in (masks, tables, edges, random_blocks) for n in m.__all__}
    kinds = {type(leaf.mask).__name__ for leaf in leaves(1, 1, Q, K, SPAN).values()}
    assert public - kinds - {"Causal", "longformer", "bigbird"} == set()
    assert all(isinstance(leaf, Leaf) for leaf in SHORT.values())


def test_words_between_masks_are_refused():
    with pytest.raises(TypeError, match=r"&, \| and ~"):
        _ = Window(2, 2) and Causal()
    with pytest.raises(TypeError, match=r"&, \| and ~"):
        _ = not Causal()
