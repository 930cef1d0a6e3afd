"""Stacked steps of Muon beside torch's own."""

import pytest
import torch
from torch.optim import Muon

from atento.training.muon import StackedMuon

SHAPES = [(7, 7), (5, 11), (11, 5), (7, 7), (5, 11), (3, 1), (1, 3), (7, 7)]
SETTINGS = [
    {"lr": 0.02, "weight_decay": 0.1},
    {"lr": 0.3, "weight_decay": 0.0, "momentum": 0.7, "nesterov": False},
]


def matrices() -> list[torch.nn.Parameter]:
    draw = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in SHAPES]


def graded(weights: list[torch.nn.Parameter], step: int) -> None:
    draw = torch.Generator().manual_seed(step)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=draw)
    weights[3].grad = None  # takes no part


@pytest.mark.parametrize("given", SETTINGS)
def test_steps_are_those_of_torchs_muon(given: dict[str, float]) -> None:
    ours, theirs = matrices(), matrices()
    stacked, plain = StackedMuon(ours, **given), Muon(theirs, **given)
    for step in range(5):
        graded(ours, step)
        graded(theirs, step)
        stacked.step()
        plain.step()
    # Both iterate in bfloat16, whose sums are rounded in another order.
    for mine, its in zip(ours, theirs, strict=True):
        moved = given["lr"] * 5
        torch.testing.assert_close(mine, its, rtol=0, atol=0.02 * moved)
    assert torch.equal(ours[3], matrices()[3])


def test_a_checkpoint_of_one_is_a_checkpoint_of_the_other() -> None:
    weights = matrices()
    stacked = StackedMuon(weights, **SETTINGS[0])
    graded(weights, 0)
    stacked.step()
    plain = Muon(weights, **SETTINGS[0])
    plain.load_state_dict(stacked.state_dict())
    for mine, its in zip(stacked.state.values(), plain.state.values(), strict=True):
        assert mine.keys() == its.keys() == {"momentum_buffer"}
        assert torch.equal(mine["momentum_buffer"], its["momentum_buffer"])


def test_a_closure_is_called_with_gradients_on() -> None:
    weights = matrices()
    stacked = StackedMuon(weights, lr=0.1)

    def loss() -> torch.Tensor:
        total = sum(weight.square().sum() for weight in weights)
        total.backward()
        return total

    before = loss()
    for _ in range(3):
        stacked.zero_grad()
        after = stacked.step(loss)
    assert after < before


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("adjustment", [None, "original", "match_rms_adamw"])
def test_a_rate_that_is_a_tensor_makes_the_same_steps(
    nesterov: bool, decay: float, adjustment: str | None
) -> None:
    """As captured steps have it; torch's own, with numbers, is what both are measured by."""
    given = {"nesterov": nesterov, "weight_decay": decay, "adjust_lr_fn": adjustment}
    everyone = [matrices() for _ in range(3)]
    rate = torch.tensor(1.0, dtype=torch.float64)
    made = [
        StackedMuon(everyone[0], lr=rate, **given),
        StackedMuon(everyone[1], lr=1.0, **given),
        Muon(everyone[2], lr=1.0, **given),
    ]
    for step in range(5):
        rate.fill_(0.02 / (1 + step))
        for weights, optimizer in zip(everyone, made, strict=True):
            graded(weights, step)
            if optimizer is not made[0]:
                optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)
            optimizer.step()
    for still, plain, its in zip(*everyone, strict=True):
        torch.testing.assert_close(still, plain, rtol=1e-6, atol=2e-7)
        torch.testing.assert_close(still, its, rtol=1e-6, atol=2e-7)


def test_torchs_checkpoint_goes_on_with_a_rate_that_is_a_tensor() -> None:
    whole, parts = matrices(), matrices()
    plain, first = Muon(whole, **SETTINGS[0]), Muon(parts, **SETTINGS[0])
    rate = torch.tensor(0.02, dtype=torch.float64)
    second = StackedMuon(parts, lr=rate, weight_decay=0.1)
    for step in range(6):
        graded(whole, step)
        graded(parts, step)
        plain.step()
        if step == 3:
            second.load_state_dict(first.state_dict())
            second.param_groups[0]["lr"] = rate
        (first if step < 3 else second).step()
    for mine, its in zip(parts, whole, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-6, atol=2e-7)
