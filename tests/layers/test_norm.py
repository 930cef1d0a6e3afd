"""The norms against their equations, written out."""

import pytest
import torch

from atento.layers.norm import LayerNorm, RMSNorm

X = torch.randn(2, 5, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 7 + 13


def test_layer_norm_gives_mean_0_and_variance_1_and_then_the_affine_map():
    norm = LayerNorm(11, eps=0.0).double()
    plain = norm(X)
    assert plain.mean(-1).abs().max() < 1e-12
    assert (plain.square().mean(-1) - 1).abs().max() < 1e-12  # the population variance
    with torch.no_grad():
        norm.weight.copy_(torch.arange(11.0))
        norm.bias.copy_(torch.arange(11.0).flip(0))
    expected = plain * torch.arange(11.0) + torch.arange(11.0).flip(0)
    torch.testing.assert_close(norm(X), expected, atol=1e-12, rtol=0)


def test_layer_norm_by_hand():
    # μ = 4, σ² = (9 + 1 + 1 + 9) / 4 = 5: population, not sample (20 / 3).
    out = LayerNorm(4, eps=0.0).double()(torch.tensor([1.0, 3.0, 5.0, 7.0], dtype=torch.float64))
    by_hand = torch.tensor([-3.0, -1.0, 1.0, 3.0], dtype=torch.float64) / 5**0.5
    torch.testing.assert_close(out, by_hand, atol=1e-15, rtol=0)


def test_layer_norm_without_bias_has_gamma_only():
    assert [name for name, _ in LayerNorm(7, biased=False).named_parameters()] == ["weight"]


def test_rms_norm_is_x_over_its_root_mean_square():
    norm = RMSNorm(11).double()
    with torch.no_grad():
        norm.weight.copy_(torch.arange(11.0))
    expected = torch.arange(11.0) * X / (X.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(norm(X), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rms_norm_takes_half_inputs_without_a_warning(dtype):
    out = RMSNorm(11)(X.to(dtype))
    assert out.dtype == dtype
    exact = X.to(dtype).double()
    expected = exact / (exact.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    # One rounding of the result, in units of the largest.
    assert (out.double() - expected).abs().max() < torch.finfo(dtype).eps * expected.abs().max()
