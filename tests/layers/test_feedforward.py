"""The feed-forward network against its equation, written out."""

import pytest
import torch
from torch import nn

from atento.layers.feedforward import FeedForward, Gated, SquaredReLU

G = torch.Generator().manual_seed(5)
X = torch.randn(2, 5, 7, dtype=torch.float64, generator=G)
ACTIVATIONS = {
    "relu": nn.ReLU(),
    "gelu": nn.GELU(),
    "relu2": SquaredReLU(),
    "swiglu": Gated(),
    "geglu": Gated(nn.GELU()),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_changing_a_token_changes_its_own_row_only(name):
    net = FeedForward(7, 13, activation=ACTIVATIONS[name]).double()
    other = X.clone()
    other[1, 3] += 1
    before, after = net(X), net(other)
    changed = (before != after).any(-1)
    assert changed[1, 3]
    assert changed.sum() == 1


def test_swiglu_is_silu_of_one_half_times_the_other():
    net = FeedForward(7, 13, activation=Gated(), biased=False).double()
    first, second = net.up.weight[:13], net.up.weight[13:]
    a, b = X @ first.T, X @ second.T
    expected = (a / (1 + (-a).exp()) * b) @ net.down.weight.T
    torch.testing.assert_close(net(X), expected, atol=1e-12, rtol=0)


def test_squared_relu_by_hand():
    assert SquaredReLU()(torch.tensor([-2.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 9.0]


@pytest.mark.parametrize(
    ("biased", "count"), [(True, 7 * 28 + 28 + 28 * 7 + 7), (False, 2 * 7 * 28)]
)
def test_the_inner_width_is_four_times_the_outer_and_biases_can_be_left_out(biased, count):
    assert sum(p.numel() for p in FeedForward(7, biased=biased).parameters()) == count


def test_dropout_is_for_training_only():
    net = FeedForward(7, 13, dropout=0.5).double()
    assert not torch.equal(net(X), net(X))
    assert torch.equal(net.eval()(X), net(X))


@pytest.mark.parametrize("name", ["gelu", "relu2", "swiglu"])
def test_gradients_agree_with_finite_differences(name):
    net = FeedForward(3, 5, activation=ACTIVATIONS[name]).double()
    assert torch.autograd.gradcheck(net, torch.randn(2, 3, dtype=torch.float64, requires_grad=True))
