"""A config becomes a model."""

import math
from typing import TypeVar

import torch
from torch import nn

from atento.core.biases import Alibi
from atento.core.compose import Mask
from atento.core.masks import Full
from atento.core.rotary import Rotary
from atento.core.scores import Dot
from atento.errors import UserError
from atento.layers.attention import Attention
from atento.layers.block import Block
from atento.layers.embedding import TokenEmbedding
from atento.layers.feedforward import FeedForward, Gated, SquaredReLU
from atento.layers.lookback import Bahdanau, FixedContext, Lookback, Luong
from atento.layers.norm import LayerNorm, RMSNorm
from atento.layers.positions import Learned, Sinusoidal
from atento.layers.recurrent import Recurrent, gru, lecture_gru, lstm, rnn
from atento.layers.residual import PostNorm, PreNorm
from atento.layers.scores import AdditiveScore, BilinearScore
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from atento.models.encoder_decoder import EncoderDecoder
from atento.models.mask import mask_from
from atento.models.recurrent import RecurrentEncoderDecoder
from atento.models.transformer import Stack

__all__ = ["Model", "build", "drawing_words", "for_text"]

Alone = TypeVar("Alone", Decoder, Encoder)
Model = Decoder | Encoder | EncoderDecoder | RecurrentEncoderDecoder

CHECKED = 1024  # positions up to which a mask is tried for looking ahead
# GPT-2's. With torch's own, wider ones lecture 003's model ends at 2.11 instead of 2.00 on Tiny
# Shakespeare (one seed each, 2026-11).
SPREAD = 0.02


def build(config: ModelConfig) -> Model:
    """A new model with weights drawn from torch's generator.

    Claim: test_build.py::test_the_defaults_draw_the_same_weights_as_ever
    """
    if not config.vocabulary:
        raise UserError("vocabulary must be the tokenizer's size; it is not set in this config.")
    match config.kind:
        case "encoder-decoder":
            return _encoder_decoder(config)
        case "recurrent":
            return _recurrent(config)
        case "encoder":
            return _transformer(Encoder, config)
        case _:
            return _transformer(Decoder, config)


def for_text(model: Model) -> Decoder | Encoder:
    """The model, which must be one of a single text; one that needs two is refused."""
    if not isinstance(model, Decoder | Encoder):
        raise UserError(
            "model.kind must be decoder or encoder, which learn from a text; got a model that "
            f"turns one text into another ({type(model).__name__}). Leave model.kind out."
        )
    return model


def _transformer(kind: type[Alone], config: ModelConfig) -> Alone:
    mask = _mask(config)
    # In this order the weights are drawn.
    embedding, positions = _embedding(config), _added(config)
    blocks = [_block(config) for _ in range(config.layers)]
    return kind(
        embedding,
        blocks,
        _last_norm(config),
        context=config.context,
        mask=mask,
        positions=positions,
        dropout=config.dropout,
    )


def drawing_words(config: ModelConfig) -> str:
    """How the weights begin, as a sentence.

    Claim: test_build.py::test_weights_begin_as_is_said
    """
    if config.kind == "recurrent":
        return f"embeddings begin with deviation {SPREAD:g}, all else as torch draws it"
    branches = (3 if config.kind == "encoder-decoder" else 2) * config.layers
    last = SPREAD / math.sqrt(branches)
    return f"weights begin with deviation {SPREAD:g}, {last:.2g} where a branch ends"


def _encoder_decoder(config: ModelConfig) -> EncoderDecoder:
    mask = _mask(config)
    return EncoderDecoder(
        _embedding(config),
        _stack(config, Full(), crossed=False),
        _stack(config, mask, crossed=True),
        source_embedding=_source_embedding(config),
    )


def _stack(config: ModelConfig, mask: Mask, *, crossed: bool) -> Stack:
    return Stack(
        [_block(config, crossed=crossed) for _ in range(config.layers)],
        _last_norm(config),
        context=config.context,
        mask=mask,
        positions=_added(config),
        dropout=config.dropout,
    )


