"""A config becomes a model."""

import math

import torch
from torch import nn

from atento.core.biases import Alibi
from atento.core.compose import Mask
from atento.core.rotary import Rotary
from atento.errors import UserError
from atento.layers.attention import Attention
from atento.layers.block import Block
from atento.layers.embedding import TokenEmbedding
from atento.layers.feedforward import FeedForward, Gated, SquaredReLU
from atento.layers.norm import LayerNorm, RMSNorm
from atento.layers.positions import Learned, Sinusoidal
from atento.layers.residual import PreNorm
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from atento.models.mask import mask_from

__all__ = ["build", "drawing_words"]

CHECKED = 1024  # positions up to which a mask is tried for looking ahead
# GPT-2's. With torch's own, wider ones lecture 003's model ends at 2.11 instead of 2.00 on Tiny
# Shakespeare (one seed each, 2026-11).
SPREAD = 0.02


def build(config: ModelConfig) -> Decoder | Encoder:
    """A new model with weights drawn from torch's generator.

    Claim: test_build.py::test_the_defaults_draw_the_same_weights_as_ever
    """
    if not config.vocabulary:
        raise UserError("vocabulary must be the tokenizer's size; it is not set in this config.")
    mask = _mask(config)
    # In this order the weights are drawn.
    embedding, positions = _embedding(config), _added(config)
    blocks = [_block(config) for _ in range(config.layers)]
    return _kind(config)(
        embedding,
        blocks,
        _norm(config),
        context=config.context,
        mask=mask,
        positions=positions,
        dropout=config.dropout,
    )


def drawing_words(config: ModelConfig) -> str:
    """How the weights begin, as a sentence.

    Claim: test_build.py::test_weights_begin_as_is_said
    """
    last = SPREAD / math.sqrt(2 * config.layers)
    return f"weights begin with deviation {SPREAD:g}, {last:.2g} where a branch ends"


def _kind(config: ModelConfig) -> type[Decoder | Encoder]:
    match config.kind:
        case "encoder":
            return Encoder
        case _:
            return Decoder


def _embedding(config: ModelConfig) -> TokenEmbedding:
    head = None if config.tied else nn.Linear(config.width, config.vocabulary, bias=False)
    if head is not None:
        _draw(head)
    # Sinusoids are near 1 where drawn embeddings are near 0.02: the paper's factor makes them even.
    scale = math.sqrt(config.width) if config.positions == "sinusoidal" else 1.0
    return TokenEmbedding(config.vocabulary, config.width, head=head, scale=scale)


def _added(config: ModelConfig) -> nn.Module | None:
    """The positions that are added to the embeddings."""
    match config.positions:
        case "learned":
            return Learned(config.context, config.width)
        case "sinusoidal":
            return Sinusoidal(config.width, config.base)
        case _:
            return None


def _rotary(config: ModelConfig) -> Rotary | None:
    if config.positions != "rotary":
        return None
    width, factor, base = config.width // config.heads, config.factor, config.base
    match config.extension:
        case "linear":
            return Rotary.linear(width, factor, base)
        case "ntk":
            return Rotary.ntk(width, factor, base)
        case "yarn":
            return Rotary.yarn(width, factor, config.context, base)
        case _:
            return Rotary.standard(width, base)


def _norm(config: ModelConfig) -> nn.Module:
    match config.norm:
        case "rms":
            return RMSNorm(config.width)
        case _:
            return LayerNorm(config.width, biased=config.biased)


def _attention(config: ModelConfig) -> Attention | None:
    match config.attention:
        case "none":
            return None
        case _:
            return Attention(
                config.width,
                config.heads,
                kv_heads=config.kv_heads or None,
                biased=config.biased,
                normed=config.qk_norm,
                bias=Alibi.standard(config.heads) if config.positions == "alibi" else None,
                rotary=_rotary(config),
                dropout=config.dropout,
            )


def _activation(config: ModelConfig) -> nn.Module:
    match config.activation:
        case "relu":
            return nn.ReLU()
        case "relu2":
            return SquaredReLU()
        case "swiglu":
            return Gated()
        case _:
            return nn.GELU()


def _feedforward(config: ModelConfig) -> FeedForward:
    # A gate has a matrix more, so 8/3 of the width is 4 × in parameters; in eights, for speed.
    gated = 8 * max(round(config.width / 3), 1)
    usual = gated if config.activation == "swiglu" else 4 * config.width
    hidden = config.hidden or usual
    activation = _activation(config)
    return FeedForward(config.width, hidden, activation=activation, biased=config.biased)


def _block(config: ModelConfig) -> Block:
    attention, feedforward = _attention(config), _feedforward(config)
    block = Block(attention, feedforward, lambda: PreNorm(_norm(config), dropout=config.dropout))
    block.apply(_draw)
    lasts = [feedforward.down] if attention is None else [attention.out, feedforward.down]
    for last in lasts:
        # Smaller, so that the stream's variance does not grow with the layers.
        nn.init.normal_(last.weight, std=SPREAD / math.sqrt(2 * config.layers))
    return block


def _draw(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=SPREAD)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _mask(config: ModelConfig) -> Mask:
    """The config's mask, of which a decoder may not see what comes, and an encoder must."""
    with torch.device("cpu"):  # where it can be read, also while a model is made on meta
        mask = mask_from(config.mask)
        seen = min(max(config.context, 2), CHECKED)
        ahead = bool(mask.dense(seen, seen).triu(1).any())
    if config.kind == "decoder" and ahead:
        raise UserError(
            "model.mask of a decoder must hide the future, or it would be shown what it is to "
            f'foretell; {config.mask!r} does not. Write "Causal() & …".'
        )
    if config.kind == "encoder" and not ahead:
        raise UserError(
            f"model.mask of an encoder must let it read both ways; {config.mask!r} hides the "
            'future. Try --model.mask "Full()", or --model.kind decoder.'
        )
    return mask
