"""Normalisation of each token by itself: torch's modules, with their equations and our defaults."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["LayerNorm", "RMSNorm"]


class LayerNorm(nn.LayerNorm):
    """γ · (x − μ) / √(σ² + ε) + β, with the mean μ and the population variance σ² of each token.

    Ref: Ba et al. 2016, arXiv:1607.06450, equation 3.
    Claim: test_norm.py::test_layer_norm_gives_mean_0_and_variance_1_and_then_the_affine_map
    """

    def __init__(self, width: int, eps: float = 1e-5, *, biased: bool = True) -> None:
        super().__init__(width, eps, bias=biased)


class RMSNorm(nn.RMSNorm):
    """γ · x / √(mean(x²) + ε).

    torch's own ε depends on the dtype, and so would the outputs of a model moved to another one.
    Ref: Zhang and Sennrich 2019, arXiv:1910.07467, equation 4.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__(width, eps)

    def forward(self, x: Tensor) -> Tensor:
        # Under autocast x may be half and γ float32, which torch's fused kernel refuses with a
        # warning; γ in x's dtype then gives what a model kept in that dtype gives.
        weight = self.weight.to(x.dtype)
        return nn.functional.rms_norm(x, (x.shape[-1],), weight, self.eps)
