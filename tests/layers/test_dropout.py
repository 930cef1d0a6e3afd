"""Dropout wherever a model has it: the expectation is kept, and evaluation is the identity."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from atento.core.attend import attend
from atento.layers.attention import Attention
from atento.layers.block import Block
from atento.layers.feedforward import FeedForward
from atento.layers.residual import PostNorm, PreNorm
from atento.models.build import build
from atento.models.config import ModelConfig

DRAWS, N, C = 20_000, 5, 6
X = torch.linspace(-2, 3, N * C).reshape(1, N, C)


def embedded(p: float) -> tuple[Callable[[], Tensor], Tensor, nn.Module]:
    """What the first block of a model is given; what it would be without dropout."""
    torch.manual_seed(0)
    model = build(ModelConfig(width=C, heads=2, layers=1, context=N, vocabulary=11, dropout=p))
    tokens = torch.arange(N)[None]
    given: list[Tensor] = []
    model.blocks[0].register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))

    def drawn() -> Tensor:
        model.states(tokens.expand(DRAWS // 20, -1))
        return given.pop()

    kept = model.embedding(tokens) + model.positions(torch.arange(N))
    return drawn, kept.detach(), model


def branch(kind: type[PreNorm] | type[PostNorm], p: float):
    """x + drop(f(x)), less x."""
    module = kind(nn.Identity(), dropout=p)
    x = X.expand(DRAWS // 20, -1, -1)
    return lambda: module(x, lambda y: 2 * y) - x, 2 * X, module


def weights(p: float):
    """Attention's output, which is linear in the weights that are dropped."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, N, 3) for _ in range(3))
    many = [x.expand(DRAWS // 20, -1, -1, -1) for x in (q, k, v)]

    class Door(nn.Module):
        def forward(self) -> Tensor:
            return attend(*many, dropout=p if self.training else 0.0)

    return (module := Door()), attend(q, k, v), module


PLACES = {
    "embeddings": embedded,
    "pre-norm branch": lambda p: branch(PreNorm, p),
    "post-norm branch": lambda p: branch(PostNorm, p),
    "attention weights": weights,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("p", [0.2, 0.7])
@torch.no_grad()
def test_dropout_keeps_the_expectation(place: str, p: float) -> None:
    drawn, kept, module = PLACES[place](p)
    torch.manual_seed(1)
    module.train()
    total, squares = torch.zeros_like(kept).double(), torch.zeros_like(kept).double()
    for _ in range(20):
        values = drawn().double()
        total += values.sum(0, keepdim=True)
        squares += values.square().sum(0, keepdim=True)
    mean = total / DRAWS
    error = ((squares / DRAWS - mean.square()) / DRAWS).clamp(min=1e-16).sqrt()
    assert ((mean - kept).abs() <= 5 * error + 1e-5).all()  # five standard errors of a mean
    assert (error > 1e-7).any()  # something was dropped


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_in_evaluation_dropout_is_the_identity(place: str) -> None:
    drawn, kept, module = PLACES[place](0.5)
    module.eval()
    found = drawn()
    torch.testing.assert_close(found, kept.expand_as(found))


@torch.no_grad()
def test_in_evaluation_a_model_with_dropout_is_the_one_without() -> None:
    config = {"width": C, "heads": 2, "layers": 3, "context": N, "vocabulary": 11}
    with_it, without = (build(ModelConfig(**config, dropout=p)) for p in (0.4, 0.0))
    without.load_state_dict(with_it.state_dict())
    tokens = torch.arange(N)[None]
    assert torch.equal(with_it.eval()(tokens), without.train()(tokens))
    assert not torch.equal(with_it.train()(tokens), without(tokens))


@torch.no_grad()
def test_each_draw_is_another_and_a_seed_repeats_it() -> None:
    block = Block(
        Attention(C, 2, dropout=0.3),
        FeedForward(C, 3 * C),
        lambda: PreNorm(nn.Identity(), dropout=0.3),
    )
    torch.manual_seed(5)
    first, second = block(X), block(X)
    torch.manual_seed(5)
    assert torch.equal(block(X), first)
    assert not torch.equal(first, second)
