"""bfloat16 in matrix products, float32 elsewhere; chosen by what the hardware has."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from atento.training import precision
from atento.training.loop import read_metrics
from atento.training.precision import precision_for
from training.toy import Toy, train

LARGE = nn.Linear(300, 300)


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "bf16"])
def test_auto_is_float32_without_the_instructions(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = {"avx512_f": True, name: False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    assert precision_for("auto", LARGE) == "float32"
    has[name] = True
    assert precision_for("auto", LARGE) == "bfloat16"
    assert precision_for("auto", nn.Linear(30, 30)) == "float32"  # too small to pay
    assert precision_for("float32", LARGE) == "float32"
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert precision_for("auto", LARGE) == "float32"
    assert precision_for("bfloat16", LARGE) == "bfloat16"


def test_auto_does_what_float32_does_where_it_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda device: False)
    monkeypatch.setattr(precision, "WORTH_IT", 0)
    tasks = []
    for choice in ("auto", "float32"):
        tasks.append(Toy())
        train(tmp_path / choice, {"precision": choice}, tasks[-1])
    pairs = zip(*(task.model.parameters() for task in tasks), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_loss_is_within_a_hundredth_of_float32(tmp_path: Path) -> None:
    losses = []
    for choice in ("float32", "bfloat16"):
        given = {"precision": choice, "steps": 100, "evaluate_every": 100, "checkpoint_every": 100}
        train(tmp_path / choice, given)
        losses.append(read_metrics(tmp_path / choice)[-1]["val_loss"])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert losses[0] < 1.7  # it learns: a uniform guess has 2.4


def test_weights_state_and_loss_stay_float32(tmp_path: Path) -> None:
    seen = []

    class Watched(Toy):
        def loss(self, number: int) -> Tensor:
            loss = super().loss(number)
            seen.append((loss.dtype, self.model(self.tokens(2, 0)[:, 1:]).dtype))
            return loss

        def evaluate(self) -> dict[str, float]:
            seen.append((torch.float32, self.model(self.tokens(2, 0)[:, 1:]).dtype))
            return super().evaluate()

    train(tmp_path, {"precision": "bfloat16", "steps": 1}, Watched())
    assert seen == [(torch.float32, torch.bfloat16), (torch.float32, torch.float32)]
    for name in ("model", "optimizer"):
        for key, x in load_file(tmp_path / f"checkpoint/step-00000001/{name}.safetensors").items():
            if key not in ("generator.cpu", "extra.total"):
                assert x.dtype == torch.float32, key


def test_a_resumed_run_keeps_the_precision_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "WORTH_IT", 0)
    for fast, steps in ((True, 3), (False, 6)):
        monkeypatch.setattr(precision, "has_fast_bfloat16", lambda device, fast=fast: fast)
        assert train(tmp_path, {"steps": steps}).precision == "bfloat16"
    state = json.loads((tmp_path / "checkpoint/step-00000006/state.json").read_bytes())
    assert state["precision"] == "bfloat16"
