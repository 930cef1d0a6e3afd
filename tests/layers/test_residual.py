"""Residual connections and stochastic depth."""

import pytest
import torch
from torch import nn

from atento.layers.norm import LayerNorm
from atento.layers.residual import DropPath, PostNorm, PreNorm

X = torch.randn(2, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def _norm() -> LayerNorm:
    norm = LayerNorm(7).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


def test_a_zero_sublayer_gives_x_in_pre_norm():
    assert torch.equal(PreNorm(_norm())(X, torch.zeros_like), X)


def test_a_zero_sublayer_gives_the_norm_of_x_in_post_norm():
    norm = _norm()
    assert torch.equal(PostNorm(norm)(X, torch.zeros_like), norm(X))


def test_pre_norm_feeds_the_sublayer_the_norm_and_post_norm_feeds_it_x():
    norm = _norm()
    torch.testing.assert_close(PreNorm(norm)(X, torch.sin), X + norm(X).sin())
    torch.testing.assert_close(PostNorm(norm)(X, torch.sin), norm(X + X.sin()))


@pytest.mark.parametrize("p", [0.0, 0.2, 0.7])
def test_drop_path_expects_in_training_what_evaluation_gives(p):
    torch.manual_seed(0)
    drop, draws = DropPath(p), 40_000
    x = torch.tensor([1.0, -3.0]).expand(draws, 5, 2)
    out = drop(x)
    assert torch.equal(drop.eval()(x), x)
    # Five standard errors of a mean of scaled Bernoulli draws.
    error = 5 * 3 * (p / (1 - p) / draws) ** 0.5
    assert (out.mean((0, 1)) - x[0, 0]).abs().max() <= error + 1e-5


def test_drop_path_drops_whole_sequences_and_scales_the_others():
    torch.manual_seed(1)
    out = DropPath(0.5)(torch.ones(101, 5, 7))
    by_sequence = out.flatten(1)
    assert (by_sequence == by_sequence[:, :1]).all()
    assert set(by_sequence[:, 0].tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("kind", [PreNorm, PostNorm])
@pytest.mark.parametrize("chance", [{"dropout": 0.5}, {"drop_path": 0.5}])
def test_residuals_drop_the_sublayer_in_training_only(kind, chance):
    torch.manual_seed(0)
    residual = kind(nn.Identity(), **chance)
    x = torch.zeros(101, 5, 7)
    assert set(residual(x, torch.ones_like).unique().tolist()) == {0.0, 2.0}
    assert (residual.eval()(x, torch.ones_like) == 1).all()


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_a_p_that_is_no_probability_is_named(p):
    with pytest.raises(ValueError, match="p must be a probability"):
        DropPath(p)
