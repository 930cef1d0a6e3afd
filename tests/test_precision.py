"""In float32, bfloat16 and float16, fast paths err at most twice as much as torch's dense SDPA."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from atento.core.attend import attend
from atento.core.biases import Alibi, DenseBias
from atento.core.compose import Mask
from atento.core.masks import Causal, Global, Window
from atento.core.tables import Documents, Padding

B, H, N, D = 2, 3, 389, 32
MASKS: dict[str, Mask | None] = {
    "none": None,
    "causal": Causal(),
    "window": Window(37, 5),
    "documents": Causal() & Documents(torch.arange(N) // 53 - 1),
    "longformer": Window(17, 17) | Global([3]),
    "padding": Padding(torch.tensor([N, 211])),
    "nothing for some": Window(5) & ~Padding(torch.tensor([200, 0])),
}
BIASES = {"none": None, "alibi": Alibi.standard(H), "dense": DenseBias(torch.randn(N, N))}

WAYS = [(bias, path) for path in ("auto", "sdpa", "chunked") for bias in BIASES]
WAYS += [("none", "short")]  # which knows no bias


def inputs(dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(7)
    return [torch.randn(B, H, N, D).to(dtype).requires_grad_() for _ in range(3)]


def error(found: list[Tensor], exact: list[Tensor]) -> Tensor:
    """The largest difference in out and in each gradient, beside the exact one's size."""
    pairs = zip(found, exact, strict=True)
    return torch.stack([(x.double() - y).abs().max() / y.abs().max() for x, y in pairs])


def results(out: Tensor, sources: list[Tensor]) -> list[Tensor]:
    pull = torch.linspace(-1, 1, out.numel()).view(out.shape).sin().to(out.dtype)
    return [out.detach(), *torch.autograd.grad((out * pull).sum(), sources)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("bias", "path"), WAYS)
def test_errors_are_at_most_twice_those_of_dense_sdpa(
    mask: str, bias: str, dtype: torch.dtype, path: str
) -> None:
    chosen, added = MASKS[mask], BIASES[bias]
    qkv = inputs(dtype)
    wide = [x.detach().double().requires_grad_() for x in qkv]
    exact = results(attend(*wide, mask=chosen, bias=added, path="reference"), wide)
    found = results(attend(*qkv, mask=chosen, bias=added, path=path), qkv)
    peer = results(scaled_dot_product_attention(*qkv, attn_mask=dense(chosen, added)), qkv)
    assert all(x.isfinite().all() for x in found)
    # A millionth of slack, for where the peer is exact by luck.
    assert (error(found, exact) <= 2 * error(peer, exact) + 1e-6).all()
    empty = exact[0].abs().sum(-1) == 0
    assert (found[0][empty] == 0).all()


def dense(mask: Mask | None, bias: Alibi | DenseBias | None) -> Tensor | None:
    """The mask and bias as the tensor that torch's SDPA takes."""
    allow = None if mask is None else mask.dense(N, N, B, H)
    if bias is None:
        return allow
    if isinstance(bias, DenseBias):
        added = bias.table
    else:
        far = (torch.arange(N)[:, None] - torch.arange(N)).abs()
        added = -bias.slopes[:, None, None] * far[None, None]
    return added if allow is None else added.masked_fill(~allow, -torch.inf)
