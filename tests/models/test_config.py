"""What cannot be built is refused in one line that says what to do."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from atento.errors import UserError
from atento.models.config import ModelConfig


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"width": 10, "heads": 3}, "Try --model.width 12"),
        ({"layers": 0}, "model.layers must be at least 1; got 0"),
        ({"dropout": 1.0}, "below 1"),
        ({"dropout": float("nan")}, "below 1"),
        ({"kind": "gpt"}, "one of decoder, encoder, encoder-decoder, recurrent; got 'gpt'"),
        ({"attention": "general"}, "must be one of dot, none in a model of kind decoder"),
        ({"kind": "encoder-decoder", "attention": "none"}, "must be one of dot in a model"),
        ({"fed": True}, "model.fed is for models of kind recurrent; got True in .* decoder. Leave"),
        ({"shared": False}, "for models of kind encoder-decoder and recurrent"),
        (
            {"kind": "recurrent", "heads": 4},
            "model.heads is for .*; got 4 in one of kind recurrent",
        ),
        ({"kind": "recurrent", "mask": "Causal()"}, "model.mask is for"),
        ({"kind": "recurrent", "fed": True, "attention": "additive"}, "of no use"),
        ({"kind": "recurrent", "bidirectional": True, "width": 5}, "Try --model.width 6"),
        (
            {"kind": "recurrent", "source_vocabulary": 7, "vocabulary": 5},
            "model.shared must be fal",
        ),
        ({"kind": "encoder-decoder", "width": 10, "heads": 3}, "Try --model.width 12"),
        ({"placement": "sandwich"}, "model.placement must be one of pre, post"),
        ({"attention": "full"}, "model.attention must be one of dot, none"),
        ({"positions": "rope"}, "one of learned, sinusoidal, rotary, alibi, none"),
        ({"norm": "batch"}, "model.norm must be one of layer, rms"),
        ({"activation": "tanh"}, "one of gelu, relu, relu2, swiglu"),
        ({"hidden": -1}, "model.hidden must be at least 0"),
        ({"kv_heads": -1}, "model.kv_heads must be at least 0"),
        ({"kv_heads": 4, "heads": 6, "width": 12}, "Try --model.kv_heads 2"),
        ({"extension": "yarn"}, 'for model.positions = "rotary"; got .yarn. with .learned.'),
        ({"extension": "dynamic", "positions": "rotary"}, "one of none, linear, ntk, yarn"),
        ({"factor": 2.0, "positions": "rotary"}, "got 2.0 with none. Try --model.extension"),
        ({"factor": 0.5}, "model.factor must be at least 1"),
        ({"factor": float("inf")}, "model.factor must be at least 1"),
        ({"base": 1.0, "positions": "rotary"}, "model.base must be at least 2"),
        ({"base": 100.0}, "for rotary and sinusoidal positions; got 100.0 with .learned."),
        ({"width": 15, "heads": 3, "positions": "rotary"}, "= 5. Try --model.width 18"),
        (
            {"width": 6, "heads": 3, "positions": "rotary", "extension": "ntk"},
            "at least 4 .* Try --model.width 12",
        ),
        ({"vocabulary": -1}, "vocabulary must be at least 0"),
    ],
)
def test_impossible_models_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        ModelConfig(**given)
    assert "\n" not in str(caught.value)


def test_every_field_says_what_it_is() -> None:
    for part in fields(ModelConfig):
        assert part.metadata.get("help") or part.metadata.get("from_data"), part.name


def test_a_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        ModelConfig().width = 3  # type: ignore[misc]


def test_the_mask_unless_given_is_the_kinds_own() -> None:
    assert ModelConfig().mask == "Causal()"
    assert ModelConfig(kind="encoder").mask == "Full()"
    assert ModelConfig(kind="encoder-decoder").mask == "Causal()"
    assert ModelConfig(kind="recurrent").mask == ""
    assert ModelConfig(kind="encoder", mask="Window(3, 3)").mask == "Window(3, 3)"


def test_attention_is_removed_by_one_word() -> None:
    rotary = ModelConfig(positions="rotary", qk_norm=True, kv_heads=1, mask="Causal() & Window(3)")
    assert replace(rotary, attention="none").attention == "none"
