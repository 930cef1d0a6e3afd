"""The encoder-decoder Transformer: torch's, the lecture's, and the same in pieces."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from atento.core.tap import tapped
from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.decoding import Decoding
from atento.models.encoder_decoder import EncoderDecoder
from layers.twins import TOLERANCE, Seen, fill_block

B, N, M, V = 3, 7, 5, 13
SMALL: dict[str, Any] = {
    "kind": "encoder-decoder",
    "width": 30,
    "layers": 2,
    "heads": 3,
    "context": 11,
    "vocabulary": V,
    "hidden": 17,
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"placement": "post", "positions": "sinusoidal", "activation": "relu"},
    {"positions": "rotary", "norm": "rms", "qk_norm": True, "kv_heads": 1, "biased": False},
    {"positions": "alibi", "tied": False},
    {"positions": "none", "mask": "Causal() & Window(2)"},
    {"shared": False, "source_vocabulary": 19, "attention": "dot"},
]
SOURCE = torch.randint(1, V, (B, N), generator=torch.Generator().manual_seed(1))
TARGET = torch.randint(1, V, (B, M), generator=torch.Generator().manual_seed(2))
LENGTHS = torch.tensor([7, 2, 5])


def made(given: dict[str, Any]) -> EncoderDecoder:
    torch.manual_seed(0)
    model = build(ModelConfig(**(SMALL | given))).double().eval()
    assert isinstance(model, EncoderDecoder)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def close(one: Tensor, other: Tensor) -> None:
    """To 1e-12 of the largest."""
    assert one.shape == other.shape
    assert (one - other).abs().max() <= TOLERANCE * other.abs().max()


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_it_equals_torchs_transformer(placement: str) -> None:
    given = {"placement": placement, "positions": "none", "activation": "relu"}
    model = made(given)
    shape = {"d_model": 30, "nhead": 3, "dim_feedforward": 17, "dropout": 0.0}
    options = {"batch_first": True, "norm_first": placement == "pre", "dtype": torch.float64}
    encoders = [nn.TransformerEncoderLayer(**shape, **options).eval() for _ in range(2)]
    decoders = [nn.TransformerDecoderLayer(**shape, **options).eval() for _ in range(2)]
    for block, theirs in zip(
        [*model.encoder.blocks, *model.decoder.blocks], [*encoders, *decoders], strict=True
    ):
        fill_block(block, theirs)
    heard = model.embedding(SOURCE)
    beyond = torch.arange(N) >= LENGTHS[:, None]
    for layer in encoders:
        heard = layer(heard, src_key_padding_mask=beyond)
    heard = model.encoder.norm(heard)
    future = torch.ones(M, M, dtype=torch.bool).triu(1)
    h = model.embedding(TARGET)
    for layer in decoders:
        h = layer(h, heard, tgt_mask=future, memory_key_padding_mask=beyond)
    expected = model.decoder.norm(h) @ model.embedding.table.weight.mT
    close(model(SOURCE, TARGET, LENGTHS), expected)
    assert isinstance(model.decoder.norm, nn.Identity) == (placement == "post")


@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_one_pass_equals_stepwise_passes(given: dict[str, Any]) -> None:
    """Teacher forcing: every row of one pass is what a pass over the target so far says last."""
    model = made(given)
    whole = model(SOURCE, TARGET, LENGTHS)
    for t in range(1, M + 1):
        close(model(SOURCE, TARGET[:, :t], LENGTHS)[:, -1], whole[:, t - 1])


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_cached_decoding_equals_uncached(given: dict[str, Any], cached: bool) -> None:
    model = made(given)
    whole = model(SOURCE, TARGET, LENGTHS)
    decoding = Decoding(model, SOURCE, LENGTHS, cached=cached)
    for t in range(M):
        close(decoding.logits(TARGET[:, t]), whole[:, t])


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("given", VARIANTS[:3], ids=str)
def test_rows_go_on_in_any_order_several_times_or_not_at_all(
    given: dict[str, Any], cached: bool
) -> None:
    model = made(given)
    rows = torch.tensor([2, 0, 0, 2])
    whole = model(SOURCE[rows], TARGET[rows], LENGTHS[rows])
    decoding = Decoding(model, SOURCE, LENGTHS, cached=cached)
    for t in range(2):
        decoding.logits(TARGET[:, t])
    decoding.select(rows)
    for t in range(2, M):
        close(decoding.logits(TARGET[rows, t]), whole[:, t])


@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_padding_changes_nothing(given: dict[str, Any]) -> None:
    model = made(given)
    whole = model(SOURCE, TARGET, LENGTHS)
    longer = torch.cat([SOURCE, SOURCE[:, :3]], 1)
    close(model(longer, TARGET, LENGTHS), whole)
    ended = torch.cat([TARGET, torch.zeros(B, 2, dtype=torch.long)], 1)
    close(model(SOURCE, ended, LENGTHS)[:, :M], whole)
    for b, length in enumerate(LENGTHS.tolist()):
        close(model(SOURCE[b : b + 1, :length], TARGET[b : b + 1])[0], whole[b])


def test_the_future_leaks_in_the_encoder_and_not_in_the_decoder() -> None:
    model = made({})
    changed = TARGET.clone()
    changed[:, 3] = (changed[:, 3] + 1) % V
    one, other = model(SOURCE, TARGET), model(SOURCE, changed)
    assert torch.equal(one[:, :3], other[:, :3])
    assert not torch.equal(one[:, 3:], other[:, 3:])
    later = SOURCE.clone()
    later[:, -1] = (later[:, -1] + 1) % V
    states = [model.encoder.through(model.embedding(tokens)) for tokens in (SOURCE, later)]
    assert (states[0] - states[1]).abs().amax(-1).gt(1e-6).all()  # every token hears the last
    assert (model(later, TARGET) - one).abs().amax(-1).gt(1e-6).all()


def test_every_attention_has_a_slot_with_its_name() -> None:
    model, seen = made({}), Seen()
    with tapped(model, seen):
        model(SOURCE, TARGET, LENGTHS)
    assert seen.names == [
        *("encoder.blocks.0.attention", "encoder.blocks.1.attention"),
        *("decoder.blocks.0.attention", "decoder.blocks.0.cross"),
        *("decoder.blocks.1.attention", "decoder.blocks.1.cross"),
    ]
    assert [tuple(w.shape) for w in seen.all_weights][2:4] == [(B, 3, M, M), (B, 3, M, N)]
    for weights in seen.all_weights:
        close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert model.aligned == seen.names[-1]


def test_one_embedding_is_shared_and_tied_unless_told_apart() -> None:
    names = {name for name, _ in made({}).named_parameters() if "table" in name}
    assert names == {"embedding.table.weight", *(f"{s}.positions.table.weight" for s in SIDES)}
    apart = made({"shared": False, "source_vocabulary": 19, "tied": False})
    assert apart.source_embedding.table.weight.shape == (19, 30)
    assert apart.embedding.table.weight.shape == apart.embedding.head.weight.shape == (V, 30)


SIDES = ("encoder", "decoder")


def test_learned_positions_end_where_they_were_learned() -> None:
    model = made({})
    assert model.limit == 11
    with pytest.raises(UserError, match="at most 11 tokens"):
        model(SOURCE, torch.ones(B, 12, dtype=torch.long))
    assert made({"positions": "rotary"}).limit is None


def test_a_decoder_may_not_see_what_it_is_to_foretell() -> None:
    with pytest.raises(UserError, match="must hide the future"):
        made({"mask": "Full()"})
