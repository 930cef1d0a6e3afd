"""The convolutional encoder hears as far as its formula says."""

import pytest
import torch

from atento.layers.convolution import Convolutional

SHAPES = [(1, 1, 1), (1, 3, 1), (2, 3, 1), (3, 5, 1), (3, 3, 2), (2, 5, 3)]


@pytest.mark.parametrize(("layers", "kernel", "dilation"), SHAPES)
def test_the_gradient_reaches_the_receptive_field_and_no_farther(layers, kernel, dilation):
    torch.manual_seed(0)
    model = Convolutional(3, layers, kernel=kernel, dilation=dilation).double()
    field = model.receptive_field
    assert field == {1: 1 + layers * (kernel - 1)}.get(dilation, field)
    length = 2 * field + 7
    x = torch.randn(1, length, 3, dtype=torch.float64, requires_grad=True)
    middle = length // 2
    model(x)[0, middle].sum().backward()
    reached = x.grad[0].abs().sum(-1).nonzero()[:, 0]
    assert (reached.min(), reached.max()) == (middle - field // 2, middle + field // 2)
    assert len(reached) == field  # and no gaps: the dilation is at most the kernel


def test_dilation_two_doubles_the_field_with_each_layer():
    fields = [Convolutional(2, n, dilation=2).receptive_field for n in (1, 2, 3, 4)]
    assert fields == [3, 7, 15, 31]


def test_a_layer_is_the_gated_linear_unit_of_its_neighbours():
    torch.manual_seed(0)
    model = Convolutional(2, 1).double()
    x = torch.randn(1, 5, 2, dtype=torch.float64)
    weight, bias = model.convolutions[0].weight, model.convolutions[0].bias
    beyond = torch.nn.functional.pad(x[0], (0, 0, 1, 1))
    for n in range(5):
        mapped = bias + sum(weight[:, :, j] @ beyond[n + j] for j in range(3))
        expected = x[0, n] + mapped[:2] * torch.sigmoid(mapped[2:])
        torch.testing.assert_close(model(x)[0, n], expected, rtol=0, atol=1e-12)


def test_padding_changes_nothing_before_it():
    torch.manual_seed(0)
    model = Convolutional(3, 3, kernel=5).double()
    x = torch.randn(2, 11, 3, dtype=torch.float64)
    lengths = torch.tensor([11, 4])
    out = model(x, lengths)
    torch.testing.assert_close(out[1, :4], model(x[1:, :4])[0], rtol=0, atol=1e-12)
    assert not out[1, 4:].any()
    other = x.clone()
    other[1, 4:] = 1e3
    assert torch.equal(model(other, lengths), out)


def test_dropout_falls_in_training_only():
    model = Convolutional(3, 2, dropout=0.5)
    x = torch.randn(1, 5, 3)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


@pytest.mark.parametrize(
    ("given", "said"),
    [({"kernel": 4}, "odd"), ({"dilation": 0}, "at least 1"), ({"layers": 0}, "at least 1")],
)
def test_shapes_that_cannot_be_are_named(given, said):
    with pytest.raises(ValueError, match=said):
        Convolutional(3, **({"layers": 2} | given))


def test_another_width_is_named():
    with pytest.raises(ValueError, match=r"\[B, N, 3\]"):
        Convolutional(3, 2)(torch.zeros(1, 5, 4))
