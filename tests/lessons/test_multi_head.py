"""Lecture 003's worked example: ours equals plain arithmetic, and what the lecture prints."""

import math

import pytest
import torch

from atento import Causal, attend
from atento.lessons import multi_head as lesson
from atento.lessons.lesson import Figure, Rows, items
from atento.lessons.verdicts import summary
from atento.lessons.watched import softmax_of, tensor, watched

STEPS = tuple(lesson.steps())
FIGURES = {item.symbol: item for item in items(STEPS) if isinstance(item, Figure)}
WEIGHTS = {step.text: step for step in STEPS}
HEADS = ("⁽¹⁾", "⁽²⁾")


# Plain arithmetic on lists: no torch, no atento.


def product(a: Rows, b: Rows) -> Rows:
    return tuple(
        tuple(math.fsum(x * y for x, y in zip(r, c, strict=True)) for c in zip(*b, strict=True))
        for r in a
    )


def turned(a: Rows) -> Rows:
    return tuple(zip(*a, strict=True))


def causal_softmax(scores: Rows, divisor: float) -> Rows:
    rows = []
    for i, row in enumerate(scores):
        powers = [math.exp(score / divisor) if j <= i else 0.0 for j, score in enumerate(row)]
        rows.append(tuple(power / math.fsum(powers) for power in powers))
    return tuple(rows)


def by_hand(h: int, divisor: float = math.sqrt(2)) -> dict[str, Rows]:
    q, k, v = (product(lesson.X, w[h]) for w in (lesson.W_Q, lesson.W_K, lesson.W_V))
    scores = product(q, turned(k))
    weights = causal_softmax(scores, divisor)
    return {"Q": q, "K": k, "V": v, "QK": scores, "A": weights, "AV": product(weights, v)}


def close(ours: Rows, expected: Rows, within: float = 1e-12) -> None:
    torch.testing.assert_close(tensor(ours), tensor(expected), rtol=0, atol=within)


@pytest.mark.parametrize("h", [0, 1])
def test_every_matrix_of_a_head_equals_plain_arithmetic(h: int) -> None:
    mark, hand = HEADS[h], by_hand(h)
    for name in "QKV":
        close(FIGURES[f"{name}{mark}"].ours, hand[name])
    close(FIGURES[f"Q{mark}·K{mark}ᵀ"].ours, hand["QK"])
    close(
        FIGURES[f"S{mark}"].ours,
        product(hand["QK"], ((2**-0.5, 0, 0), (0, 2**-0.5, 0), (0, 0, 2**-0.5))),
    )
    close(FIGURES[f"A{mark}·V{mark}"].ours, hand["AV"])
    (weights,) = [one for one in WEIGHTS["softmax"].items if one.symbol == f"A{mark}"]
    close(weights.ours, hand["A"])


def test_the_concatenation_and_the_result_equal_plain_arithmetic() -> None:
    first, second = by_hand(0)["AV"], by_hand(1)["AV"]
    beside = tuple(a + b for a, b in zip(first, second, strict=True))
    close(FIGURES["Concat"].ours, beside)
    close(FIGURES["Concat·W_O"].ours, product(beside, lesson.W_O))


def test_masked_scores_are_minus_infinity_above_the_diagonal() -> None:
    for mark in HEADS:
        for i, row in enumerate(FIGURES[f"S{mark} + M"].ours):
            assert [math.isinf(score) for score in row] == [j > i for j in range(3)]


PRINTED = [
    *(f"{name}{mark}" for name in "QKV" for mark in HEADS),
    *(f"Q{mark}·K{mark}ᵀ" for mark in HEADS),
    *(f"S{mark}" for mark in HEADS),
    "M",
    *(f"A{mark}·V{mark}" for mark in HEADS),
    "Concat",
    "Concat·W_O",
]


@pytest.mark.parametrize("symbol", PRINTED)
def test_every_printed_figure_is_right(symbol: str) -> None:
    assert FIGURES[symbol].verdict == "ok"


def test_both_printed_matrices_of_weights_are_right() -> None:
    assert [one.verdict for one in WEIGHTS["softmax"].items] == ["ok", "ok"]
    assert [one.printed for one in WEIGHTS["softmax"].items if isinstance(one, Figure)] == [
        *lesson.A
    ]


def test_nothing_printed_is_left_out() -> None:
    compared = [item for item in items(STEPS) if item.verdict]
    assert len(compared) == len(PRINTED) + 2
    assert summary(STEPS, "en").endswith("Right: 17. Wrong: 0.")


@pytest.mark.parametrize("place", [(0, 0), (2, 1)])
def test_a_printed_figure_off_by_a_thousandth_would_be_found(place: tuple[int, int]) -> None:
    right = FIGURES["A⁽¹⁾·V⁽¹⁾"]
    rows = [list(row) for row in right.printed]
    rows[place[0]][place[1]] += 0.001
    changed = Figure(
        symbol="", ours=right.ours, printed=tuple(map(tuple, rows)), tolerance=right.tolerance
    )
    assert changed.wrong == (place,)
    assert changed.verdict == "wrong"


def test_exact_figures_stand_in_the_texts() -> None:
    assert WEIGHTS["softmax"].values["second"] == "0.669762 0.330238"
    assert WEIGHTS["softmax"].values["third"].split()[0][:6] == "0.1016"
    assert [round(float(x), 4) for x in WEIGHTS["softmax"].values["third"].split()] == [
        *(0.1017, 0.0501, 0.8482)
    ]
    assert WEIGHTS["result"].values["last"] == "1.746516"


def test_dividing_by_the_root_of_d_model_gives_other_weights() -> None:
    assert WEIGHTS["d_model"].values["wrong"] == "0.6225 0.3775"
    for h, item in enumerate(WEIGHTS["d_model"].items):
        assert isinstance(item, Figure)
        close(item.ours, by_hand(h, divisor=2.0)["A"])


def test_watching_a_call_does_not_change_it() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 5, 3, generator=generator, dtype=torch.float64) for _ in "qkv")
    plain = attend(q[None], k[None], v[None], mask=Causal())
    seen = watched(q, k, v, causal=True)
    torch.testing.assert_close(seen.out, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(seen.weights @ v[None], plain, rtol=0, atol=1e-12)


def test_the_softmax_of_given_logits_goes_through_attend() -> None:
    logits = torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(softmax_of(logits), logits.softmax(-1), rtol=0, atol=1e-12)
