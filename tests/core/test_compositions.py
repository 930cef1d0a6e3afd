"""Random compositions of random masks at random positions: the algebra of `&`, `|`, `~` holds."""

import random
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atento.core.attend import attend
from atento.core.biases import Alibi
from atento.core.compose import And, Not, Or, canonical
from atento.core.masks import Window
from atento.core.positions import Positions
from core_oracle import (
    NAMES,
    Place,
    leaves,
    mask_of,
    of_block_mask,
    of_edges,
    of_predicate,
    places,
    qkv,
    truth,
)

B, H, Q, K, SPAN = 2, 3, 5, 7, 17
LEAVES = leaves(B, H, Q, K, SPAN, seed=3)
SINGLE = leaves(1, 1, Q, K, SPAN, seed=3)
WIDE = leaves(1, 1, 257, 389, 521, seed=3)

often = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

names = st.sampled_from(NAMES)
trees = st.recursive(
    names,
    lambda below: st.one_of(
        st.tuples(st.just("~"), below),
        st.tuples(st.just("&"), below, below),
        st.tuples(st.just("|"), below, below),
    ),
    max_leaves=5,
)
seeds = st.integers(0, 10**6)


def grown(tree: Any, table: dict[str, Any]) -> Any:
    if isinstance(tree, str):
        return table[tree]
    return (tree[0], *(grown(t, table) for t in tree[1:]))


def placed(seed: int, batch: int, rows: int = Q, cols: int = K, span: int = SPAN) -> Place:
    made = places(batch, rows, cols, span, seed)
    return made[random.Random(seed).choice(list(made))]


@often
@given(trees, seeds)
def test_a_composition_equals_its_parts_joined_cell_by_cell(tree, seed):
    tree, place = grown(tree, LEAVES), placed(seed, B)
    mask, expected = mask_of(tree), truth(tree, B, H, Q, K, place)
    call = (Q, K, B, H, place.at)
    assert torch.equal(mask.dense(*call), expected)
    assert torch.equal(of_predicate(mask.predicate(*call), B, H, Q, K), expected)
    assert torch.equal(of_block_mask(mask.block_mask(*call), B, H, Q, K), expected)
    assert torch.equal(canonical(mask).dense(*call), expected)


@often
@given(trees, seeds)
def test_edges_of_a_composition_are_its_allowed_pairs(tree, seed):
    tree, place = grown(tree, SINGLE), placed(seed, 1)
    found = of_edges(mask_of(tree).edges(Q, K, at=place.at), Q, K)
    assert torch.equal(found, truth(tree, 1, 1, Q, K, place)[0, 0])


@settings(often, max_examples=12)
@given(trees, seeds)
def test_block_masks_of_compositions_never_claim_full_or_empty_wrongly(tree, seed):
    mask, place = mask_of(grown(tree, WIDE)), placed(seed, 1, 257, 389, 521)
    call = (257, 389, 1, 1, place.at)
    assert torch.equal(of_block_mask(mask.block_mask(*call), 1, 1, 257, 389), mask.dense(*call))


@often
@given(trees, trees, seeds)
def test_de_morgan(left, right, seed):
    a, b = mask_of(grown(left, LEAVES)), mask_of(grown(right, LEAVES))
    call = (Q, K, B, H, placed(seed, B).at)
    assert torch.equal((~(a & b)).dense(*call), (~a | ~b).dense(*call))
    assert torch.equal((~(a | b)).dense(*call), (~a & ~b).dense(*call))
    assert canonical(~(a & b)) == canonical(~a | ~b)
    assert canonical(~~a) == canonical(a)


@often
@given(trees, seeds)
def test_no_pair_is_allowed_by_a_mask_and_by_its_negation(tree, seed):
    mask, place = mask_of(grown(tree, LEAVES)), placed(seed, B)
    call = (Q, K, B, H, place.at)
    assert not (mask.dense(*call) & (~mask).dense(*call)).any()


