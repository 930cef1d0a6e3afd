"""What a model is made of, as recipes and config.json say it."""

import math
from dataclasses import dataclass, field, fields
from typing import Any

from atento.errors import UserError

__all__ = ["ATTENTIONS", "EXTENSIONS", "KINDS", "PAIRED", "ModelConfig"]

KINDS = ("decoder", "encoder", "encoder-decoder", "recurrent")
TRANSFORMERS, PAIRED = KINDS[:3], KINDS[2:]
EXTENSIONS = ("none", "linear", "ntk", "yarn")
OWN_MASKS = {"decoder": "Causal()", "encoder": "Full()", "encoder-decoder": "Causal()"}
ATTENTIONS = {
    "decoder": ("dot", "none"),
    "encoder": ("dot", "none"),
    "encoder-decoder": ("dot",),
    "recurrent": ("dot", "none", "general", "concat", "additive"),
}
BASE = 10_000.0


def _one_of(*choices: str, says: str, kinds: tuple[str, ...] = KINDS) -> Any:
    """A field whose default is the first of its choices."""
    help_text = f"one of {', '.join(choices)}: {says}"
    metadata = {"help": help_text, "choices": choices, "kinds": kinds}
    return field(default=choices[0], metadata=metadata)


def _at_least(least: float, default: float | int, says: str, kinds: tuple[str, ...] = KINDS) -> Any:
    return field(default=default, metadata={"help": says, "least": least, "kinds": kinds})


