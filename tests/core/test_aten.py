"""torch's private operators: their signatures, and what they do with empty rows."""

import torch

from atento.core import aten


def test_private_operators_have_the_signatures_used_here() -> None:
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default._schema
    assert [a.name for a in forward.arguments] == [
        *("query", "key", "value", "dropout_p", "is_causal", "attn_mask", "scale")
    ]
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default._schema
    assert [a.name for a in backward.arguments] == [
        *("grad_out", "query", "key", "value", "out", "logsumexp", "dropout_p", "is_causal"),
        *("attn_mask", "scale"),
    ]


def test_flash_leaves_rows_without_a_key_at_zero() -> None:
    torch.manual_seed(0)
    q, k, v, grad = (torch.randn(2, 3, 7, 5) for _ in range(4))
    mask = torch.rand(1, 1, 7, 7) > 0.5
    mask[:, :, 2] = False
    out, lse = aten.flash_cpu(q, k, v, mask, False, 0.5)
    assert (out[:, :, 2] == 0).all()
    lse = lse.masked_fill(~mask.any(-1).expand(lse.shape), 0.0)
    found = aten.flash_cpu_backward(grad, (q, k, v, out, lse), mask, 0.5)
    assert all(x.isfinite().all() for x in found)
    assert (found[0][:, :, 2] == 0).all()


def test_autograd_records_inside_an_operator() -> None:
    @torch.library.custom_op("atento_test::slope", mutates_args=())
    def slope(x: torch.Tensor) -> torch.Tensor:
        with aten.autograd_inside():
            y = x.detach().requires_grad_()
            cube = (y**3).sum()
        return torch.autograd.grad(cube, y)[0]

    x = torch.randn(5, requires_grad=True)
    torch.testing.assert_close(slope(x), 3 * x.detach() ** 2)
