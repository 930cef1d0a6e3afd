"""What a model is made of, as recipes and config.json say it."""

import math
from dataclasses import dataclass, field, fields
from typing import Any

from atento.errors import UserError

__all__ = ["EXTENSIONS", "KINDS", "ModelConfig"]

KINDS = ("decoder", "encoder")
EXTENSIONS = ("none", "linear", "ntk", "yarn")
OWN_MASKS = {"decoder": "Causal()", "encoder": "Full()"}
BASE = 10_000.0


def _one_of(*choices: str, says: str) -> Any:
    """A field whose default is the first of its choices."""
    help_text = f"one of {', '.join(choices)}: {says}"
    return field(default=choices[0], metadata={"help": help_text, "choices": choices})


def _at_least(least: float, default: float | int, says: str) -> Any:
    return field(default=default, metadata={"help": says, "least": least})


def _yes_no(default: bool, says: str) -> Any:
    return field(default=default, metadata={"help": says})


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The [model] of a recipe; `vocabulary` follows from the data, and is in config.json only.

    With `attention = "none"` the fields that shape the attention say nothing: it is the same
    model, its attention removed, by one word.
    """

    kind: str = _one_of(*KINDS, says="it foretells the next token, or reads both ways")
    width: int = _at_least(1, 128, "numbers in each token's vector")
    layers: int = _at_least(1, 2, "blocks")
    heads: int = _at_least(1, 2, "attention heads in each block")
    context: int = _at_least(1, 16, "tokens seen at once in training")
    dropout: float = field(
        default=0.0, metadata={"help": "share dropped of embeddings, weights and branches"}
    )
    mask: str = field(
        default="",
        metadata={
            "help": 'who may attend to whom: "Causal() & Window(255)"; unless given, Causal() in a '
            "decoder and Full() in an encoder"
        },
    )
    attention: str = _one_of("dot", "none", says="none is the same model without its attention")
    positions: str = _one_of(
        "learned", "sinusoidal", "rotary", "alibi", "none", says="how a token's place is told"
    )
    base: float = _at_least(2, BASE, "of sinusoidal and rotary positions: how slow the slowest is")
    extension: str = _one_of(*EXTENSIONS, says="how rotary positions go beyond the context")
    factor: float = _at_least(1, 1.0, "of the extension: how many times the context")
    norm: str = _one_of("layer", "rms", says="how each token is normalised")
    activation: str = _one_of(
        "gelu", "relu", "relu2", "swiglu", says="of the feed-forward; relu2 is max(0, x)²"
    )
    hidden: int = _at_least(
        0, 0, "the feed-forward's inner width; 0: 4 × the width, with swiglu 8/3 of it"
    )
    kv_heads: int = _at_least(0, 0, "heads of keys and values, shared in groups; 0: all heads")
    qk_norm: bool = _yes_no(False, "whether each head's queries and keys are normalised")
    biased: bool = _yes_no(True, "whether linear maps and layer norms have biases")
    tied: bool = _yes_no(True, "whether the logits are the state times the transposed embedding")
    vocabulary: int = field(default=0, metadata={"from_data": True, "least": 0})

    def __post_init__(self) -> None:
        for part in fields(self):
            _check(part.name, getattr(self, part.name), part.metadata)
        if not self.mask:
            object.__setattr__(self, "mask", OWN_MASKS[self.kind])
        self._check_heads()
        self._check_positions()
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.dropout must be at least 0 and below 1; got {self.dropout}.")

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
