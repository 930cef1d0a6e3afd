"""Several linear maps of one input as one."""

import pytest
import torch
from torch import Tensor, nn

from atento.layers import joined
from atento.layers.attention import Attention


@pytest.mark.parametrize("biased", [True, False])
def test_joined_maps_equal_each_by_itself(biased: bool) -> None:
    torch.manual_seed(7)
    maps = [nn.Linear(5, n, bias=biased).double() for n in (3, 7, 11)]
    x = torch.randn(2, 13, 5, dtype=torch.float64)
    for found, m in zip(joined.linear(x, maps), maps, strict=True):
        assert torch.allclose(found, m(x), rtol=0, atol=1e-13)


def test_attention_learns_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    attention = Attention(12, 6, kv_heads=2).double()
    x = torch.randn(37, 11, 12, dtype=torch.float64)
    found = []
    for choice in (True, False):
        monkeypatch.setattr(joined, "pays", lambda x, maps, choice=choice: choice)
        attention.zero_grad()
        out = attention(x)
        out.square().sum().backward()
        found.append([out.detach(), *(p.grad for p in attention.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)


def test_it_is_for_training_on_many_tokens_in_half_types_alone() -> None:
    maps = [nn.Linear(12, n).bfloat16() for n in (12, 4, 4)]
    x = torch.randn(37, 11, 12, dtype=torch.bfloat16)
    assert joined.pays(x, maps)
    assert not joined.pays(x[:1], maps)  # too few tokens for the width
    assert not joined.pays(x.float(), maps)
    with torch.autocast("cpu", torch.bfloat16):
        assert joined.pays(x.float(), maps)
    with torch.no_grad():
        assert not joined.pays(x, maps)


def test_hooks_and_other_modules_stay_in_force() -> None:
    attention, x = Attention(12, 2).bfloat16(), torch.randn(37, 11, 12).bfloat16()
    assert joined.pays(x, (attention.query, attention.key, attention.value))
    seen: list[Tensor] = []
    with_hook = attention.key.register_forward_hook(lambda m, i, o: seen.append(o))
    attention(x)
    assert len(seen) == 1
    with_hook.remove()
    attention.value = nn.Sequential(attention.value)  # what a low-rank adapter does
    assert not joined.pays(x, (attention.query, attention.key, attention.value))
    expected = attention(x)
    attention.value = attention.value[0]
    assert torch.allclose(attention(x), expected, atol=2**-6)
