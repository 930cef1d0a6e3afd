"""A config's every word is in the model that is built from it."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from atento.core.rotary import Rotary
from atento.errors import UserError
from atento.layers.attention import Attention
from atento.layers.feedforward import FeedForward
from atento.models.build import build, drawing_words, for_text
from atento.models.config import ModelConfig
from models.plain import opinionated, plain_logits

# Heads 3, each of 2 · 5 numbers, as rotations take pairs; the rest is prime.
SMALL: dict[str, Any] = {
    "width": 30,
    "layers": 2,
    "heads": 3,
    "context": 7,
    "vocabulary": 13,
    "hidden": 11,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "lecture": {},
    "without attention": {"attention": "none"},
    "sinusoidal": {"positions": "sinusoidal"},
    "rotary": {"positions": "rotary"},
    "another base": {"positions": "rotary", "base": 50.0},
    "linear": {"positions": "rotary", "extension": "linear", "factor": 2.5},
    "ntk": {"positions": "rotary", "extension": "ntk", "factor": 2.5, "base": 50.0},
    "alibi": {"positions": "alibi"},
    "no positions": {"positions": "none"},
    "rms": {"norm": "rms"},
    "relu": {"activation": "relu"},
    "relu2": {"activation": "relu2"},
    "swiglu": {"activation": "swiglu"},
    "no biases": {"biased": False},
    "qk": {"qk_norm": True},
    "shared keys": {"kv_heads": 1},
    "free head": {"tied": False},
    "encoder": {"kind": "encoder"},
    "encoder with alibi": {"kind": "encoder", "positions": "alibi", "norm": "rms"},
    "modern": {
        "positions": "rotary",
        "qk_norm": True,
        "norm": "rms",
        "activation": "relu2",
        "kv_heads": 1,
        "biased": False,
        "tied": False,
    },
}


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_variant_equals_the_equations(given: dict[str, Any]) -> None:
    config = ModelConfig(**(SMALL | given))
    model = opinionated(config)
    tokens = torch.randint(13, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(
            model(tokens), plain_logits(config, model, tokens), rtol=1e-11, atol=1e-11
        )


@pytest.mark.parametrize("kind", ["encoder-decoder", "recurrent"])
def test_a_model_of_pairs_is_refused_where_there_is_one_text(kind: str) -> None:
    model = build(ModelConfig(kind=kind, vocabulary=11))
    with pytest.raises(UserError, match=r"must be decoder or encoder.*Leave model\.kind out"):
        for_text(model)
    alone = build(ModelConfig(vocabulary=11))
    assert for_text(alone) is alone


def test_the_defaults_draw_the_same_weights_as_ever() -> None:
    """Lecture 003's model, drawn here in the order in which it was first drawn."""
    torch.manual_seed(7)
    model = build(ModelConfig(vocabulary=109))
    drawn = dict(model.state_dict())
    torch.manual_seed(7)
    for name, rows in (("embedding.table.weight", 109), ("positions.table.weight", 16)):
        assert torch.equal(
            drawn.pop(name), nn.init.normal_(nn.Embedding(rows, 128).weight, 0, 0.02)
        )
    for n in range(2):
        attention, feedforward = Attention(128, 2), FeedForward(128)
        for part in (attention, feedforward):
            for linear in (m for m in part.modules() if isinstance(m, nn.Linear)):
                nn.init.normal_(linear.weight, std=0.02)
                nn.init.zeros_(linear.bias)
        for last in (attention.out, feedforward.down):
            nn.init.normal_(last.weight, std=0.02 / math.sqrt(4))
        for name, part in (("attention", attention), ("feedforward", feedforward)):
            for key, expected in part.state_dict().items():
                assert torch.equal(drawn.pop(f"blocks.{n}.{name}.{key}"), expected)
    assert all(".norm." in f".{name}" for name in drawn)  # ones and zeros
    assert all(torch.equal(x, torch.full_like(x, k.endswith("weight"))) for k, x in drawn.items())


