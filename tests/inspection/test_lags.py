"""Gradients vanish and explode in recurrent networks as the linear one says; gates mitigate."""

import statistics
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from atento.inspection.lags import gradient_by_lag
from atento.layers.recurrent import Recurrent, gru, lecture_gru, lstm, rnn

N, H = 31, 7


def turning(radius: float) -> Tensor:
    """radius times a rotation: of every power the norm is known."""
    generator = torch.Generator().manual_seed(5)
    return radius * torch.linalg.qr(torch.randn(H, H, generator=generator).double())[0]


def recurrence(weight: Tensor) -> tuple[Recurrent, Tensor]:
    torch.manual_seed(0)
    model = rnn(3, H).double()
    with torch.no_grad():
        for name, parameter in model.kernel.named_parameters():
            if "bias" in name:
                parameter.zero_()
        model.kernel.weight_hh_l0.copy_(weight)
    return model, model.kernel.weight_ih_l0.detach()


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.5])
def test_an_rnn_at_rest_falls_as_the_linear_rnn_does(radius):
    """At zero tanh has slope 1, so the RNN is the linear one: exactly ρ^t, vanishing, exploding."""
    model, mapped = recurrence(turning(radius))
    found = gradient_by_lag(model, torch.zeros(N, 3, dtype=torch.float64))
    expected = mapped.norm() * radius ** torch.arange(N, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_of_any_weights_the_rate_becomes_the_spectral_radius():
    torch.manual_seed(3)
    weight = torch.randn(H, H).double() / H**0.5
    model, mapped = recurrence(weight)
    found = gradient_by_lag(model, torch.zeros(401, 3, dtype=torch.float64))
    product = mapped
    for lag in range(N):
        torch.testing.assert_close(found[lag], product.norm(), rtol=1e-12, atol=0)
        product = weight @ product
    radius = torch.linalg.eigvals(weight).abs().max()
    rate = (found[400] / found[200]) ** (1 / 200)
    assert rate.item() == pytest.approx(radius.item(), rel=0.01)


def test_away_from_rest_tanh_makes_an_rnns_gradient_smaller():
    model, mapped = recurrence(turning(1.0))
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert gradient_by_lag(model, x)[-1] < 0.01 * mapped.norm()


def at_lag_100(made: Callable[..., Recurrent]) -> float:
    """The median over five seeds, with the weights that torch draws."""
    found = []
    for seed in range(5):
        torch.manual_seed(seed)
        model = made(1, 32).double()
        found.append(gradient_by_lag(model, torch.randn(101, 1, dtype=torch.float64))[100].item())
    return statistics.median(found)


def test_default_gates_barely_mitigate_and_open_ones_do():
    """Measured 2026-11: 4e-24, 1e-21, 7e-22, 9e-22 and .022 for forget gates held open."""
    plain = at_lag_100(rnn)
    gated = {made.__name__: at_lag_100(made) for made in (gru, lecture_gru, lstm)}
    assert 1e-26 < plain < 1e-22
    for name, value in gated.items():
        assert 10 * plain < value < 1e-18, name
    assert at_lag_100(partial(lstm, forget_bias=3.0)) == pytest.approx(0.02, rel=0.5)


def test_one_sequence_forwards_is_asked_for():
    with pytest.raises(ValueError, match=r"\[N, C\]"):
        gradient_by_lag(rnn(3, H), torch.zeros(1, N, 3))
    with pytest.raises(ValueError, match="forwards only"):
        gradient_by_lag(
            Recurrent(nn.RNN(3, H, batch_first=True, bidirectional=True)), torch.zeros(N, 3)
        )
