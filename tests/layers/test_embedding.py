"""Tokens to vectors and back."""

import pytest
import torch
from torch import nn

from atento.layers.embedding import TokenEmbedding

TOKENS = torch.tensor([[0, 3, 12], [7, 7, 1]])


def test_a_tied_head_is_the_embedding_itself():
    tied = TokenEmbedding(13, 5).double()
    h = torch.randn(2, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(tied.logits(h), h @ tied.table.weight.T)
    assert list(tied.state_dict()) == ["table.weight"]
    (tied(TOKENS).sum() + tied.logits(h).sum()).backward()
    assert tied.table.weight.grad.shape == (13, 5)


def test_a_tied_head_survives_the_state_dict_and_stays_tied():
    first, second = TokenEmbedding(13, 5), TokenEmbedding(13, 5)
    second.load_state_dict(first.state_dict())
    h = torch.randn(3, 5)
    assert torch.equal(first.logits(h), second.logits(h))
    with torch.no_grad():
        second.table.weight[3] = 0
    assert (second.logits(h)[:, 3] == 0).all()
    assert (second(TOKENS)[0, 1] == 0).all()


def test_a_free_head_has_weights_of_its_own():
    free = TokenEmbedding(13, 5, head=nn.Linear(5, 13, bias=False))
    assert list(free.state_dict()) == ["table.weight", "head.weight"]
    h = torch.randn(2, 3, 5)
    torch.testing.assert_close(free.logits(h), h @ free.head.weight.T)


def test_each_token_is_its_row_times_the_scale():
    scaled = TokenEmbedding(13, 5, scale=5**0.5)
    torch.testing.assert_close(scaled(TOKENS)[1, 0], scaled.table.weight[7] * 5**0.5)


@pytest.mark.parametrize("token", [13, -1])
def test_a_token_outside_the_vocabulary_is_named(token):
    with pytest.raises(ValueError, match=rf"tokens must be 0 … 12.*got .*{token}"):
        TokenEmbedding(13, 5)(torch.tensor([[0, token]]))
