"""Lecture 001's example: our figures are the right ones, and each wrong printed one is found."""

import math

import pytest
import torch

from atento.lessons import pizza as lesson
from atento.lessons.hull import nearest
from atento.lessons.lesson import Figure, Quote, Rows, items, matrix
from atento.lessons.watched import tensor

STEPS = {step.text: step for step in lesson.steps()}
FIGURES = {
    item.text: item
    for item in items(tuple(STEPS.values()))
    if isinstance(item, Figure) and item.text
}
QUOTES = {item.text: item for item in items(tuple(STEPS.values())) if isinstance(item, Quote)}
HALF = 0.00005 + 1e-9
ALL = tuple((r, c) for r in range(3) for c in range(3))
TWO_COLUMNS = tuple((r, c) for r in range(3) for c in range(2))


def close(ours: Rows, expected: str, within: float = HALF) -> None:
    torch.testing.assert_close(tensor(ours), tensor(matrix(expected)), rtol=0, atol=within)


# The same figures by plain arithmetic, to full precision.


def product(a: Rows, b: Rows) -> Rows:
    return tuple(
        tuple(math.fsum(x * y for x, y in zip(r, c, strict=True)) for c in zip(*b, strict=True))
        for r in a
    )


def softmax(rows: Rows, divisor: float = 1.0) -> Rows:
    powers = [[math.exp(value / divisor) for value in row] for row in rows]
    return tuple(tuple(power / math.fsum(row) for power in row) for row in powers)


SCORES = product(lesson.Q, tuple(zip(*lesson.K, strict=True)))


def test_n1_the_sum_is_wrong_in_two_entries() -> None:
    figure = FIGURES["sum.figure"]
    assert figure.wrong == ((1, 0), (2, 0))
    close(figure.ours, "0.7824 0.6852; 0.2139 -0.4977; 2.1546 -0.4282")


def test_n2_the_positional_code_is_not_sinusoidal() -> None:
    code, lengths = FIGURES["position.code"], FIGURES["position.length"]
    assert code.wrong == TWO_COLUMNS
    close(code.ours, "0 1; 0.8415 0.5403; 0.9093 -0.4161")
    assert lengths.wrong == ((0, 0), (1, 0), (2, 0))
    close(lengths.printed, "0.978; 0.785; 0.548", 0.0005)
    close(lengths.ours, "1; 1; 1", 0)


def test_n3_no_linear_map_gives_q_k_and_v_and_an_affine_one_does() -> None:
    assert QUOTES["projections.linear"].verdict == "wrong"
    left = FIGURES["projections.left"].ours
    close(left[:1], "0.558 0.887 0.951", 0.0005)
    assert min(left[1]) > 0.5  # nor does the right X
    close(left[2:], "0 0 0", 1e-12)


@pytest.mark.parametrize(("name", "printed"), [("Q", lesson.Q), ("K", lesson.K), ("V", lesson.V)])
def test_e7_the_affine_maps_shown_give_the_printed_matrices(name: str, printed: Rows) -> None:
    (figure,) = [
        item
        for item in STEPS["answer"].items
        if isinstance(item, Figure) and item.symbol == f"W_{name}, b_{name}"
    ]
    with_one = tuple((*row, 1.0) for row in lesson.X)
    torch.testing.assert_close(
        tensor(product(with_one, figure.ours)), tensor(printed), rtol=0, atol=1e-12
    )


def test_e7_the_printed_order_of_the_product_does_not_exist() -> None:
    assert QUOTES["projections.order"].words == "Q = W_q X"
    assert QUOTES["projections.order"].verdict == "wrong"


def test_n4_all_nine_scores_are_wrong() -> None:
    figure = FIGURES["scores.figure"]
    assert figure.wrong == ALL
    close(figure.ours, "0.7273 0.5171 0.6999; 0.4131 0.3118 0.3870; 0.4995 0.4106 0.4485")
    torch.testing.assert_close(tensor(figure.ours), tensor(SCORES), rtol=0, atol=1e-12)


def test_n5_the_weights_are_not_the_softmax_of_the_right_scores() -> None:
    figure = FIGURES["softmax.true"]
    assert figure.wrong == ALL
    close(figure.ours, "0.3593 0.2912 0.3496; 0.3475 0.3140 0.3385; 0.3490 0.3193 0.3317")
    torch.testing.assert_close(tensor(figure.ours), tensor(softmax(SCORES)), rtol=0, atol=1e-12)


def test_n5_nor_of_the_printed_scores() -> None:
    figure = FIGURES["softmax.printed"]
    assert figure.wrong == ALL
    close(figure.ours, "0.3574 0.3192 0.3234; 0.3406 0.3305 0.3289; 0.3385 0.3252 0.3362")
    torch.testing.assert_close(tensor(figure.ours), tensor(softmax(lesson.QK)), rtol=0, atol=1e-12)


