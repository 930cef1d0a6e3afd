"""Constants move with the model and stay exact."""

import copy
import pickle

import pytest
import torch

from atento.core.biases import Alibi, Shaw
from atento.core.masks import Causal, Global, Prefix
from atento.core.rotary import Rotary
from atento.layers.fixed import Fixed, owned


def test_what_was_given_comes_back_equal():
    held = Fixed(Rotary.standard(6))
    given = Rotary.standard(6)
    assert isinstance(held(), Rotary)
    assert held().structure == given.structure
    assert torch.equal(held().frequencies, given.frequencies)


def test_a_value_without_tensors_comes_back_itself():
    mask = Causal()
    assert Fixed(mask)() is mask


def test_tensors_inside_compositions_are_buffers_each():
    table = torch.tensor([True, False, True, False, True])
    held = Fixed((Causal() | Global(table)) & Prefix(torch.tensor([3])))
    assert len(list(held.buffers())) == 2
    assert held().structure == ((Causal() | Global(table)) & Prefix(torch.tensor([3]))).structure
    expected = ((Causal() | Global(table)) & Prefix(torch.tensor([3]))).dense(5, 5)
    assert torch.equal(held().dense(5, 5), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_change_of_dtype_leaves_constants_exact(dtype):
    held = Fixed(Rotary.standard(10)).to(dtype)
    assert torch.equal(held().frequencies, Rotary.standard(10).frequencies)


def test_a_change_of_device_moves_constants():
    held = Fixed(Alibi.standard(3)).to("meta")
    assert held().slopes.device.type == "meta"


def test_constants_are_not_in_the_state_dict_and_survive_copies():
    held = Fixed(Alibi.standard(5))
    assert not held.state_dict()
    for twin in (copy.deepcopy(held), pickle.loads(pickle.dumps(held))):  # noqa: S301
        assert torch.equal(twin().slopes, held().slopes)


def test_a_tensor_that_wants_gradients_is_refused():
    with pytest.raises(ValueError, match="Fixed holds constants; got a Shaw"):
        Fixed(Shaw(torch.zeros(3, 2, requires_grad=True)))


def test_owned_leaves_modules_as_they_are():
    held = Fixed(Alibi.standard(2))
    assert owned(held) is held
    assert isinstance(owned(Alibi.standard(2)), Fixed)
