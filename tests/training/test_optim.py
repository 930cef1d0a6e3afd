"""AdamW by hand, what decays, what Muon has, and how long a gradient may be."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from atento.layers.embedding import TokenEmbedding
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.training.config import Train
from atento.training.optim import adamw, matrices, optimizers, set_rates
from training.toy import Toy, train


def test_norms_biases_and_embeddings_do_not_decay() -> None:
    model = build(ModelConfig(width=12, layers=2, heads=2, context=7, vocabulary=11))
    optimizer = adamw(model, Train(rate=0.1, decay=0.5))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        linear = name.endswith("weight") and "norm" not in name and "table" not in name
        expected = before[name] * (1 - 0.1 * 0.5) if linear else before[name]
        torch.testing.assert_close(parameter, expected, msg=name)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(before)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_zero_gradient_shrinks_by_one_minus_rate_times_decay(optimizer: str) -> None:
    model = nn.ModuleDict({"inside": nn.Linear(3, 5), "norm": nn.LayerNorm(5)})
    config = Train(
        optimizer=optimizer, rate=0.1, muon_rate=0.1, decay=0.5, decay_rest=0.2, warmup=0, steps=9
    )
    held = optimizers(model, config)
    before = [p.detach().clone() for p in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    set_rates(held, 0, config)
    for one in held:
        one.step()
    for was, (name, now) in zip(before, model.named_parameters(), strict=True):
        decay = 0.5 if name == "inside.weight" else 0.2
        torch.testing.assert_close(now, was * (1 - 0.1 * decay), msg=name)


def test_adamw_takes_three_hand_computed_steps() -> None:
    """β₁ .9, β₂ .99, η .1, λ .5, from w = 1 with the gradients 1, −2, 4.

    m: .1, −.11, .301; v: .01, .0499, .209401; each over 1 − βᵗ: .1, .19, .271; .01, .0199, .029701.
    The decay is apart from both, 1 − ηλ = .95:
    w₁ = 1 · .95 − .1 · (.1 / .1) / √(.01 / .01) = .85
    w₂ = .85 · .95 + .1 · (.11 / .19) / √(.0499 / .0199) = .8075000 + .0365608 = .8440608
    w₃ = .8440608 · .95 − .1 · (.301 / .271) / √(.209401 / .029701) = .8018577 − .0418305 = .7600272
    """
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    (optimizer,) = optimizers(model, Train(rate=0.1, decay=0.5, beta2=0.99))
    found = []
    for gradient in (1.0, -2.0, 4.0):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
        found.append(model.weight.item())
    assert found == pytest.approx([0.85, 0.8440608, 0.7600272], abs=1e-7)


def test_muon_has_the_matrices_and_adamw_the_rest() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = TokenEmbedding(11, 6, head=nn.Linear(6, 11))
            self.inside, self.norm = nn.Linear(6, 7), nn.LayerNorm(7)
            self.tied, self.table = nn.Linear(5, 3, bias=False), nn.Embedding(3, 5)
            self.tied.weight = self.table.weight

    model = Model()
    muon, rest = optimizers(model, Train(optimizer="muon"))
    assert isinstance(muon, torch.optim.Muon)
    assert isinstance(rest, torch.optim.AdamW)
    names = {id(p): name for name, p in model.named_parameters()}
    by = [[names[id(p)] for g in o.param_groups for p in g["params"]] for o in (muon, rest)]
    assert by[0] == ["inside.weight"]
    assert sorted(by[0] + by[1]) == sorted(names.values())
    decoder = build(ModelConfig(width=12, layers=2, heads=2, context=7, vocabulary=11))
    assert len(matrices(decoder)) == 2 * 6  # query, key, value, out, up, down


def test_muon_moves_a_matrix_by_the_nearest_orthogonal_one() -> None:
    """The first step is −η √max(1, rows/columns) U D Vᵀ of the gradient U S Vᵀ, D about 1."""
    torch.manual_seed(3)
    model = nn.Linear(5, 13, bias=False)
    before = model.weight.detach().clone()
    config = Train(optimizer="muon", muon_rate=0.1, decay=0.0, warmup=0, steps=9)
    held = optimizers(model, config)
    model.weight.grad = torch.randn(13, 5)
    set_rates(held, 0, config)
    left, _, right = torch.linalg.svd(model.weight.grad, full_matrices=False)
    held[0].step()
    moved = (before - model.weight.detach()) / (0.1 * math.sqrt(13 / 5))
    turned = left.T @ moved @ right.T
    assert (turned.diagonal() > 0.6).all()
    assert (turned.diagonal() < 1.3).all()
    assert (turned - turned.diagonal().diag()).abs().max() < 0.03


def test_each_optimizer_has_its_own_rate() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))
    config = Train(optimizer="muon", rate=0.003, muon_rate=0.02, warmup=4, steps=100)
    held = optimizers(model, config)
    set_rates(held, 1, config)
    rates = [group["lr"] for optimizer in held for group in optimizer.param_groups]
    assert rates == pytest.approx([0.01, 0.0015, 0.0015])


@pytest.mark.parametrize("clip", [0.01, 0.3, 0.0])
def test_no_gradient_is_longer_than_the_clip(clip: float, tmp_path) -> None:
    norms: list[float] = []

    def look(optimizer: torch.optim.Optimizer, *rest: object) -> None:
        of = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        norms.append(math.sqrt(sum(float(x.double().square().sum()) for x in of)))

    handle = register_optimizer_step_pre_hook(look)
    try:
        train(tmp_path, {"clip": clip})
    finally:
        handle.remove()
    assert len(norms) == 17
    if clip:
        assert max(norms) <= clip * (1 + 1e-5)
    else:
        assert max(norms) > 0.3


def test_accumulated_batches_are_one_large_batch(tmp_path) -> None:
    class Whole(Toy):
        def loss(self, number: int) -> Tensor:
            tokens = [self.tokens(5, 3 * number + n) for n in range(3)]
            return self._loss(torch.cat(tokens))

    plain = ModelConfig(width=12, layers=2, heads=2, context=7, vocabulary=11)
    parts, whole = Toy(plain), Whole(plain)
    train(tmp_path / "parts", {"accumulate": 3}, parts)
    train(tmp_path / "whole", {}, whole)
    for a, b in zip(parts.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4)
