"""Each way of choosing on distributions small enough to be worked by hand."""

import math

import pytest
import torch

from atento.errors import UserError
from atento.models.choose import Sampling, chances, chosen

SHARES = [0.4, 0.3, 0.2, 0.1]  # whose softmax is itself


def after(shares: list[float] = SHARES, seen: tuple[int, ...] = (), **how: object) -> list[float]:
    """The chances that are left of those given."""
    logits = torch.tensor([shares], dtype=torch.float64).log()
    said = torch.zeros_like(logits, dtype=torch.bool)
    said[:, list(seen)] = True
    (row,) = chances(logits, said, Sampling(**how))
    assert row.sum() == pytest.approx(1)
    return row.tolist()


def test_nothing_asked_is_the_softmax() -> None:
    assert after() == pytest.approx(SHARES)


def test_temperature_half_squares_the_chances() -> None:
    assert after(temperature=0.5) == pytest.approx([16 / 30, 9 / 30, 4 / 30, 1 / 30])


def test_temperature_two_takes_roots() -> None:
    roots = [math.sqrt(share) for share in SHARES]
    assert after(temperature=2.0) == pytest.approx([root / sum(roots) for root in roots])


def test_temperature_0_takes_the_likeliest_and_of_equals_the_first() -> None:
    assert after(temperature=0) == [1, 0, 0, 0]
    assert after([0.1, 0.4, 0.4, 0.1], temperature=0) == [0, 1, 0, 0]


def test_top_k_keeps_the_k_likeliest() -> None:
    assert after(top_k=2) == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert after([0.1, 0.2, 0.3, 0.4], top_k=3) == pytest.approx([0, 2 / 9, 3 / 9, 4 / 9])
    assert after(top_k=9) == pytest.approx(SHARES)


@pytest.mark.parametrize(
    ("top_p", "left"),
    [
        (1e-9, [1, 0, 0, 0]),
        (0.39, [1, 0, 0, 0]),
        (0.5, [4 / 7, 3 / 7, 0, 0]),
        (0.75, [4 / 9, 3 / 9, 2 / 9, 0]),
        (0.95, SHARES),
        (1.0, SHARES),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float, left: list[float]) -> None:
    assert after(top_p=top_p) == pytest.approx(left)
    assert after(SHARES[::-1], top_p=top_p) == pytest.approx(left[::-1])


@pytest.mark.parametrize(
    ("min_p", "left"),
    [
        (0.0, SHARES),
        (0.2, SHARES),
        (0.45, [4 / 9, 3 / 9, 2 / 9, 0]),  # above 0.18
        (0.7, [4 / 7, 3 / 7, 0, 0]),  # above 0.28
        (1.0, [1, 0, 0, 0]),
    ],
)
def test_min_p_keeps_what_has_a_share_of_the_likeliest(min_p: float, left: list[float]) -> None:
    assert after(min_p=min_p) == pytest.approx(left)


def test_repetition_divides_what_is_above_0_and_multiplies_what_is_below() -> None:
    logits = torch.tensor([[2.0, 1.0, -1.0, -2.0]], dtype=torch.float64)
    seen = torch.tensor([[True, False, True, False]])
    shares = chances(logits, seen, Sampling(repetition=2.0))
    whole = [math.exp(x) for x in (1.0, 1.0, -2.0, -2.0)]
    assert shares[0].tolist() == pytest.approx([x / sum(whole) for x in whole])
    assert after(seen=(0,), repetition=1.0) == pytest.approx(SHARES)


def test_never_is_never_even_where_it_is_likeliest() -> None:
    assert after(never=(0,)) == pytest.approx([0, 3 / 6, 2 / 6, 1 / 6])
    assert after(never=(0,), temperature=0) == [0, 1, 0, 0]


def test_they_work_one_after_another() -> None:
    # .4 .3 .2 .1 → squared 16 9 4 1 → three likeliest 16 9 4 of 29 → 16 is less than .6 of 29, so
    # top-p .6 keeps 16 and 9 → 9 is less than .6 of 16.
    assert after(temperature=0.5, top_k=3) == pytest.approx([16 / 29, 9 / 29, 4 / 29, 0])
    assert after(temperature=0.5, top_k=3, top_p=0.6) == pytest.approx([16 / 25, 9 / 25, 0, 0])
    assert after(temperature=0.5, top_k=3, top_p=0.6, min_p=0.6) == [1, 0, 0, 0]


def test_rows_know_nothing_of_each_other() -> None:
    logits = torch.tensor([SHARES, SHARES[::-1]], dtype=torch.float64).log()
    how = Sampling(top_p=0.5)
    both = chances(logits, torch.zeros(2, 4, dtype=torch.bool), how)
    assert both[1].tolist() == pytest.approx(both[0].tolist()[::-1])
    assert logits[0].exp().tolist() == pytest.approx(SHARES)  # the caller's logits stay


def test_draws_follow_the_chances() -> None:
    shares = torch.tensor([SHARES], dtype=torch.float64).expand(4000, -1)
    generator = torch.Generator().manual_seed(3)
    counts = torch.bincount(torch.tensor(chosen(shares, [generator] * 4000)), minlength=4)
    expected = torch.tensor(SHARES) * 4000
    assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-square, 3 degrees: p = .001


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"temperature": -1.0}, "temperature must be 0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": float("nan")}, "top_p"),
        ({"min_p": -0.1}, "min_p must be at least 0"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition": 0.9}, "repetition must be 1"),
        ({"repetition": float("inf")}, "repetition"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**63}, "seed"),
    ],
)
def test_impossible_choices_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Sampling(**given)
