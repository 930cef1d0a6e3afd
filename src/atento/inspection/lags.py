"""How much of what was heard long ago still reaches a recurrent network's state."""

import torch
from torch import Tensor

from atento.layers.recurrent import Recurrent

__all__ = ["gradient_by_lag"]


def gradient_by_lag(model: Recurrent, x: Tensor) -> Tensor:  # [N]
    """‖∂h_N / ∂x_{N−t}‖ for each lag t = 0 … N − 1: the Frobenius norm of the Jacobian.

    x: [N, C], one sequence. A linear recurrence h = W h' + U x has ‖W^t U‖, which falls or grows
    as ρ^t with W's spectral radius ρ; gates can hold it up, if they are open. Use float64: at a
    lag of 100 float32 may have nothing left.
    Ref: Bengio et al. 1994, Learning long-term dependencies with gradient descent is difficult;
    Pascanu et al. 2013, arXiv:1211.5063, section 2.
    Claim: test_lags.py::test_an_rnn_at_rest_falls_as_the_linear_rnn_does
    """
    if x.dim() != 2 or not len(x):
        raise ValueError(f"x must be [N, C], one sequence; got {list(x.shape)}.")
    if model.directions > 1:
        raise ValueError("model must read forwards only: backwards, the last token comes first.")
    hidden = model.kernel.hidden_size
    copies = x.detach().expand(hidden, -1, -1).clone().requires_grad_()
    with torch.enable_grad():
        # The n-th copy is asked for the n-th number of h, so one pass back gives the Jacobian.
        asked = model(copies)[0][:, -1].diagonal().sum()
        (jacobian,) = torch.autograd.grad(asked, copies)
    return jacobian.norm(dim=(0, 2)).flip(0)
