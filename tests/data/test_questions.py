"""What a model is asked: the next token, or exactly so many hidden ones."""

import numpy as np
import pytest

from atento.data.questions import HIDDEN, Hidden, NextToken

TOKENS = np.arange(1, 102)
WINDOW = 13


def test_the_targets_are_what_is_shown_shifted_by_one() -> None:
    drawn = NextToken().drawn(TOKENS, WINDOW, 5, seed=0, step=3)
    assert drawn.places is None
    assert drawn.shown.shape == drawn.targets.shape == (5, WINDOW)
    assert (drawn.targets[:, :-1] == drawn.shown[:, 1:]).all()
    assert (drawn.targets == drawn.shown + 1).all()  # TOKENS count up, so the next is one more
    whole = list(NextToken().whole(TOKENS, WINDOW, 3))
    assert all((asked.targets == asked.shown + 1).all() for asked in whole)
    judged = np.concatenate([asked.targets.ravel() for asked in whole])
    assert judged.tolist() == TOKENS[1:].tolist()
    assert NextToken().judged(len(TOKENS)) == len(judged)


@pytest.mark.parametrize(
    ("share", "window", "count"),
    [(0.15, 13, 2), (0.15, 64, 10), (0.4, 13, 5), (0.01, 13, 1), (0.95, 3, 3)],
)
def test_the_hidden_share_is_exact_in_every_window(share: float, window: int, count: int) -> None:
    asked = Hidden(share).drawn(TOKENS, window, 50, seed=1, step=2)
    hidden = asked.shown == HIDDEN
    assert hidden.sum(1).tolist() == [count] * 50
    for row in range(50):
        places = asked.places[row].tolist()
        assert places == np.flatnonzero(hidden[row]).tolist()
        first = asked.targets[row, 0] - places[0]  # TOKENS count up: the window is known from one
        window_of = np.arange(first, first + window)
        assert asked.targets[row].tolist() == window_of[places].tolist()
        assert asked.shown[row, ~hidden[row]].tolist() == window_of[~hidden[row]].tolist()


def test_hidden_places_follow_from_seed_and_step_alone_and_reach_everywhere() -> None:
    made = Hidden(0.15)
    first = made.drawn(TOKENS, WINDOW, 500, seed=3, step=11)
    again = made.drawn(TOKENS, WINDOW, 500, seed=3, step=11)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    for seed, step in ((3, 12), (4, 11)):
        other = made.drawn(TOKENS, WINDOW, 500, seed=seed, step=step)
        assert (other.places != first.places).any()
    how_often = np.bincount(first.places.ravel(), minlength=WINDOW)
    # 77 each is expected; five deviations of a binomial draw are 43.
    assert (abs(how_often - 1000 / WINDOW) < 43).all()


def test_windows_to_hide_in_reach_both_ends_of_the_text() -> None:
    asked = Hidden(0.15).drawn(TOKENS, WINDOW, 5000, seed=0, step=0)
    seen = np.where(asked.shown == HIDDEN, 50, asked.shown)
    assert (seen.min(), seen.max()) == (1, 101)
    one = Hidden(0.15).drawn(TOKENS[:WINDOW], WINDOW, 3, seed=0, step=0)
    assert one.shown.shape == (3, WINDOW)


@pytest.mark.parametrize("share", [0.01, 0.15, 0.5, 0.95])
@pytest.mark.parametrize("length", [1, 2, 12, 13, 14, 101])
def test_each_token_is_hidden_once_among_as_many_as_in_training(share: float, length: int) -> None:
    made, tokens = Hidden(share), TOKENS[:length]
    for batch in (1, 3, 100):
        asked = list(made.whole(tokens, WINDOW, batch))
        assert all(len(a.shown) <= batch for a in asked)
        assert sorted(np.concatenate([a.targets.ravel() for a in asked])) == tokens.tolist()
        for a in asked:
            assert ((a.shown == HIDDEN).sum(1) == a.targets.shape[1]).all()
            assert (np.take_along_axis(a.shown, a.places, 1) == HIDDEN).all()
            n = a.shown.shape[1]
            assert abs(a.targets.shape[1] - made.count(n)) <= max(1, made.count(n) / 2)
    assert made.judged(length) == length


def test_how_many_are_asked_together_hides_the_same() -> None:
    def hidden_with(batch: int) -> set[tuple[int, ...]]:
        rows = [a for asked in Hidden(0.15).whole(TOKENS, WINDOW, batch) for a in asked.targets]
        return {tuple(row) for row in rows}

    assert hidden_with(1) == hidden_with(3) == hidden_with(100)
