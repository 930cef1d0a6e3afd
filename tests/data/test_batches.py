"""Which windows are seen depends on seed and step; evaluation sees each token once."""

import numpy as np
import pytest

from atento.data.batches import random_windows, whole_windows

TOKENS = np.arange(101)


def test_windows_follow_from_seed_and_step_alone() -> None:
    late = random_windows(TOKENS, 7, 5, seed=3, step=11)
    for step in range(11):
        random_windows(TOKENS, 7, 5, seed=3, step=step)
    assert (random_windows(TOKENS, 7, 5, seed=3, step=11) == late).all()
    assert (random_windows(TOKENS, 7, 5, seed=3, step=12) != late).any()
    assert (random_windows(TOKENS, 7, 5, seed=4, step=11) != late).any()


def test_windows_are_runs_of_the_text_and_reach_both_ends() -> None:
    windows = random_windows(TOKENS, 7, 5000, seed=0, step=0)
    assert windows.shape == (5000, 8)
    assert (np.diff(windows) == 1).all()
    assert (windows.min(), windows.max()) == (0, 100)


def test_a_text_of_one_window_is_that_window() -> None:
    assert random_windows(np.arange(8), 7, 3, seed=0, step=0).tolist() == [list(range(8))] * 3


@pytest.mark.parametrize("length", [2, 7, 8, 9, 15, 101])
@pytest.mark.parametrize("batch", [1, 3])
def test_each_token_but_the_first_is_a_target_once(length: int, batch: int) -> None:
    windows = list(whole_windows(np.arange(length), 7, batch))
    assert all(len(w) <= batch for w in windows)
    targets = np.concatenate([w[:, 1:].ravel() for w in windows])
    assert targets.tolist() == list(range(1, length))
    assert all((w[:, 1:] == w[:, :-1] + 1).all() for w in windows)
