"""The path for training on short sequences, beside the reference."""

import pytest
import torch
from torch import Tensor

from atento.core import short
from atento.core.attend import attend, explain
from atento.core.masks import Causal, Window
from atento.core.tables import Padding

B, H, Q, D = 2, 6, 7, 5
MASKS = {
    "none": None,
    "causal": Causal(),
    "padding": Causal() & Padding(torch.tensor([5, 0])),  # rows that may attend to nothing
    "window": Window(2, 1),
}


def inputs(heads: int = H, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(7)
    shapes = ((B, H, Q, D), (B, heads, Q, D), (B, heads, Q, 3))
    return [torch.randn(s, dtype=dtype).requires_grad_() for s in shapes]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("heads", [H, 2])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_results_and_gradients_are_the_references(mask: str, heads: int, p: float) -> None:
    # Both draw a mask for the weights [B, H, Q, K] first, so one seed gives both the same.
    found = []
    for path in ("short", "reference"):
        qkv = inputs(heads)
        torch.manual_seed(11)
        out = attend(*qkv, mask=MASKS[mask], dropout=p, path=path)
        pull = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        found.append([out, *torch.autograd.grad((out * pull).sum(), qkv)])
    for mine, expected in zip(*found, strict=True):
        assert mine.isfinite().all()
        assert torch.allclose(mine, expected, rtol=0, atol=1e-13)


def test_gradients_pass_gradcheck() -> None:
    def call(*qkv: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(*qkv, mask=MASKS["padding"], dropout=0.2, path="short")

    assert torch.autograd.gradcheck(call, inputs())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_as_close_as_their_rounding(dtype: torch.dtype) -> None:
    qkv = inputs(dtype=torch.float32)
    exact = attend(*qkv, mask=Causal(), path="reference")
    found = attend(*(x.to(dtype) for x in qkv), mask=Causal(), path="short")
    assert found.dtype == dtype
    assert (found.float() - exact).abs().max() < 4 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize(("dtype", "p"), [(torch.bfloat16, 0.0), (torch.float32, 0.2)])
def test_auto_takes_it_for_training_on_short_rows_alone(dtype: torch.dtype, p: float) -> None:
    q, k, _ = inputs(dtype=dtype)
    assert explain(q, k, k, mask=Causal(), dropout=p).path == "short"
    with torch.no_grad():
        assert explain(q, k, k, mask=Causal(), dropout=p).path == "sdpa"
    x = torch.empty(1, 1, short.SHORT, 2, dtype=dtype, requires_grad=True)
    assert explain(x, x, x, mask=Causal(), dropout=p).path != "short"
    q, k, _ = inputs(dtype=torch.float32)
    assert explain(q, k, k, mask=Causal()).path == "sdpa"


def test_the_fast_way_through_the_door_leaves_short_rows_to_it() -> None:
    q, k, v = (inputs(dtype=torch.bfloat16)[0] for _ in range(3))
    out = attend(q, k, v, mask=Causal())
    assert out.grad_fn is not None
    assert "Short" in _names(out)


def _names(x: Tensor) -> str:
    names, node = "", x.grad_fn
    while node is not None:
        names += node.name()
        node = node.next_functions[0][0] if node.next_functions else None
    return names
