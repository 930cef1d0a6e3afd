"""What heads look at: planted heads, and numbers by loops."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from atento.core.compose import Mask
from atento.core.masks import Causal, Full, Window
from atento.core.positions import Positions
from atento.errors import UserError
from atento.inspection.heads import EVENLY, MOSTLY, HeadLook, head_looks
from atento.layers.attention import Attention

B, N, HEADS, WIDTH = 3, 11, 7, 13  # WIDTH: of a head
FAVOURITE = 2
SHARP = 200.0


class Planted(nn.Module):
    """A head for each matrix of logits [N, N] by position; states are one-hot positions."""

    def __init__(self, logits: list[Tensor], mask: Mask | None) -> None:
        super().__init__()
        self.mask = mask
        self.attention = Attention(N, len(logits), head_width=WIDTH, biased=False).double()
        scaled = torch.stack(logits).double() * math.sqrt(WIDTH)
        place = torch.eye(N, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            self.attention.query.weight[:] = torch.cat([(table @ place).T for table in scaled])
            self.attention.key.weight[:] = place.T.repeat(len(logits), 1)

    def forward(self, at: Positions | None = None) -> Tensor:
        x = torch.eye(N, dtype=torch.float64).expand(B, -1, -1)
        return self.attention(x, mask=self.mask, at=at)


def diagonal(step: int) -> Tensor:
    """Logits that are sharp where the key is `step` after the query."""
    return SHARP * torch.diag(torch.ones(N - abs(step)), step)


def looks(logits: list[Tensor], mask: Mask | None = None) -> list[HeadLook]:
    model = Planted(logits, mask)
    return head_looks(model, model)


def test_planted_heads_are_called_what_they_are():
    favourite = torch.zeros(N, N)
    favourite[:, FAVOURITE] = SHARP
    near = -0.4 * (torch.arange(N)[:, None] - torch.arange(N)).abs()
    planted = {
        "itself": diagonal(0),
        "before": diagonal(-1),
        "favourite": favourite,
        "evenly": torch.zeros(N, N),
        "near": near,
        "far": -near,
    }
    for mask in (None, Full(), Window(5, 5)):
        found = looks([*planted.values(), diagonal(1)], mask)
        names = [*planted, "after"]
        if isinstance(mask, Window):  # position 2 is out of sight for those beyond 7
            assert found[2].look.favourite == FAVOURITE
            found, names = found[:2] + found[3:], names[:2] + names[3:]
        assert [one.kind for one in found] == names
    found = looks([*planted.values()], Causal())
    assert [one.kind for one in found] == list(planted)
    assert [one.head for one in found] == list(range(6))
    assert {one.layer for one in found} == {"attention"}
    assert found[1].look.before == pytest.approx(1)
    assert found[2].look.favourite == FAVOURITE


def test_an_even_causal_look_has_the_numbers_of_counting():
    (found,) = looks([torch.zeros(N, N)], Causal())
    rows = range(1, N)  # the first query has no choice
    assert found.look.itself == pytest.approx(np.mean([1 / (i + 1) for i in rows]))
    assert found.look.before == pytest.approx(np.mean([1 / (i + 1) for i in rows]))
    assert found.look.after == 0
    assert found.look.distance == pytest.approx(np.mean([i / 2 for i in rows]))
    assert found.look.entropy == pytest.approx(np.mean([math.log(i + 1) for i in rows]))
    assert found.look.favourite in (0, 1)
    assert found.look.favoured == pytest.approx(np.mean([1 / (i + 1) for i in rows]))
    for name in vars(found.look):
        assert getattr(found.look, name) == pytest.approx(getattr(found.even, name), abs=1e-12)


@pytest.mark.parametrize("mask", [None, Causal(), Window(3, 2)])
def test_the_numbers_are_those_of_loops_over_the_weights(mask):
    torch.manual_seed(4)
    tables = [torch.randn(N, N) for _ in range(HEADS)]
    for found, table in zip(looks(tables, mask), tables, strict=True):
        may = np.ones((N, N), bool) if mask is None else mask.dense(N, N)[0, 0].numpy()
        weights = np.where(may, np.exp(table.double().numpy()), 0)
        weights /= weights.sum(1, keepdims=True)
        np.testing.assert_allclose(found.weights, weights, atol=1e-12)
        look, rows = found.look, [i for i in range(N) if may[i].sum() > 1]

        def mean(value, weights=weights, rows=rows):
            return np.mean([sum(weights[i, j] * value(i, j) for j in range(N)) for i in rows])

        assert look.distance == pytest.approx(mean(lambda i, j: abs(i - j)))
        assert look.itself == pytest.approx(mean(lambda i, j: i == j))
        assert look.before == pytest.approx(mean(lambda i, j: j == i - 1))
        assert look.after == pytest.approx(mean(lambda i, j: j == i + 1))
        received = [np.mean([weights[i, j] for i in rows]) for j in range(N)]
        assert (look.favourite, look.favoured) == (
            np.argmax(received),
            pytest.approx(max(received)),
        )
        plogp = [-sum(w * math.log(w) for w in weights[i] if w) for i in rows]
        assert look.entropy == pytest.approx(np.mean(plogp))
        assert mean(lambda i, j, d=look.half: abs(i - j) <= d) >= 0.5
        assert mean(lambda i, j, d=look.half: abs(i - j) < d) < 0.5


def test_no_word_is_said_below_its_threshold():
    assert (MOSTLY, EVENLY) == (0.5, 0.95)  # as the docstrings and the pages say
    for share, kind in ((0.499, "near"), (0.501, "before")):
        # Each query i ≥ 1 gives the position before it `share`, and the others the rest evenly.
        table = torch.zeros(N, N, dtype=torch.float64)
        for i in range(1, N):
            table[i, i - 1] = math.log(share / (1 - share) * i)
        (found,) = looks([table], Causal())
        assert found.look.before == pytest.approx(share)
        assert found.kind == kind


def test_one_word_is_no_news_where_there_are_two_keys():
    """With a window of one neighbour an even look is half on itself: nothing is said of that."""
    (found,) = looks([torch.zeros(N, N)], Causal() & Window(1))
    assert found.look.itself == pytest.approx(0.5)
    assert found.kind == "evenly"


def test_positions_count_rather_than_columns():
    """Keys at even positions: the one a column before stands two positions before."""
    model, at = Planted([diagonal(-1)], Causal()), 2 * torch.arange(N)
    (found,) = head_looks(model, lambda: model(at=Positions(at, at)))
    assert found.look.before == 0
    assert found.look.distance == pytest.approx(2)
    assert found.look.half == 2


def test_a_text_without_a_choice_is_one_line():
    with pytest.raises(UserError, match="at least two keys"):
        looks([diagonal(0)], Causal() & Window(0))