def test_n5_the_printed_rows_do_not_sum_to_one() -> None:
    figure = FIGURES["softmax.sums"]
    assert figure.wrong == ((0, 0), (1, 0), (2, 0))
    close(figure.printed, "0.804; 1.073; 0.837", 0.0005)


def test_n6_the_product_with_the_printed_weights_is_wrong_in_two_entries() -> None:
    figure = FIGURES["output.product"]
    assert figure.wrong == ((1, 0), (2, 0))
    assert [f"{figure.ours[r][0]:.4f}" for r in (1, 2)] == ["0.7953", "0.6088"]
    torch.testing.assert_close(
        tensor(figure.ours), tensor(product(lesson.A, lesson.V)), rtol=0, atol=1e-12
    )


def test_n6_the_right_output() -> None:
    figure = FIGURES["output.true"]
    assert figure.wrong == TWO_COLUMNS
    close(figure.ours, "0.7223 0.7128; 0.7238 0.7169; 0.7228 0.7167")
    torch.testing.assert_close(
        tensor(figure.ours), tensor(product(softmax(SCORES), lesson.V)), rtol=0, atol=1e-12
    )


def test_n6_printed_rows_one_and_two_lie_outside_the_hull() -> None:
    figure = FIGURES["output.hull"]
    assert {row for row, _ in figure.wrong} == {0, 1}
    assert figure.values == {"first": "0.5524", "least": "0.5530"}
    assert lesson.SA[0][0] < min(row[0] for row in lesson.V)


def test_n6_with_the_scale_row_one() -> None:
    figure = STEPS["scale"].items[0]
    assert isinstance(figure, Figure)
    close(figure.ours[:1], "0.3518 0.3032 0.3450")
    expected = tensor(softmax(SCORES, math.sqrt(2)))
    torch.testing.assert_close(tensor(figure.ours), expected, rtol=0, atol=1e-12)
    assert STEPS["scale"].values["after"] == "0.3518 0.3032 0.3450"


def test_n7_the_matrix_of_cats_is_a_softmax_under_another_name() -> None:
    figure = FIGURES["cats.sums"]
    assert figure.verdict == "ok"
    close(figure.printed, "1.000; 1.000; 1.001; 1.000; 1.000; 1.001", 1e-9)
    assert QUOTES["cats.label"].verdict == "wrong"


def test_n7_the_two_rows_of_cat_differ() -> None:
    assert STEPS["cats"].values["most"] == "0.164"
    assert max(FIGURES["cats.twins"].ours[0]) == pytest.approx(0.164)


def test_n7_figure_12_masks_after_the_softmax() -> None:
    sums, figure = FIGURES["masked.sums"], FIGURES["masked.true"]
    close(sums.printed, "0.268; 0.402; 0.541; 0.756; 0.826; 1.001", 1e-9)
    assert sums.wrong == tuple((row, 0) for row in range(5))
    assert {row for row, _ in figure.wrong} == set(range(5))
    close(tuple(row[:2] for row in figure.ours[1:2]), "0.3085 0.6915")
    for i, row in enumerate(lesson.CAT):
        kept = math.fsum(row[: i + 1])
        expected = [value / kept if j <= i else 0.0 for j, value in enumerate(row)]
        assert figure.ours[i] == pytest.approx(expected, abs=1e-12)


def test_what_is_printed_is_the_lectures_and_ours_is_computed() -> None:
    wrong = [figure for figure in FIGURES.values() if figure.verdict == "wrong"]
    assert all(figure.ours != figure.printed for figure in wrong)
    assert len([one for one in items(tuple(STEPS.values())) if one.verdict == "wrong"]) == 15


# ------------------------------------------------------------------ the hull

CORNERS: Rows = ((0.0, 0.0), (4.0, 0.0), (0.0, 3.0))


@pytest.mark.parametrize(
    ("point", "found"),
    [
        ((1.0, 1.0), (1.0, 1.0)),  # inside
        ((2.0, 0.0), (2.0, 0.0)),  # on an edge
        ((2.0, -1.0), (2.0, 0.0)),  # beyond an edge
        ((-3.0, -2.0), (0.0, 0.0)),  # beyond a corner
        ((5.0, 5.5), (2.0, 1.5)),  # beyond the slanted edge
    ],
)
def test_the_nearest_convex_combination(point: tuple[float, float], found: Rows) -> None:
    assert nearest(point, CORNERS) == pytest.approx(found)
    assert nearest(point, CORNERS[::-1]) == pytest.approx(found)