@often
@given(trees)
def test_the_canonical_form_is_a_fixed_point_and_flat(tree):
    made = canonical(mask_of(grown(tree, LEAVES)))
    assert canonical(made) == made

    def check(mask: Any, above: type | None) -> None:
        assert type(mask) is not above
        if isinstance(mask, Not):
            assert not isinstance(mask.part, (Not, And, Or))
        for part in getattr(mask, "parts", ()):
            check(part, type(mask))
        if isinstance(mask, And):
            assert sum(isinstance(p, Window) for p in mask.parts) <= 1
            assert not any(p.everything for p in mask.parts)
            assert len(mask.parts) > 1

    check(made, None)


@often
@given(trees, seeds)
def test_no_allowed_pair_is_farther_apart_than_the_span(tree, seed):
    mask, place = canonical(mask_of(grown(tree, LEAVES))), placed(seed, B)
    before, after = mask.span()
    _, _, r, c = (pairs := mask.dense(Q, K, B, H, place.at)).nonzero(as_tuple=True)
    b = pairs.nonzero()[:, 0]
    far = torch.tensor(place.i)[b, r] - torch.tensor(place.j)[b, c]
    assert before is None or (far <= before).all()
    assert after is None or (far >= -after).all()


@often
@given(trees)
def test_a_density_that_calls_a_mask_sparse_is_no_less_than_the_truth(tree):
    # `auto` acts on densities below one half only.
    table = leaves(1, 1, 67, 61, 71, seed=5)
    mask = canonical(mask_of(grown(tree, table)))
    claimed = mask.density(67, 61)
    assert 0 <= claimed <= 1
    if claimed < 0.5:
        true = mask.dense(67, 61).double().mean().item()
        assert true <= claimed + 5 / 61  # each leaf may round up by one key


@often
@given(trees, seeds)
def test_a_mask_that_says_it_keeps_self_does(tree, seed):
    mask = canonical(mask_of(grown(tree, leaves(1, 1, 7, 7, SPAN, seed=3))))
    order = torch.tensor(random.Random(seed).sample(range(SPAN), 7))
    if mask.keeps_self():
        assert mask.dense(7, 7, at=Positions(order, order))[0, 0].diagonal().all()
    if mask.everything:
        assert mask.dense(7, 7, at=Positions(order, order)).all()


@often
@given(trees, seeds)
def test_a_mask_that_does_not_read_the_query_is_the_same_for_all_its_positions(tree, seed):
    mask = canonical(mask_of(grown(tree, LEAVES)))
    draw = random.Random(seed)
    k = torch.tensor(draw.sample(range(SPAN), K))
    first, second = (
        mask.dense(Q, K, B, H, Positions(torch.tensor(draw.sample(range(SPAN), Q)), k))
        for _ in range(2)
    )
    if not mask.reads_query:
        assert torch.equal(first, second)


@often
@given(trees, seeds, st.sampled_from(["auto", "reference", "sdpa", "chunked"]))
def test_a_call_under_a_composition_at_random_positions_equals_the_formula(tree, seed, path):
    tree, place = grown(tree, LEAVES), placed(seed, B)
    mask, allow = mask_of(tree), truth(tree, B, H, Q, K, place)
    at = 0 if place.at is None else place.at  # the bias reads positions, and Q is not K
    q, k, v = (x.requires_grad_() for x in qkv(B, H, Q, K, 11, 13, seed=seed, kv=1))
    far = (torch.tensor(place.i)[:, :, None] - torch.tensor(place.j)[:, None]).abs()
    slopes = torch.rand(H, dtype=torch.float64)
    if path == "chunked" and not mask.spellable:
        path = "auto"
    found = attend(q, k, v, mask=mask, bias=Alibi(slopes), at=at, path=path)
    logits = (
        torch.einsum("bhid,bjd->bhij", q, k[:, 0]) / 11**0.5 - slopes[:, None, None] * far[:, None]
    )
    shares = logits.exp() * allow
    expected = (shares / shares.sum(-1, keepdim=True).clamp(min=1e-300)) @ v
    pull = torch.randn(found.shape, dtype=torch.float64)
    pairs = [torch.autograd.grad((x * pull).sum(), (q, k, v)) for x in (found, expected)]
    for x, y in zip((found, *pairs[0]), (expected, *pairs[1]), strict=True):
        assert (x - y).abs().max() < 1e-12
