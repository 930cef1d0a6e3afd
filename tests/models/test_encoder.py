"""The encoder-only model reads both ways, and that alone tells it from the decoder."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import embedding, linear

from atento.core.masks import Causal
from atento.core.tables import Documents, Padding
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from layers.twins import TOLERANCE, fill_block
from models.plain import opinionated

SHAPE: dict[str, Any] = {"width": 20, "layers": 3, "heads": 2, "context": 7, "vocabulary": 11}
POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "none")


def leaks(model: nn.Module) -> bool:
    """Whether any earlier logit moves when a later token is exchanged."""
    tokens = torch.arange(14).reshape(2, 7) % 11
    for first in range(1, 7):
        changed = tokens.clone()
        changed[:, first:] = (changed[:, first:] + 3) % 11
        if not torch.equal(model(tokens)[:, :first], model(changed)[:, :first]):
            return True
    return False


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(("kind", "made_of"), [("decoder", Decoder), ("encoder", Encoder)])
def test_the_future_leaks_in_the_encoder_only(kind: str, made_of: type, positions: str) -> None:
    model = opinionated(ModelConfig(**SHAPE, kind=kind, positions=positions))
    assert type(model) is made_of
    assert leaks(model) is (kind == "encoder")


def test_every_token_hears_every_other() -> None:
    model = opinionated(ModelConfig(**SHAPE, kind="encoder"))
    tokens = torch.randint(11, (1, 7))
    heard = torch.autograd.functional.jacobian(
        lambda extra: _from_embeddings(model, tokens, extra)[0].sum(-1), torch.zeros(7).double()
    )
    assert (heard != 0).all()  # [7, 7]: each token's logits, moved by each token's embedding


def _from_embeddings(model: Encoder, tokens: torch.Tensor, extra: torch.Tensor) -> torch.Tensor:
    """Logits with a multiple of a fixed vector added to each token's embedding."""
    direction = torch.linspace(-1, 1, 20).double()
    hook = model.embedding.register_forward_hook(
        lambda module, given, out: out + extra[:, None] * direction
    )
    try:
        return model(tokens) * torch.arange(1, 12)
    finally:
        hook.remove()


def test_an_encoder_equals_torchs() -> None:
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(
        20, 2, 80, 0.0, activation="gelu", batch_first=True, norm_first=True
    )
    stack = nn.TransformerEncoder(layer, 3, nn.LayerNorm(20), enable_nested_tensor=False).double()
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.4)
    model = build(ModelConfig(**SHAPE, kind="encoder")).double()
    for ours, theirs in zip(model.blocks, stack.layers, strict=True):
        fill_block(ours, theirs)
    model.norm.load_state_dict(stack.norm.state_dict())
    tokens = torch.randint(11, (3, 5))
    table, places = model.embedding.table.weight, model.positions.table.weight
    expected = linear(stack(embedding(tokens, table) + places[:5]), table)
    assert (model(tokens) - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_padded_batch_equals_each_alone(positions: str) -> None:
    model = opinionated(ModelConfig(**SHAPE, kind="encoder", positions=positions))
    tokens, lengths = torch.randint(11, (3, 7)), torch.tensor([7, 5, 2])
    padded = model(tokens, mask=Padding(lengths))
    for row, length in enumerate(lengths):
        alone = model(tokens[row : row + 1, :length])[0]
        assert (padded[row, :length] - alone).abs().max() <= TOLERANCE * alone.abs().max()


def test_the_batchs_mask_joins_the_models() -> None:
    tokens = torch.randint(11, (2, 7))
    ids = torch.tensor([0, 0, 0, 1, 1, 1, 1]).expand(2, 7)
    packed = opinionated(ModelConfig(**SHAPE, positions="alibi"))
    out = packed(tokens, mask=Documents(ids))
    alone = packed(tokens[:, 3:])
    assert (out[:, 3:] - alone).abs().max() <= TOLERANCE * alone.abs().max()
    encoder = opinionated(ModelConfig(**SHAPE, kind="encoder"))
    decoder = build(ModelConfig(**SHAPE)).double().eval()
    decoder.load_state_dict(encoder.state_dict())
    gap = (encoder(tokens, mask=Causal()) - decoder(tokens)).abs().max()
    assert gap <= TOLERANCE * decoder(tokens).abs().max()


def test_without_attention_no_token_hears_another() -> None:
    model = opinionated(ModelConfig(**SHAPE, kind="encoder", attention="none"))
    assert not leaks(model)


def test_logits_at_places_are_those_of_all() -> None:
    model = opinionated(ModelConfig(**SHAPE, kind="encoder"))
    tokens, places = torch.randint(11, (2, 7)), torch.tensor([[0, 6, 3], [5, 1, 2]])
    whole, some = model(tokens), model(tokens, places=places)
    for row in range(2):
        torch.testing.assert_close(some[row], whole[row, places[row]])