def test_weights_begin_as_is_said() -> None:
    config = ModelConfig(vocabulary=109, layers=3, width=120)
    first, last = map(float, re.findall(r"0\.\d+", drawing_words(config)))
    weights = {k: w for k, w in build(config).state_dict().items() if w.dim() == 2}
    ends = {k for k in weights if k.endswith(("attention.out.weight", "down.weight"))}
    assert len(ends) == 6
    for name, weight in weights.items():
        assert weight.std().item() == pytest.approx(last if name in ends else first, rel=0.06)


def test_yarn_is_told_the_factor_and_the_trained_context() -> None:
    given = {"positions": "rotary", "extension": "yarn", "factor": 4.0, "base": 500.0}
    model = build(ModelConfig(**(SMALL | given | {"context": 997})))
    made = model.blocks[1].attention.rotary()
    wanted = Rotary.yarn(10, 4.0, trained=997, base=500.0)
    assert torch.equal(made.frequencies, wanted.frequencies)
    assert made.amplitude == wanted.amplitude


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS.keys())
def test_biases_are_everywhere_or_nowhere(given: dict[str, Any]) -> None:
    model = build(ModelConfig(**(SMALL | given | {"biased": False})))
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]


def test_an_extension_fits_the_weights_trained_without_it() -> None:
    rotary = SMALL | {"positions": "rotary"}
    trained = opinionated(ModelConfig(**rotary))
    tokens = torch.randint(13, (2, 19))
    for extension in ("linear", "ntk", "yarn"):
        longer = build(ModelConfig(**rotary, extension=extension, factor=3.0)).double().eval()
        longer.load_state_dict(trained.state_dict())
        assert longer(tokens).isfinite().all()
        assert not torch.equal(longer(tokens), trained(tokens))


@pytest.mark.parametrize(
    ("given", "hidden"),
    [
        ({}, 120),
        ({"activation": "relu"}, 120),
        ({"activation": "swiglu"}, 80),
        ({"width": 128, "heads": 2, "activation": "swiglu"}, 344),
        ({"hidden": 17, "activation": "swiglu"}, 17),
    ],
)
def test_the_inner_width_keeps_the_parameters_unless_given(
    given: dict[str, Any], hidden: int
) -> None:
    model = build(ModelConfig(**(SMALL | {"hidden": 0} | given)))
    assert model.blocks[0].feedforward.down.in_features == hidden


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_variant_starts_at_ln_v_and_learns(given: dict[str, Any]) -> None:
    torch.manual_seed(2)
    model = build(ModelConfig(**(SMALL | given | {"vocabulary": 67})))
    tokens = torch.randint(67, (11, 7))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1).flatten())
    assert loss.item() == pytest.approx(math.log(67), abs=0.15)
    loss.backward()
    named = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    # A key's bias moves every score of a row alike, and so nothing.
    assert all(name.endswith("attention.key.bias") for name in named)


def test_the_head_width_of_shared_keys_is_the_queries() -> None:
    attention = build(ModelConfig(**(SMALL | {"kv_heads": 1}))).blocks[0].attention
    assert (attention.query.out_features, attention.key.out_features) == (30, 10)


def test_a_model_needs_a_vocabulary() -> None:
    with pytest.raises(UserError, match="vocabulary"):
        build(ModelConfig())


@pytest.mark.parametrize("mask", ["Full()", "Causal() | Prefix(4)", "Window(3, 1)"])
def test_a_decoders_mask_that_shows_the_future_is_refused(mask: str) -> None:
    with pytest.raises(UserError, match="must hide the future"):
        build(ModelConfig(context=7, vocabulary=11, mask=mask))


@pytest.mark.parametrize("mask", ["Causal()", "Window(3)", "Causal() & Dilated(2)"])
def test_an_encoders_mask_that_hides_the_future_is_refused(mask: str) -> None:
    with pytest.raises(UserError, match="must let it read both ways"):
        build(ModelConfig(kind="encoder", context=7, vocabulary=11, mask=mask))


def test_a_large_model_is_described_without_memory() -> None:
    config = ModelConfig(**(SMALL | {"mask": "longformer(3, [0, 1])", "kind": "encoder"}))
    with torch.device("meta"):
        model = build(replace(config, width=3 * 2**14, vocabulary=2**17))
    assert all(p.is_meta for p in model.parameters())
