"""The running average of the weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from atento.training.average import Average
from training.toy import Toy, train


def test_the_average_is_the_sum_by_hand() -> None:
    """d is 2/11, 3/12, 4/13 while the rise lasts, then the memory .3: a is 10, then these."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 10.0)
    average = Average(model, 0.3)
    found = []
    for step, weight in enumerate((1.0, 3.0, 2.0), 1):
        nn.init.constant_(model.weight, weight)
        average.update(step)
        found.append(average.tensors["weight"].item())
    first = 2 / 11 * 10 + 9 / 11 * 1
    second = 3 / 12 * first + 9 / 12 * 3
    assert found == pytest.approx([first, second, 0.3 * second + 0.7 * 2])


def test_in_its_place_the_model_is_the_average_and_then_itself_again() -> None:
    model = nn.Linear(3, 2)
    own = [p.detach().clone() for p in model.parameters()]
    average = Average(model, 0.9)
    nn.init.ones_(average.tensors["weight"])
    with average.in_place():
        assert (model.weight == 1).all()
    assert all(torch.equal(a, b) for a, b in zip(own, model.parameters(), strict=True))


def test_the_averaged_weights_are_judged_and_kept(tmp_path: Path) -> None:
    task = Toy()
    train(tmp_path, {"ema": 0.95, "steps": 5}, task)
    held = load_file(tmp_path / "checkpoint/step-00000005/optimizer.safetensors")
    kept = load_file(tmp_path / "model.safetensors")
    for name, own in task.model.named_parameters():
        assert torch.equal(kept[name], held[f"extra.average.{name}"])
        assert not torch.equal(kept[name], own)
