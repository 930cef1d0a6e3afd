"""The contract on a CUDA device: every path that serves there, in every dtype it serves."""

import itertools

import pytest
import torch
from torch import Tensor

from atento.core import paths
from atento.core.attend import attend, attend_lse
from atento.core.biases import Alibi, Bias, Shaw
from atento.core.call import checked
from atento.core.compose import Mask
from atento.core.masks import Causal, Global, Window
from atento.core.scores import Dot
from atento.core.tables import Documents, Padding

pytestmark = pytest.mark.gpu
B, H, HK, N, D = 2, 4, 2, 257, 64
LIMITS = {torch.float64: 1e-12, torch.float32: 5e-6, torch.bfloat16: 3e-2}


def masks() -> dict[str, Mask | None]:
    ids = (torch.arange(N) // 60 - 1).cuda()
    return {
        "none": None,
        "causal": Causal(),
        "window": Window(37, 5),
        "packed": Window(20) & Documents(ids, packed=True),
        "global": Window(3) | Global([2, 70]),
        "padding, empty rows": Window(5) & ~Padding(torch.tensor([200, 0]).cuda()),
    }


def biases() -> dict[str, Bias | None]:
    return {
        "none": None,
        "alibi": Alibi.standard(H).to("cuda"),
        "shaw": Shaw(torch.randn(7, D, device="cuda")),
    }


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("path", ["auto", *paths.PATHS])
@pytest.mark.parametrize("mask", list(range(6)))
def test_every_path_equals_the_float64_reference(path: str, mask: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    chosen = list(masks().values())[mask]
    for bias, score in itertools.product(biases().values(), (Dot(), Dot(softcap=2.0))):
        qkv = [
            torch.randn(B, h, N, D, device="cuda").to(dtype).requires_grad_() for h in (H, HK, HK)
        ]
        call = checked(*qkv, chosen, bias, score, 0.0, None)
        if path != "auto" and paths.PATHS[path].refusal(call) is not None:
            continue
        wide = [x.detach().double().requires_grad_() for x in qkv]
        exact = attend(*wide, mask=chosen, bias=bias, score=score, path="reference")
        found = attend(*qkv, mask=chosen, bias=bias, score=score, path=path)
        pull = torch.randn_like(exact)
        expected = torch.autograd.grad(exact, wide, pull)
        gradients = torch.autograd.grad(found, qkv, pull.to(dtype))
        for x, y in zip((found, *gradients), (exact, *expected), strict=True):
            assert x.isfinite().all()
            assert (x.double() - y).abs().max() <= LIMITS[dtype] * max(1.0, float(y.abs().max()))
        empty = exact.detach().abs().sum(-1) == 0
        assert (found[empty] == 0).all()


def test_explicit_masks_do_not_reach_cudnn() -> None:
    """pytorch#196678: NaN gradients at L % 128 = 64 with an explicit mask and far-off logits."""
    torch.manual_seed(0)
    q, k, v = (
        (torch.randn(1, 2, 192, 64, device="cuda") * 30).bfloat16().requires_grad_()
        for _ in range(3)
    )
    out = attend(q, k, v, mask=Window(50) & Padding(torch.tensor([150]).cuda()), path="sdpa")
    assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), (q, k, v)))


def test_sinks_and_the_lse_have_gradients() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 131, 64, device="cuda", requires_grad=True) for _ in range(3))
    sink = torch.randn(2, device="cuda", requires_grad=True)

    def results(path: str) -> list[Tensor]:
        out, lse = attend_lse(q, k, v, mask=Window(9), score=Dot(sink=sink), path=path)
        return list(torch.autograd.grad(out.sum() + lse.sin().sum(), (q, k, v, sink)))

    for path in ("flex", "chunked"):
        for x, y in zip(results(path), results("reference"), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
