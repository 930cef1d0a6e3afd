"""Parameters by part, by hand and as published."""

from typing import Any

import pytest
import torch
from torch import nn

from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.count import Count, count, counts
from models.test_build import SMALL, VARIANTS

GPT_2 = ModelConfig(width=768, layers=12, heads=12, context=1024, vocabulary=50_257, dropout=0.1)


def test_gpt_2_has_what_nanogpt_prints() -> None:
    """nanoGPT, transformer_sizing.ipynb: 123.653376M without, 124.439808M with wpe."""
    made = counts(GPT_2)["dot"]
    assert made.without_positions == 123_653_376
    assert made.total == 124_439_808
    assert made.positions == 1024 * 768
    assert made.embedding == 50_257 * 768
    assert made.attention == 12 * (4 * 768 * 768 + 4 * 768)
    assert made.feedforward == 12 * (2 * 768 * 3072 + 3072 + 768)
    assert made.norms == 25 * 2 * 768
    assert made.head == made.other == 0


def test_without_attention_the_rest_counts_the_same() -> None:
    """Lecture 003's model: 412,800, and 280,192 with the attentions and their norms gone."""
    made = counts(ModelConfig(vocabulary=109))
    assert list(made) == ["dot", "none"]
    assert made["dot"].total == 412_800
    gone = 2 * (4 * (128 * 128 + 128) + 2 * 128)
    assert made["none"].total == 412_800 - gone == 280_192
    assert made["none"].attention == 0
    for part in ("embedding", "positions", "feedforward", "head"):
        assert getattr(made["none"], part) == getattr(made["dot"], part)


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_parts_make_the_whole(given: dict[str, Any]) -> None:
    config = ModelConfig(**(SMALL | given))
    model = build(config)
    made = count(model)
    assert made.total == sum(p.numel() for p in model.parameters())
    assert made.other == 0
    assert made == counts(config)[config.attention]


def test_each_part_by_hand() -> None:
    config = ModelConfig(**(SMALL | {"kv_heads": 1, "qk_norm": True, "norm": "rms", "tied": False}))
    assert count(build(config)) == Count(
        embedding=13 * 30,
        positions=7 * 30,
        attention=2 * (2 * (30 * 30 + 30) + 2 * (30 * 10 + 10)),
        feedforward=2 * (30 * 11 + 11 + 11 * 30 + 30),
        norms=2 * (2 * 30 + 2 * 10) + 30,
        head=30 * 13,
    )


def test_what_has_no_name_is_counted_too() -> None:
    model = build(ModelConfig(**SMALL))
    before = count(model)
    model.extra = nn.Linear(3, 5)
    assert count(model).other == 3 * 5 + 5
    model.again = nn.Linear(3, 5, bias=False)
    model.again.weight = model.extra.weight  # one parameter, two names
    assert count(model).total == before.total + 20


def test_counting_touches_no_generator() -> None:
    state = torch.get_rng_state()
    counts(ModelConfig(vocabulary=109))
    assert torch.equal(torch.get_rng_state(), state)
