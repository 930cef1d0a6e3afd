"""Positions are absolute and enter once, as `at`."""

import pytest
import torch

from atento.core.attend import attend
from atento.core.biases import Alibi, DenseBias, T5Bias
from atento.core.edges import Edges
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window
from atento.core.positions import Positions
from atento.core.tables import Dense, Documents, Padding, Where
from core_oracle import EXACT, plain, qkv

B, H, Q, K = 2, 3, 5, 7
PATHS = ["reference", "sdpa", "chunked", "auto"]


@pytest.mark.parametrize("path", PATHS)
def test_every_form_of_at_that_says_the_same_gives_the_same(path):
    q, k, v = qkv()
    i, j = torch.arange(2, 2 + Q), torch.arange(K)
    expected = plain(q, k, v, allow=j <= i[:, None])
    for at in (
        2,
        torch.tensor(2),
        torch.tensor([2]),
        torch.tensor([2, 2]),
        torch.tensor([2, 2], dtype=torch.int32),
        Positions(i, j),
        Positions(i.int(), j.int()),
        Positions(i[None], j),
        Positions(i.expand(B, Q), j[None]),
        Positions(i, j.expand(B, K)),
    ):
        out = attend(q, k, v, mask=Causal(), at=at, path=path)
        assert (out - expected).abs().max() < EXACT, at


@pytest.mark.parametrize("path", PATHS)
def test_each_sequence_may_stand_elsewhere(path):
    q, k, v = qkv()
    at = torch.tensor([1, 2])
    allow = torch.arange(K) <= (at[:, None] + torch.arange(Q))[:, None, :, None]
    out = attend(q, k, v, mask=Causal(), at=at, path=path)
    assert (out - plain(q, k, v, allow=allow)).abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
def test_permuting_keys_with_their_positions_changes_nothing(path):
    q, k, v = qkv()
    order = torch.randperm(K, generator=torch.Generator().manual_seed(3))
    mask, bias = Window(3, 1) | Global([2]), Alibi.standard(H)
    i = torch.arange(2, 2 + Q)
    expected = attend(q, k, v, mask=mask, bias=bias, at=2, path="reference")
    mixed = attend(
        q, k[:, :, order], v[:, :, order], mask=mask, bias=bias, at=Positions(i, order), path=path
    )
    assert (mixed - expected).abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
def test_permuting_queries_with_their_positions_permutes_the_result(path):
    q, k, v = qkv()
    order = torch.randperm(Q, generator=torch.Generator().manual_seed(3))
    mask, bias = Window(3, 1), T5Bias(torch.randn(8, H, dtype=torch.float64))
    expected = attend(q, k, v, mask=mask, bias=bias, at=2, path="reference")
    at = Positions(2 + order, torch.arange(K))
    mixed = attend(q[:, :, order], k, v, mask=mask, bias=bias, at=at, path=path)
    assert (mixed - expected[:, :, order]).abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mask", [None, Full(), Prefix(9), ~Prefix(0), Padding(torch.tensor([9]))])
def test_an_empty_slot_is_attended_by_nothing(path, mask):
    q, k, v = qkv()
    j = torch.tensor([0, -1, 1, 2, -1, 3, -1])
    filled = j >= 0
    k, v = k.masked_fill(~filled[:, None], 50.0), v.masked_fill(~filled[:, None], 1e6)
    out = attend(q, k, v, mask=mask, at=Positions(torch.arange(Q), j), path=path)
    expected = plain(q, k[:, :, filled], v[:, :, filled])
    assert (out - expected).abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
def test_a_call_with_empty_slots_only_gives_zeros_and_finite_gradients(path):
    q, k, v = (x.requires_grad_() for x in qkv())
    at = Positions(torch.arange(Q), torch.tensor([[-1] * K, [0] + [-1] * (K - 1)]))
    out = attend(q, k, v, at=at, path=path)
    out.square().sum().backward()
    assert (out[0] == 0).all()
    assert (out[1] - v[1, :, :1]).abs().max() < EXACT
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert (x.grad[0] == 0).all()


def test_positions_forgotten_are_an_error_that_says_what_to_write():
    q, k, v = qkv()
    for kw in (
        {"mask": Causal()},
        {"mask": Prefix(3) & ~Window(2)},
        {"mask": Dilated(2) | Prefix(1)},
        {"mask": Documents(torch.arange(K))},
        {"mask": Global([0])},
        {"mask": Where(lambda b, h, i, j: j <= i)},
        {"bias": Alibi.standard(H)},
        {"bias": DenseBias(torch.zeros(Q, K)) + Alibi.standard(H)},
    ):
        with pytest.raises(ValueError, match=r"at is needed.*at=2"):
            attend(q, k, v, **kw)


def test_positions_may_be_left_out_where_nothing_reads_the_querys():
    q, k, v = qkv()
    dense = torch.rand(Q, K) < 0.7
    for mask in (
        None,
        Full(),
        Prefix(3),
        Padding(torch.tensor([3, 5])),
        Dense(dense),
        Edges(dense.T.nonzero().T, (Q, K)),
        ~Dense(dense) | Prefix(2),
        Window(None, None),
    ):
        allow = None if mask is None else mask.dense(Q, K, B)
        assert (attend(q, k, v, mask=mask) - plain(q, k, v, allow=allow)).abs().max() < EXACT


def test_none_means_zero_where_queries_and_keys_are_as_many():
    q, k, v = qkv(Q=K)
    assert torch.equal(
        attend(q, k, v, mask=Window(2), path="reference"),
        attend(q, k, v, mask=Window(2), at=0, path="reference"),
    )


@pytest.mark.parametrize(
    ("q", "k"),
    [
        (torch.arange(5.0), torch.arange(7)),
        (torch.arange(5), torch.arange(7) > 2),
        ([0, 1, 2], torch.arange(7)),
    ],
)
def test_positions_must_be_integer_tensors(q, k):
    with pytest.raises(TypeError, match=r"Positions\([qk]=…\) must be an integer tensor.*got"):
        Positions(q, k)


def test_positions_have_one_or_two_axes():
    with pytest.raises(ValueError, match=r"Positions\(q=…\) must have 1 or 2 axes; got shape \[\]"):
        Positions(torch.tensor(3), torch.arange(7))


@pytest.mark.parametrize(
    ("at", "match"),
    [
        (Positions(torch.arange(4), torch.arange(K)), r"at\.q must be Int\[5\].*got \[4\]"),
        (Positions(torch.arange(Q), torch.arange(8)), r"at\.k must be Int\[7\].*got \[8\]"),
        (Positions(torch.zeros(3, Q).long(), torch.arange(K)), r"at\.q must be"),
        (torch.tensor([1, 2, 3]), r"at must be Int\[B\] = Int\[2\]"),
        (torch.tensor([1.0, 2.0]), r"at must be Int\[B\]"),
        (torch.tensor([[1], [2]]), r"at must be Int\[B\]"),
        (-1, r"at must be ≥ 0"),
        (True, r"at must be an int"),
        (2.0, r"at must be an int"),
        ("2", r"at must be an int"),
    ],
    ids=str,
)
def test_a_wrong_at_is_named(at, match):
    q, k, v = qkv()
    with pytest.raises((TypeError, ValueError), match=match):
        attend(q, k, v, at=at)
