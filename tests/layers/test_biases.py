"""Biases with parameters, each against its formula in a loop, through Attention."""

import pytest
import torch

from atento.core.biases import Alibi
from atento.core.tap import tapped
from atento.layers.attention import Attention
from atento.layers.biases import ShawTable, T5Table
from layers.twins import Seen

X = torch.randn(2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def scores_with(bias) -> tuple[Attention, torch.Tensor, torch.Tensor]:
    """The module, its scores, and those of the same module without the bias."""
    torch.manual_seed(0)
    attention = Attention(6, 3, head_width=7, bias=bias).double()
    seen = Seen()
    with tapped(attention, seen):
        attention(X)
        attention.bias = None
        attention(X)
    return attention, *seen.all_scores


def test_the_t5_table_adds_its_entry_for_each_distance():
    table = T5Table(3, 32).double()
    _, biased, plain = scores_with(table)
    for i in range(5):
        for j in range(5):
            # Distances below 8 have a bucket each; those ahead start at half, 16.
            entry = table.table[abs(i - j) + (16 if j > i else 0)]
            torch.testing.assert_close(biased[:, :, i, j] - plain[:, :, i, j], entry.expand(2, 3))


def test_the_shaw_table_is_clipped_at_its_reach_and_takes_the_scale():
    table = ShawTable(2, 7).double()
    attention, biased, plain = scores_with(table)
    q = attention.query(X).view(2, 5, 3, 7)
    for i in range(5):
        for j in range(5):
            r = table.keys[max(-2, min(2, j - i)) + 2]
            expected = (q[:, i] * r).sum(-1) / 7**0.5
            torch.testing.assert_close(biased[:, :, i, j] - plain[:, :, i, j], expected)


def test_constant_biases_need_no_module_and_join_the_given_one():
    attention = Attention(6, 3, head_width=7, bias=Alibi.standard(3)).double()
    twice = Attention(6, 3, head_width=7, bias=Alibi(2 * Alibi.standard(3).slopes)).double()
    twice.load_state_dict(attention.state_dict())
    torch.testing.assert_close(attention(X, bias=Alibi.standard(3)), twice(X))
    assert [name for name, _ in attention.named_buffers()] == ["bias.tensor_0"]


@pytest.mark.parametrize("bias", [T5Table(3), ShawTable(2, 7)])
def test_the_tables_are_learned(bias):
    attention = Attention(6, 3, head_width=7, bias=bias)
    attention(X.float()).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in bias.parameters())
    assert "bias." in " ".join(attention.state_dict())


def test_errors_name_what_is_too_small():
    with pytest.raises(ValueError, match="buckets must be ≥ 4"):
        T5Table(3, 2)
    with pytest.raises(ValueError, match="reach must be ≥ 1"):
        ShawTable(0, 7)
