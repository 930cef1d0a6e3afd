"""Heads are turned off through the door, and what they are worth shows in the loss."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from atento.core.tap import Tap, tapped
from atento.errors import UserError
from atento.inspection.ablation import ablated, head_losses, mean, zero
from atento.layers.attention import Attention
from atento.models.config import ModelConfig
from models.plain import opinionated

B, N, TOKENS, HEADS, WIDTH = 5, 7, 11, 3, 13  # WIDTH: of a head
CRITICAL = ("upper.1", 2)
TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}
CONFIG = ModelConfig(width=15, heads=3, layers=2, context=N, vocabulary=TOKENS, dropout=0.5)


class Planted(nn.Module):
    """Foretells the token before each one: only head 2 of upper.1 looks there.

    A state is a token's one-hot vector beside its position's. The other heads say random things,
    ten times more softly.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)

        def layer() -> Attention:
            return Attention(TOKENS + N, HEADS, head_width=WIDTH, biased=False).double()

        self.lower, self.upper = layer(), nn.ModuleList([layer(), layer()])
        for attention in (self.lower, *self.upper):
            nn.init.normal_(attention.out.weight, std=0.1)
        self.plant(self.upper[1], CRITICAL[1])

    def plant(self, attention: Attention, head: int) -> None:
        rows = slice(head * WIDTH, (head + 1) * WIDTH)
        place = torch.eye(N, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            for linear in (attention.query, attention.key, attention.value):
                linear.weight[rows] = 0
            attention.query.weight[rows, TOKENS:] = 90 * place.roll(1, 0).T
            attention.key.weight[rows, TOKENS:] = place.T
            attention.value.weight[rows, :TOKENS] = torch.eye(WIDTH, TOKENS, dtype=torch.float64)
            attention.out.weight[:, rows] = 0
            attention.out.weight[:TOKENS, rows] = 9 * torch.eye(TOKENS, WIDTH, dtype=torch.float64)

    def forward(self, tokens: Tensor) -> Tensor:
        places = one_hot(torch.arange(N), N).double().expand(len(tokens), -1, -1)
        x = torch.cat([one_hot(tokens, TOKENS).double(), places], -1)
        heard = sum(attention(x) for attention in (self.lower, *self.upper))
        return heard[..., :TOKENS]


def planted_loss(model: nn.Module) -> float:
    g = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, TOKENS, (B, N), generator=g)
    logits = model(tokens)[:, 1:].detach()
    return float(cross_entropy(logits.flatten(0, 1), tokens[:, :-1].flatten()))


@pytest.mark.parametrize("to", [zero, mean])
def test_the_planted_critical_head_ranks_first(to):
    model = Planted()
    rows = head_losses(model, lambda: planted_loss(model), to)
    assert len(rows) == 3 * HEADS
    assert {(row.layer, row.head) for row in rows} == {
        (layer, head) for layer in ("lower", "upper.0", "upper.1") for head in range(HEADS)
    }
    assert (rows[0].layer, rows[0].head) == CRITICAL
    assert rows[0].difference > 1
    assert all(abs(row.difference) < 0.1 * rows[0].difference for row in rows[1:])
    falling = [row.difference for row in rows]
    assert falling == sorted(falling, reverse=True)
    whole = planted_loss(model)
    assert all(row.loss - whole == pytest.approx(row.difference, abs=1e-12) for row in rows)


def test_moved_elsewhere_the_planted_head_is_found_there():
    model = Planted()
    nn.init.normal_(model.upper[1].out.weight, std=0.1)
    model.plant(model.lower, 0)
    first = head_losses(model, lambda: planted_loss(model))[0]
    assert (first.layer, first.head) == ("lower", 0)


def tokens() -> Tensor:
    return torch.randint(1, TOKENS, (B, N), generator=torch.Generator().manual_seed(3))


def head_columns(model: nn.Module, layer: int, head: int) -> Tensor:
    """The output weights [C, D] that one head speaks through."""
    return model.blocks[layer].attention.out.weight.data.unflatten(1, (3, 5))[:, head]


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1, 2])
def test_a_head_turned_off_is_a_head_without_output_weights(layer, head):
    model, without = opinionated(CONFIG), opinionated(CONFIG)
    head_columns(without, layer, head).zero_()
    with ablated(model, {f"blocks.{layer}.attention": [head]}):
        torch.testing.assert_close(model(tokens()), without(tokens()), **TOLERANCE)


def test_a_head_at_its_mean_is_a_constant_in_the_bias():
    class Ear(Tap):
        def output(self, site, out):
            if site.name == "blocks.1.attention":
                self.heard = out[:, 2].flatten(0, 1).mean(0)  # [D]

    model, other, ear = opinionated(CONFIG), opinionated(CONFIG), Ear()
    with tapped(other, ear):
        other(tokens())
    columns = head_columns(other, 1, 2)
    other.blocks[1].attention.out.bias.data += columns @ ear.heard
    columns.zero_()
    with ablated(model, {"blocks.1.attention": [2]}, to=mean):
        torch.testing.assert_close(model(tokens()), other(tokens()), **TOLERANCE)


def test_all_heads_off_at_once_is_a_layer_that_says_its_bias():
    model, without = opinionated(CONFIG), opinionated(CONFIG)
    for block in without.blocks:
        block.attention.out.weight.data.zero_()
    with ablated(model, {f"blocks.{n}.attention": range(3) for n in range(2)}):
        torch.testing.assert_close(model(tokens()), without(tokens()), **TOLERANCE)


def test_afterwards_the_model_is_as_before_whatever_happened():
    model = opinionated(CONFIG).train()
    before = model.state_dict()
    with pytest.raises(RuntimeError, match="on the way"), ablated(model, {}):
        raise RuntimeError("on the way")

    def fails_late() -> float:
        fails_late.calls += 1
        if fails_late.calls == 4:
            raise RuntimeError("on the way")
        assert not model.training
        assert not torch.is_grad_enabled()
        return float(model(tokens()).sum())

    fails_late.calls = 0
    with pytest.raises(RuntimeError, match="on the way"):
        head_losses(model, fails_late)
    assert model.training
    assert all(module.tap is None for module in model.modules() if hasattr(module, "tap"))
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        ({"blocks.7.attention": [0]}, "blocks.0.attention, blocks.1.attention; got 'blocks.7"),
        ({"blocks.1.attention": [3]}, "head must be 0…2, as blocks.1.attention has 3; got 3."),
        ({"blocks.1.attention": [-1]}, "got -1"),
    ],
)
def test_an_unknown_layer_or_head_names_what_there_is(heads, says):
    model = opinionated(CONFIG)
    with pytest.raises(UserError, match=says), ablated(model, heads):
        model(tokens())
    assert all(module.tap is None for module in model.modules() if hasattr(module, "tap"))


def test_without_attention_there_is_nothing_to_turn_off():
    model = opinionated(ModelConfig(attention="none", width=6, vocabulary=TOKENS))
    with pytest.raises(ValueError, match="has no slot"):
        head_losses(model, lambda: 0.0)
