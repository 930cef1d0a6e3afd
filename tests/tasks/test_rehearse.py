"""A dry run measures what training would take, and leaves no trace."""

import os
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from atento.errors import UserError
from atento.tasks.rehearse import MEASURED
from atento.tasks.start import dry_run
from tasks.books import OPTIONS, recipe


def test_a_dry_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = recipe(tmp_path)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    found, folder, device = dry_run(made)
    assert os.listdir(tmp_path) == ["livro.txt"]
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]
    assert str(folder) == os.path.join("runs", "run-1")
    assert device
    total = sum(p.numel() for p in found.task.model.parameters())
    assert found.described.parameters.total == total
    assert found.tokens == OPTIONS["batch"] * OPTIONS["context"]


def test_the_whole_is_its_steps_and_its_evaluations(tmp_path: Path) -> None:
    found, _, _ = dry_run(recipe(tmp_path), out=tmp_path / "run", steps=1000, evaluate_every=300)
    assert (found.steps, found.evaluations) == (1000, 4)  # at 300, 600, 900 and the last
    expected = 1000 * found.step_seconds + 4 * found.evaluation_seconds
    assert 0 < found.seconds == pytest.approx(expected)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_three_steps_are_measured_after_one(
    accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 9.0, 10.0, 12.0, 15.0, 100.0, 107.0])
    own = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("atento.tasks.rehearse.time", own)
    found, _, _ = dry_run(recipe(tmp_path), out=tmp_path / "run", accumulate=accumulate, steps=2)
    assert MEASURED == 3
    assert found.step_seconds == 2.0  # of 1, 2 and 3; the first took 9
    assert found.steps == 2
    assert found.tokens == accumulate * OPTIONS["batch"] * OPTIONS["context"]


def test_what_training_would_refuse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").touch()
    with pytest.raises(UserError, match="holds a run"):
        dry_run(recipe(tmp_path), out=tmp_path / "run")