def _recurrent(config: ModelConfig) -> RecurrentEncoderDecoder:
    width = config.width
    return RecurrentEncoderDecoder(
        _embedding(config),
        _unit(config, width, reads_both_ways=config.bidirectional),
        _decoder(config),
        context=config.context,
        source_embedding=_source_embedding(config),
        dropout=config.dropout,
    )


def _decoder(config: ModelConfig) -> FixedContext | Luong | Bahdanau:
    width = config.width
    told = config.fed or config.attention == "additive"
    unit = _unit(config, 2 * width if told else width)
    match config.attention:
        case "none":
            return FixedContext(unit, fed=config.fed)
        case "additive":
            return Bahdanau(unit, Lookback(AdditiveScore(1, width)), width)
        case "concat":
            return Luong(unit, Lookback(AdditiveScore(1, width)), width, fed=config.fed)
        case "general":
            return Luong(unit, Lookback(BilinearScore(1, width)), width, fed=config.fed)
        case _:
            return Luong(unit, Lookback(Dot(scale=1.0)), width, fed=config.fed)


def _unit(config: ModelConfig, width: int, *, reads_both_ways: bool = False) -> Recurrent:
    made = {"lstm": lstm, "gru": gru, "lecture-gru": lecture_gru, "rnn": rnn}[config.unit]
    return made(
        width,
        config.width // 2 if reads_both_ways else config.width,
        config.layers,
        bidirectional=reads_both_ways,
        dropout=config.dropout,
    )


def _embedding(config: ModelConfig) -> TokenEmbedding:
    head = None if config.tied else nn.Linear(config.width, config.vocabulary, bias=False)
    if head is not None:
        _draw(head)
    return TokenEmbedding(config.vocabulary, config.width, head=head, scale=_scale(config))


def _source_embedding(config: ModelConfig) -> TokenEmbedding | None:
    if config.shared:
        return None
    tokens = config.source_vocabulary or config.vocabulary
    return TokenEmbedding(tokens, config.width, scale=_scale(config))


def _scale(config: ModelConfig) -> float:
    """How much larger embeddings are than drawn.

    Sinusoids are near 1 where drawn embeddings are near 0.02: the paper's factor makes them even.
    A recurrence has no norm to make up for it.
    """
    large = config.positions == "sinusoidal" or config.kind == "recurrent"
    return math.sqrt(config.width) if large else 1.0


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


def _last_norm(config: ModelConfig) -> nn.Module:
    """Of the last states, which each branch of a post-norm block has normalised already."""
    return nn.Identity() if config.placement == "post" else _norm(config)


def _residual(config: ModelConfig) -> PreNorm | PostNorm:
    kind = PostNorm if config.placement == "post" else PreNorm
    return kind(_norm(config), dropout=config.dropout)


def _cross(config: ModelConfig) -> Attention:
    """To the source, whose positions are not the target's: no rotation and no bias tell them."""
    return Attention(
        config.width,
        config.heads,
        kv_heads=config.kv_heads or None,
        biased=config.biased,
        normed=config.qk_norm,
        dropout=config.dropout,
    )


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


def _block(config: ModelConfig, *, crossed: bool = False) -> Block:
    attention, feedforward = _attention(config), _feedforward(config)
    cross = _cross(config) if crossed else None
    block = Block(attention, feedforward, lambda: _residual(config), cross=cross)
    block.apply(_draw)
    lasts = [layer.out for layer in (attention, cross) if layer is not None] + [feedforward.down]
    branches = (3 if crossed else 2) * config.layers
    for last in lasts:
        # Smaller, so that the stream's variance does not grow with the layers.
        nn.init.normal_(last.weight, std=SPREAD / math.sqrt(branches))
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
    if config.kind != "encoder" and ahead:
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
