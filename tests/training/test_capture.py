"""Captured steps, in all but the capture, which tests/gpu has: and when a step is captured."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from atento.errors import UserError
from atento.training import capture, loop
from atento.training.capture import execution_for, hindrance
from atento.training.config import Train
from atento.training.loop import read_metrics
from training.test_settings import Broken
from training.toy import Toy, train

CHANGES = [
    {},
    {"accumulate": 3, "clip": 0.0, "schedule": "linear"},
    {"ema": 0.9, "decay": 0.3, "decay_rest": 0.1},
    {"precision": "bfloat16"},
]


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that lie still, off CUDA, where nothing is captured and each of them is taken."""
    monkeypatch.setattr(loop, "execution_for", lambda task, config: ("graph", ""))
    monkeypatch.setattr(loop, "hindrance", lambda task, config: None)


def ends(folder: Path) -> dict[str, torch.Tensor]:
    home = folder / "checkpoint/step-00000017"
    return load_file(home / "model.safetensors") | load_file(home / "optimizer.safetensors")


@pytest.mark.parametrize("given", CHANGES, ids=lambda given: "-".join(given) or "plain")
def test_still_steps_are_the_loops_own_to_the_bit(
    given: dict[str, object], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    train(tmp_path / "loop", given)
    request.getfixturevalue("captured")
    state = train(tmp_path / "still", given)
    assert state.execution == "graph"
    a, b = ends(tmp_path / "loop"), ends(tmp_path / "still")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[k], b[k]) for k in a)
    losses = [[r["train_loss"] for r in read_metrics(tmp_path / n)] for n in ("loop", "still")]
    assert losses[0] == losses[1]


def test_muons_still_steps_are_the_loops_own(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    train(tmp_path / "loop", {"optimizer": "muon"})
    request.getfixturevalue("captured")
    train(tmp_path / "still", {"optimizer": "muon"})
    losses = [[r["train_loss"] for r in read_metrics(tmp_path / n)] for n in ("loop", "still")]
    # Each step differs in the last bit, which Muon's bfloat16 makes larger in the steps after it.
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_captured_run_resumes_to_the_bit(optimizer: str, tmp_path: Path) -> None:
    class Stopped(Toy):
        def drawn(self, number: int) -> tuple[torch.Tensor, ...]:
            if number == 13:
                raise SystemExit
            return super().drawn(number)

    train(tmp_path / "whole", {"optimizer": optimizer})
    with pytest.raises(SystemExit):
        train(tmp_path / "run", {"optimizer": optimizer}, Stopped())
    train(tmp_path / "run", {"optimizer": optimizer})
    a, b = ends(tmp_path / "whole"), ends(tmp_path / "run")
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_a_captured_run_goes_on_where_nothing_can_be_captured_and_says_so(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "execution_for", lambda task, config: ("graph", ""))
        patch.setattr(loop, "hindrance", lambda task, config: None)
        train(tmp_path, {"optimizer": "muon", "steps": 6})
    state = json.loads((tmp_path / "checkpoint/step-00000006/state.json").read_bytes())
    assert state["execution"] == "graph"
    said: list[str] = []
    ended = train(tmp_path, {"optimizer": "muon", "steps": 9}, hook=said.append)
    assert (ended.step, ended.execution) == (9, "eager")
    assert said == [
        "Steps are no longer captured, because graphs are CUDA's, and the device is cpu."
    ]


def test_what_is_chosen_follows_from_device_shapes_and_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, config = Toy(), Train(steps=1000)
    assert execution_for(task, config) == (
        "eager",
        "graphs are CUDA's, and the device is cpu",
    )
    assert execution_for(task, Train(execution="eager"))[0] == "eager"
    with pytest.raises(UserError, match=r"train\.execution must be 'auto' or 'eager' here.*cpu"):
        execution_for(task, Train(execution="graph"))
    monkeypatch.setattr(capture, "_device", lambda task: "cuda")
    assert execution_for(task, config) == ("graph", "")
    assert execution_for(task, Train(execution="graph", steps=1))[0] == "graph"
    assert "fewer than 200 steps" in execution_for(task, Train(steps=199))[1]
    monkeypatch.setattr(capture, "HEAVY", 1e5)
    assert "long enough" in execution_for(task, config)[1]


def test_what_cannot_be_captured_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "_device", lambda task: "cuda")
    assert hindrance(Toy(), Train()) is None
    assert "recompute" in str(hindrance(Toy(), Train(recompute="blocks")))

    class Undrawn:
        model = nn.Linear(2, 2)

    assert "does not draw" in str(hindrance(Undrawn(), Train()))  # type: ignore[arg-type]
    monkeypatch.setattr(capture, "processes", lambda: 2)
    assert "several processes" in str(hindrance(Toy(), Train()))


@pytest.mark.usefixtures("captured")
def test_a_loss_that_is_no_number_stops_a_captured_run_too(tmp_path: Path) -> None:
    class Torn(Broken):
        def loss_on(self, drawn: tuple[torch.Tensor, ...]) -> torch.Tensor:
            loss = super().loss_on(drawn)
            return loss * torch.nan if self.seen == self.step else loss

        def drawn(self, number: int) -> tuple[torch.Tensor, ...]:
            self.seen = number
            return super().drawn(number)

    with pytest.raises(UserError, match="train_loss is no longer a number at step 5"):
        train(tmp_path, task=Torn(4))
