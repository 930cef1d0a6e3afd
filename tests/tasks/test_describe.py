"""A description's numbers are those of counters that know nothing of its formulas."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.tasks.describe import describe, described, flat, mask_picture, mask_words

SMALL = ModelConfig(width=24, layers=3, heads=2, context=16, vocabulary=37)
KINDS = [
    {},
    {"attention": "none"},
    {"positions": "rotary", "norm": "rms", "activation": "swiglu", "kv_heads": 1},
    {"kind": "encoder", "mask": "Full()", "tied": False},
]


@pytest.mark.parametrize("given", KINDS)
def test_flops_are_what_pytorch_counts(given: dict[str, object]) -> None:
    config = replace(SMALL, **({"mask": ""} | given))
    model = build(config)
    # The counter knows the products of the plain formula, not those of the CPU's fused kernel.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(torch.zeros(5, 16, dtype=torch.long))
    made = describe(config, batch=5)
    # PyTorch counts all pairs, also those that the mask hides.
    hidden = 0 if config.attention == "none" else 4 * 24 * 3 * (16 - made.keys)
    assert counter.get_total_flops() / (5 * 16) == pytest.approx(made.forward_flops + hidden)


@pytest.mark.parametrize("given", KINDS[:2])
def test_activations_are_what_autograd_keeps(given: dict[str, object]) -> None:
    config = replace(SMALL, width=64, context=32, **given)
    model, kept = build(config), dict[int, int]()
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def keep(x: torch.Tensor) -> torch.Tensor:
        if x.untyped_storage().data_ptr() not in weights and x.is_floating_point():
            kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    tokens = torch.randint(37, (7, 33))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        logits = model(tokens[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.requires_grad
    estimate = describe(config, batch=7).activations_bytes
    assert sum(kept.values()) == pytest.approx(estimate, rel=0.25)


def test_lecture_003_by_hand() -> None:
    config = ModelConfig(vocabulary=66, context=16, width=128, layers=2, heads=2)
    made = describe(config, batch=64)
    block = 4 * (128 * 128 + 128) + 2 * 128 * 512 + 512 + 128 + 4 * 128
    assert made.parameters.total == 66 * 128 + 16 * 128 + 2 * block + 2 * 128
    assert made.keys == 8.5
    assert made.forward_flops == 2 * (2 * 12 * 128 * 128 + 66 * 128) + 4 * 2 * 128 * 8.5
    assert made.training_flops == 3 * made.forward_flops
    assert made.weights_bytes == 4 * made.parameters.total
    assert made.cache_bytes == 4 * 2 * 2 * 128 * 16
    assert made.training_bytes == 16 * made.parameters.total + made.activations_bytes


def test_both_counts_stand_beside_each_other() -> None:
    """By hand: two attentions of four maps with biases, and their norms, are what is gone."""
    gone = 2 * (4 * (128 * 128 + 128) + 2 * 128)
    for attention in ("dot", "none"):
        made = describe(ModelConfig(vocabulary=66, attention=attention), batch=64)
        assert made.beside == {"dot": 407_296, "none": 407_296 - gone}
        assert made.parameters.total == made.beside[attention]


def test_a_recipe_says_how_it_is_trained() -> None:
    made, _ = described("text", {"train.rate": "0.0123", "model.layers": "8"})
    assert "rate 0.0123" in made.training
    assert "deviation 0.02, 0.005 where" in made.training
    assert flat(made)["training"] == made.training


def test_gpt_2_is_described_without_being_allocated() -> None:
    config = ModelConfig(vocabulary=50257, context=1024, width=768, layers=12, heads=12)
    made = describe(config, batch=1)
    assert made.parameters.total == 124_439_808
    longer = describe(replace(config, context=4096, positions="rotary"), batch=1)
    assert longer.keys == pytest.approx((4096 + 1) / 2, rel=1e-3)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ("Causal()", "itself and all tokens before it."),
        ("Causal() & Window(3)", "before it; of these only itself and the 3 tokens before it."),
        ("Window(3, after=0)", "itself and the 3 tokens before it."),
        ("Causal() & ~Dilated(2)", "of these only (all but tokens at a distance that 2 divides)."),
        ("Causal() & (Window(1) | Prefix(2))", ", and to the first 2 tokens)."),
        ("Causal() & RandomBlocks(1, 2, 3)", "of these only RandomBlocks(1, 2, 3)."),
    ],
)
def test_masks_in_words(mask: str, says: str) -> None:
    assert mask_words(replace(SMALL, mask=mask)).endswith(says)


def test_a_mask_as_a_picture() -> None:
    config = replace(SMALL, context=4, mask="Causal() & Window(1)")
    assert mask_picture(config) == ["# . . .", "# # . .", ". # # .", ". . # #"]
    assert mask_picture(replace(config, attention="none"))[1] == ". # . ."
    assert mask_words(replace(config, attention="none")).startswith("Without attention")
    assert len(mask_picture(replace(SMALL, context=999))) == 16


def test_a_recipe_without_a_text_says_what_is_assumed() -> None:
    made, assumed = described("text", {"model.width": "64"})
    assert made.config.vocabulary == 100
    assert made.config.width == 64
    assert "100" in assumed
    with pytest.raises(UserError, match="must be one of"):
        described("nada", {})
