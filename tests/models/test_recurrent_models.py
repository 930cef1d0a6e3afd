"""The recurrent chain: every link by its equations, and the same in pieces."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from atento.core.tap import tapped
from atento.layers.recurrent import Recurrent
from atento.models.build import build
from atento.models.config import ATTENTIONS, ModelConfig
from atento.models.count import counts
from atento.models.decoding import Decoding
from atento.models.recurrent import RecurrentEncoderDecoder
from layers.twins import TOLERANCE, Seen

B, N, M, C, V = 3, 7, 5, 22, 13
SMALL: dict[str, Any] = {
    "kind": "recurrent",
    "width": C,
    "layers": 2,
    "context": 11,
    "vocabulary": V,
}
VARIANTS: list[dict[str, Any]] = [
    *({"attention": attention} for attention in ATTENTIONS["recurrent"]),
    *({"attention": attention, "fed": True} for attention in ("none", "dot", "concat")),
    {"attention": "additive", "unit": "lecture-gru", "bidirectional": True},
    {"attention": "general", "unit": "gru", "bidirectional": True, "tied": False},
    {"attention": "none", "unit": "rnn", "shared": False, "source_vocabulary": 19},
]
SOURCE = torch.randint(1, V, (B, N), generator=torch.Generator().manual_seed(1))
TARGET = torch.randint(1, V, (B, M), generator=torch.Generator().manual_seed(2))
LENGTHS = torch.tensor([7, 2, 5])


def made(given: dict[str, Any]) -> RecurrentEncoderDecoder:
    torch.manual_seed(0)
    model = build(ModelConfig(**(SMALL | given))).double().eval()
    assert isinstance(model, RecurrentEncoderDecoder)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def close(one: Tensor, other: Tensor) -> None:
    assert one.shape == other.shape
    assert (one - other).abs().max() <= TOLERANCE * other.abs().max().clamp(min=1)


def alone(unit: Recurrent, x: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, Any]:
    """One sequence [N, C] through layers that test_recurrent.py has proved."""
    out, state = unit(x[None], state=state)
    return out[0], state


def expected_logits(model: RecurrentEncoderDecoder, given: dict[str, Any], b: int) -> Tensor:
    """One pair, one step after another, from the papers' equations."""
    decoder, kind, fed = model.decoder, given["attention"], given.get("fed", False)
    embedding = model.source_embedding or model.embedding
    scale = C**0.5
    source = SOURCE[b, : LENGTHS[b]]
    h, state = alone(model.encoder, scale * embedding.table.weight[source], None)
    if given.get("bidirectional"):
        state = tuple(torch.cat([part[0::2], part[1::2]], -1) for part in state)
    context, told, rows = state[0][-1, 0], torch.zeros(C, dtype=torch.float64), []

    def looked_up(s: Tensor) -> Tensor:
        score = decoder.lookback.score
        grades = {
            "dot": lambda: h @ s,
            "general": lambda: (s @ score.weight[0]) @ h.mT,
            "additive": lambda: (s @ score.query + h @ score.key).tanh() @ score.v[0],
            "concat": lambda: (s @ score.query + h @ score.key).tanh() @ score.v[0],
        }[kind]().exp()
        return grades @ h / grades.sum()

    for token in TARGET[b]:
        y = scale * model.embedding.table.weight[token]
        if kind == "additive":
            c = looked_up(state[0][-1, 0])
            s, state = alone(decoder.recurrent, torch.cat([y, c])[None], state)
            said = (decoder.out.weight @ torch.cat([s[0], c, y])).tanh()
        else:
            more = [context if kind == "none" else told] if fed else []
            s, state = alone(decoder.recurrent, torch.cat([y, *more])[None], state)
            said = s[0]
            if kind != "none":
                said = told = (decoder.out.weight @ torch.cat([looked_up(said), said])).tanh()
        head = model.embedding.head or model.embedding.table
        rows.append(head.weight @ said)
    return torch.stack(rows)


@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_every_model_equals_its_equations(given: dict[str, Any]) -> None:
    model = made(given)
    with torch.no_grad():
        found = model(SOURCE, TARGET, LENGTHS)
        for b in range(B):
            close(found[b], expected_logits(model, given, b))


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_one_pass_equals_stepwise_passes(given: dict[str, Any], cached: bool) -> None:
    model = made(given)
    whole = model(SOURCE, TARGET, LENGTHS)
    decoding = Decoding(model, SOURCE, LENGTHS, cached=cached)
    for t in range(M):
        close(decoding.logits(TARGET[:, t]), whole[:, t])


@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_rows_go_on_in_any_order_several_times_or_not_at_all(given: dict[str, Any]) -> None:
    model, rows = made(given), torch.tensor([2, 0, 0, 2])
    whole = model(SOURCE[rows], TARGET[rows], LENGTHS[rows])
    decoding = Decoding(model, SOURCE, LENGTHS)
    for t in range(2):
        decoding.logits(TARGET[:, t])
    decoding.select(rows)
    for t in range(2, M):
        close(decoding.logits(TARGET[rows, t]), whole[:, t])


@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_padding_changes_nothing(given: dict[str, Any]) -> None:
    model = made(given)
    whole = model(SOURCE, TARGET, LENGTHS)
    close(model(torch.cat([SOURCE, SOURCE[:, :3]], 1), TARGET, LENGTHS), whole)
    for b, length in enumerate(LENGTHS.tolist()):
        close(model(SOURCE[b : b + 1, :length], TARGET[b : b + 1])[0], whole[b])


def test_the_fixed_context_is_all_that_is_known_of_the_source() -> None:
    """Two sources whose encoder ends alike are one to it, and two to a decoder that looks back."""
    for attention, alike in (("none", True), ("dot", False), ("additive", False)):
        model = made({"attention": attention})
        one = model.encode(SOURCE, LENGTHS)
        other = model.encode(SOURCE.flip(0), LENGTHS.flip(0))
        mixed = type(one)(one.state, other.heard, other.lengths)
        same = torch.equal(model.decode(TARGET, one), model.decode(TARGET, mixed))
        assert same == alike, attention


@pytest.mark.parametrize("attention", ["dot", "general", "concat", "additive"])
def test_alignments_have_a_slot_and_sum_to_one(attention: str) -> None:
    model, seen = made({"attention": attention}), Seen()
    with tapped(model, seen):
        model(SOURCE, TARGET, LENGTHS)
    assert set(seen.names) == {"decoder.lookback"} == {model.aligned}
    weights = torch.cat(seen.all_weights, 2)
    assert weights.shape == (B, 1, M, N)
    close(weights.sum(-1), torch.ones(B, 1, M, dtype=torch.float64))
    assert not weights[1, ..., 2:].any()


def test_without_attention_there_is_no_slot_and_no_alignment() -> None:
    model = made({"attention": "none"})
    assert model.aligned is None
    assert not [module for module in model.modules() if hasattr(module, "tap")]


def test_dropout_falls_in_training_only() -> None:
    model = made({"dropout": 0.5})
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.train()
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize("given", VARIANTS, ids=str)
def test_every_parameter_learns(given: dict[str, Any]) -> None:
    model = made(given)
    model(SOURCE, TARGET, LENGTHS).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_luongs_scores_have_fewer_parameters_than_bahdanaus() -> None:
    made = counts(ModelConfig(**SMALL))
    scores = {attention: count.attention for attention, count in made.items()}
    assert scores == {
        "none": 0,
        "dot": 0,
        "general": C**2,
        "concat": 2 * C**2 + C,
        "additive": 2 * C**2 + C,
    }
    assert all(count.other == 0 for count in made.values())
