"""Each setting resumes to the bit, stops when it should, and refuses what it cannot be."""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from atento.errors import UserError
from atento.training.config import CHOICES, Train
from atento.training.loop import read_metrics
from training.toy import Toy, train

SETTINGS = [
    {"optimizer": "muon", "decay": 0.3, "decay_rest": 0.1},
    {"schedule": "linear"},
    {"schedule": "constant", "clip": 0.0},
    {"accumulate": 3},
    {"recompute": "blocks"},
    {"ema": 0.9},
    {"patience": 3},
    {"precision": "bfloat16"},
    {"optimizer": "muon", "accumulate": 2, "recompute": "blocks", "ema": 0.99},
]


class Signalled(Toy):
    """Is told to end in the midst of a step."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__()
        self.step, self.number = step, number

    def loss(self, number: int) -> torch.Tensor:
        if number == self.step:
            os.kill(os.getpid(), self.number)
        return super().loss(number)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("given", SETTINGS, ids=lambda given: "-".join(given))
def test_each_setting_resumes_to_the_bit(given: dict[str, object], tmp_path: Path) -> None:
    train(tmp_path / "whole", given)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", given, Signalled(7, signal.SIGTERM))
    done = 7 // int(str(given.get("accumulate", 1))) + 1
    assert (tmp_path / f"run/checkpoint/step-{done:08}").is_dir()
    torch.rand(13)
    train(tmp_path / "run", given)
    for name in ("model", "checkpoint/step-00000017/model", "checkpoint/step-00000017/optimizer"):
        left, right = (
            load_file(tmp_path / folder / f"{name}.safetensors") for folder in ("whole", "run")
        )
        assert left.keys() == right.keys()
        assert all(torch.equal(left[k], right[k]) for k in left), name


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_the_handlers_are_given_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    train(tmp_path, {"steps": 1})
    assert signal.getsignal(signal.SIGTERM) is before


class Judged(Toy):
    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self.losses = losses

    def evaluate(self) -> dict[str, float]:
        return {"val_loss": self.losses.pop(0)}


def test_stops_after_as_many_evaluations_without_a_better_one(tmp_path: Path) -> None:
    given = {"evaluate_every": 2, "checkpoint_every": 50, "patience": 2, "steps": 40}
    said: list[str] = []
    task = Judged([5.0, 6.0, 4.0, 4.0, 4.5, 1.0])
    state = train(tmp_path, given, task, hook=said.append)
    assert (state.step, state.best, state.stale) == (10, 4.0, 2)
    assert len(said) == 1
    assert "Stopped early" in said[0]
    assert (tmp_path / "checkpoint/step-00000010").is_dir()
    again = train(tmp_path, given, Judged([]))  # it stays stopped
    assert again == state
    assert [r["step"] for r in read_metrics(tmp_path)] == [2, 4, 6, 8, 10]


class Broken(Toy):
    """From a step on its loss, or only its gradient, is no number."""

    def __init__(self, step: int, only_gradient: bool = False) -> None:
        super().__init__()
        self.step, self.only_gradient = step, only_gradient

    def loss(self, number: int) -> torch.Tensor:
        loss = super().loss(number)
        if number != self.step:
            return loss
        return (
            loss.sqrt().sub(loss.detach().sqrt()).sqrt() if self.only_gradient else loss * torch.nan
        )


@pytest.mark.parametrize("only_gradient", [False, True])
@pytest.mark.parametrize("step", [0, 2, 8, 9, 10])
def test_a_loss_that_is_no_number_is_placed_and_never_saved(
    step: int, only_gradient: bool, tmp_path: Path
) -> None:
    what = "the gradient" if only_gradient else "train_loss"
    rate = 0.01 * (step + 1) / 3 if step < 3 else r"0\.0\d+"
    shown = f"{rate:.3g}" if isinstance(rate, float) else rate
    says = rf"{what} is no longer a number at step {step + 1}, with learning rate {shown} and "
    says += (
        r"gradient norm (nan|inf): training has diverged.*--train\.rate 0\.0033 instead of 0\.01"
    )
    with pytest.raises(UserError, match=says):
        train(tmp_path, task=Broken(step, only_gradient))
    for file in tmp_path.rglob("*.safetensors"):
        tensors = load_file(file).values()
        assert all(x.isfinite().all() for x in tensors if x.is_floating_point()), file
    assert all(int(p.name[5:]) <= step for p in tmp_path.glob("checkpoint/step-*"))


def test_muon_is_told_its_own_rate(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--train\.muon_rate 0\.0067 instead of 0\.02"):
        train(tmp_path, {"optimizer": "muon"}, Broken(4))


@pytest.mark.parametrize("name", CHOICES)
def test_an_unknown_choice_is_named_with_the_known_ones(name: str) -> None:
    known = ", ".join(CHOICES[name])
    with pytest.raises(UserError, match=rf"train\.{name} must be one of {known}; got 'other'"):
        Train(**{name: "other"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"accumulate": 0}, r"train\.accumulate must be at least 1"),
        ({"muon_rate": 0.0}, r"train\.muon_rate must be above 0.*Try 0\.02"),
        ({"ema": 1.0}, r"train\.ema must be at least 0 and below 1"),
        ({"ema": float("nan")}, r"train\.ema"),
        ({"stable": 1.5}, r"train\.stable must be a share, at most 1; got 1\.5"),
        ({"floor": 2.0}, r"train\.floor must be a share"),
        ({"patience": -1}, r"train\.patience must be at least 0"),
        ({"decay_rest": -0.1}, r"train\.decay_rest must be at least 0"),
    ],
)
def test_impossible_values_are_refused(given: dict[str, float], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Train(**given)