def _yes_no(default: bool, says: str, kinds: tuple[str, ...] = KINDS) -> Any:
    return field(default=default, metadata={"help": says, "kinds": kinds})


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The [model] of a recipe; `vocabulary` follows from the data, and is in config.json only.

    With `attention = "none"` the fields that shape the attention say nothing: it is the same
    model, its attention removed, by one word. A field that a kind has no use for must be left as
    it is.
    """

    kind: str = _one_of(
        *KINDS, says="it foretells the next token, reads both ways, or turns one text into another"
    )
    width: int = _at_least(1, 128, "numbers in each token's vector")
    layers: int = _at_least(1, 2, "blocks")
    heads: int = _at_least(1, 2, "attention heads in each block", TRANSFORMERS)
    context: int = _at_least(1, 16, "tokens seen at once in training")
    dropout: float = field(
        default=0.0, metadata={"help": "share dropped of embeddings, weights and branches"}
    )
    mask: str = field(
        default="",
        metadata={
            "help": 'who may attend to whom: "Causal() & Window(255)"; unless given, Causal() in a '
            "decoder and Full() in an encoder",
            "kinds": TRANSFORMERS,
        },
    )
    attention: str = _one_of(
        *ATTENTIONS["recurrent"],
        says="none is the same model without its attention; a recurrent one looks back by Luong's "
        "dot, general or concat, or by Bahdanau's additive score",
    )
    positions: str = _one_of(
        *("learned", "sinusoidal", "rotary", "alibi", "none"),
        says="how a token's place is told",
        kinds=TRANSFORMERS,
    )
    base: float = _at_least(
        2, BASE, "of sinusoidal and rotary positions: how slow the slowest is", TRANSFORMERS
    )
    extension: str = _one_of(
        *EXTENSIONS, says="how rotary positions go beyond the context", kinds=TRANSFORMERS
    )
    factor: float = _at_least(1, 1.0, "of the extension: how many times the context", TRANSFORMERS)
    norm: str = _one_of("layer", "rms", says="how each token is normalised", kinds=TRANSFORMERS)
    placement: str = _one_of(
        *("pre", "post"),
        says="a branch's norm is before it, or after its sum with what passed by",
        kinds=TRANSFORMERS,
    )
    activation: str = _one_of(
        *("gelu", "relu", "relu2", "swiglu"),
        says="of the feed-forward; relu2 is max(0, x)²",
        kinds=TRANSFORMERS,
    )
    hidden: int = _at_least(
        *(0, 0, "the feed-forward's inner width; 0: 4 × the width, with swiglu 8/3 of it"),
        kinds=TRANSFORMERS,
    )
    kv_heads: int = _at_least(
        0, 0, "heads of keys and values, shared in groups; 0: all heads", TRANSFORMERS
    )
    qk_norm: bool = _yes_no(
        False, "whether each head's queries and keys are normalised", TRANSFORMERS
    )
    biased: bool = _yes_no(True, "whether linear maps and layer norms have biases", TRANSFORMERS)
    unit: str = _one_of(
        *("lstm", "gru", "lecture-gru", "rnn"),
        says="what passes from token to token; lecture-gru resets before the product",
        kinds=("recurrent",),
    )
    bidirectional: bool = _yes_no(
        False, "whether the source is read both ways, each with half the width", ("recurrent",)
    )
    fed: bool = _yes_no(
        *(False, "whether each step is told what the one before it looked at"),
        kinds=("recurrent",),
    )
    tied: bool = _yes_no(True, "whether the logits are the state times the transposed embedding")
    shared: bool = _yes_no(True, "whether source and target have one embedding", PAIRED)
    vocabulary: int = field(default=0, metadata={"from_data": True, "least": 0})
    source_vocabulary: int = field(
        default=0, metadata={"from_data": True, "least": 0, "kinds": PAIRED}
    )

    def __post_init__(self) -> None:
        for part in fields(self):
            _check(part.name, getattr(self, part.name), part.metadata)
        self._check_kind()
        if self.kind in TRANSFORMERS:
            if not self.mask:
                object.__setattr__(self, "mask", OWN_MASKS[self.kind])
            self._check_heads()
            self._check_positions()
        if self.kind in PAIRED:
            self._check_pairs()
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.dropout must be at least 0 and below 1; got {self.dropout}.")

    def _check_kind(self) -> None:
        for part in fields(self):
            kinds, value = part.metadata.get("kinds", KINDS), getattr(self, part.name)
            if self.kind not in kinds and value != part.default:
                raise UserError(
                    f"model.{part.name} is for models of kind {' and '.join(kinds)}; got {value!r} "
                    f"in one of kind {self.kind}. Leave it out."
                )
        if self.attention not in ATTENTIONS[self.kind]:
            raise UserError(
                f"model.attention must be one of {', '.join(ATTENTIONS[self.kind])} in a model of "
                f"kind {self.kind}; got {self.attention!r}."
            )

    def _check_pairs(self) -> None:
        if self.shared and self.source_vocabulary not in (0, self.vocabulary):
            raise UserError(
                "model.shared must be false where source and target have tokenizers of their own; "
                f"got true for {self.source_vocabulary} and {self.vocabulary} tokens."
            )
        if self.bidirectional and self.width % 2:
            raise UserError(
                "model.width must be even where model.bidirectional is true, half for each "
                f"direction; got {self.width}. Try --model.width {self.width + 1}."
            )
        if self.fed and self.attention == "additive":
            raise UserError(
                'model.fed is of no use with model.attention = "additive", which tells every step '
                "what it looks at. Leave it out."
            )

    def _check_heads(self) -> None:
        if self.width % self.heads:
            raise UserError(
                f"model.width must be a multiple of model.heads; got {self.width}, {self.heads}. "
                f"Try --model.width {(self.width // self.heads + 1) * self.heads}."
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise UserError(
                f"model.kv_heads must divide model.heads; got {self.kv_heads}, {self.heads}. "
                f"Try --model.kv_heads {math.gcd(self.heads, self.kv_heads)}."
            )

    def _check_positions(self) -> None:
        turned = self.positions == "rotary"
        if self.extension != "none" and not turned:
            raise UserError(
                f'model.extension is for model.positions = "rotary"; got {self.extension!r} with '
                f"{self.positions!r}. Leave it out, or try --model.positions rotary."
            )
        if self.factor != 1 and self.extension == "none":
            raise UserError(
                f"model.factor says how far an extension goes; got {self.factor} with none. Try "
                "--model.extension yarn."
            )
        if self.base != BASE and self.positions not in ("rotary", "sinusoidal"):
            raise UserError(
                "model.base is for rotary and sinusoidal positions; got "
                f"{self.base} with {self.positions!r}. Leave it out."
            )
        least = 4 if self.extension == "ntk" else 2
        head = self.width // self.heads
        if turned and (head % 2 or head < least):
            raise UserError(
                f"model.width / model.heads must be even and at least {least} for rotary "
                f"positions, which turn pairs; got {self.width} / {self.heads} = {head}. Try "
                f"--model.width {self.heads * max(head + head % 2, least)}."
            )


def _check(name: str, value: Any, metadata: Any) -> None:
    choices, least = metadata.get("choices"), metadata.get("least")
    if choices and value not in choices:
        raise UserError(f"model.{name} must be one of {', '.join(choices)}; got {value!r}.")
    if least is not None and not (math.isfinite(value) and value >= least):
        raise UserError(f"model.{name} must be at least {least}; got {value}.")
