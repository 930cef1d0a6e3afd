"""How long and how fast to train, as recipes say it."""

import math
from dataclasses import dataclass, field

from atento.errors import UserError

__all__ = ["CHOICES", "MASKED", "Train"]

LARGEST_SEED = 2**63 - 1  # what torch.manual_seed takes
MASKED = 0.15  # BERT's
FROM_ONE = ("steps", "batch", "tokens", "accumulate", "evaluate_every", "checkpoint_every")
FROM_NOTHING = ("warmup", "stable", "floor", "decay", "decay_rest", "clip", "patience", "seed")
CHOICES = {
    "optimizer": ("adamw", "muon"),
    "schedule": ("cosine", "linear", "inverse-sqrt", "constant"),
    "recompute": ("nothing", "blocks"),
    "precision": ("auto", "float32", "bfloat16"),
    "execution": ("auto", "eager", "graph"),
}


def _one_of(name: str, what: str) -> dict[str, str]:
    return {"help": f"{what}: {', '.join(CHOICES[name])}"}


@dataclass(frozen=True, kw_only=True)
class Train:
    """The [train] of a recipe."""

    steps: int = field(default=1000, metadata={"help": "updates of the weights"})
    batch: int = field(default=64, metadata={"help": "windows in each step", "task": "language"})
    tokens: int = field(
        default=4096,
        metadata={"help": "tokens of a batch of pairs, padding included", "task": "translation"},
    )
    accumulate: int = field(
        default=1, metadata={"help": "batches in each step, one after another, gradients summed"}
    )
    optimizer: str = field(
        default="adamw",
        metadata=_one_of("optimizer", "of all weights, or muon for the matrices inside"),
    )
    rate: float = field(default=1e-3, metadata={"help": "learning rate at its highest"})
    muon_rate: float = field(
        default=0.02, metadata={"help": "learning rate of Muon's matrices at its highest"}
    )
    warmup: int = field(default=100, metadata={"help": "steps in which the rate rises from 0"})
    schedule: str = field(
        default="cosine", metadata=_one_of("schedule", "how the rate goes on after the warmup")
    )
    stable: float = field(
        default=0.0, metadata={"help": "share of the steps, warmup included, before the rate falls"}
    )
    floor: float = field(
        default=0.1, metadata={"help": "share of the rate that is left at the end of the schedule"}
    )
    decay: float = field(
        default=0.1, metadata={"help": "weight decay of matrices; norms, biases, embeddings: none"}
    )
    decay_rest: float = field(
        default=0.0, metadata={"help": "weight decay of norms, biases and embeddings"}
    )
    beta2: float = field(default=0.99, metadata={"help": "AdamW's memory of squared gradients"})
    clip: float = field(default=1.0, metadata={"help": "largest norm of the gradient; 0: any"})
    smoothing: float = field(
        default=0.0, metadata={"help": "share of each target spread over all tokens, in training"}
    )
    masked: float = field(
        default=MASKED, metadata={"help": "share of tokens hidden from an encoder, to be foretold"}
    )
    ema: float = field(
        default=0.0,
        metadata={"help": "memory of the averaged weights that are judged and kept; 0: none"},
    )
    patience: int = field(
        default=0, metadata={"help": "evaluations without a better one before it stops; 0: any"}
    )
    recompute: str = field(
        default="nothing",
        metadata=_one_of("recompute", "activations not stored but computed again"),
    )
    precision: str = field(default="auto", metadata=_one_of("precision", "of the matrix products"))
    execution: str = field(
        default="auto", metadata=_one_of("execution", "of the steps, graph: captured once on CUDA")
    )
    seed: int = field(default=0, metadata={"help": "of weights, order and dropout"})
    evaluate_every: int = field(
        default=250, metadata={"help": "steps between two looks at the whole validation split"}
    )
    checkpoint_every: int = field(default=250, metadata={"help": "steps between two checkpoints"})

    def __post_init__(self) -> None:
        for least, names in ((1, FROM_ONE), (0, FROM_NOTHING)):
            for name in names:
                _at_least(name, getattr(self, name), least)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"train.{name} must be one of {', '.join(choices)}; got "
                    f"{getattr(self, name)!r}."
                )
        for name, example in (("rate", 1e-3), ("muon_rate", 0.02)):
            rate = getattr(self, name)
            if not (math.isfinite(rate) and rate > 0):
                raise UserError(f"train.{name} must be above 0; got {rate}. Try {example:g}.")
        for name in ("stable", "floor"):
            if getattr(self, name) > 1:
                raise UserError(
                    f"train.{name} must be a share, at most 1; got {getattr(self, name)}."
                )
        for name in ("beta2", "ema", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(
                    f"train.{name} must be at least 0 and below 1; got {getattr(self, name)}."
                )
        if not 0 < self.masked < 1:
            raise UserError(f"train.masked must be above 0 and below 1; got {self.masked}.")
        if self.seed > LARGEST_SEED:
            raise UserError(f"train.seed must be at most {LARGEST_SEED}; got {self.seed}.")


def _at_least(name: str, value: float, least: int) -> None:
    if not (math.isfinite(value) and value >= least):
        raise UserError(f"train.{name} must be at least {least}; got {value}.")
