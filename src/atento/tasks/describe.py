"""What a model is made of, who may attend to whom in it, and what it costs: worked out, not run."""

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from atento.data.corpus import corpus
from atento.errors import UserError
from atento.layers.attention import Attention
from atento.layers.feedforward import FeedForward
from atento.models.build import build, drawing_words, for_text
from atento.models.config import ModelConfig
from atento.models.count import Count, count, counts
from atento.models.mask import mask_from
from atento.tasks.recipe import Recipe
from atento.tasks.run import load_text
from atento.training.config import Train
from atento.training.words import training_words

__all__ = ["Description", "describe", "described", "flat", "mask_picture", "mask_words"]

BYTES = 4  # of a float32
LONGEST = 1024  # positions up to which pairs are counted one by one
SHOWN = 16  # positions in the picture of a mask
ASSUMED = 100  # tokens of the vocabulary where the text is not there


@dataclass(frozen=True, kw_only=True)
class Description:
    """A model in numbers; FLOPs count a multiplication and an addition as two.

    P are the parameters of the matrices that a token is multiplied by (the head too, also where it
    is the embedding's), K the mean number of keys that a query attends to in a full context, A the
    summed width of all heads of all layers:

        forward_flops = 2 P + 4 A K      for each token: scores and weighted sums take 2 A K each
        training_flops = 3 forward_flops     as the backward pass is two products for each one

    For L layers of width C, with keys and values of width D in all, and F the feed-forward's inner
    width (2 F where it is gated), in bytes of float32:

        weights = 4 · parameters
        cache = 4 · 2 · L · D · context       of one sequence; an encoder has none
        training = 16 · parameters + activations       weights, gradients, AdamW's two averages
        activations = 4 · batch · context · (L (6 C + 2 D + F + F_inner) + 2 C + 2 V)

    Activations are what the backward pass needs; attention weights are not among them.
    Ref: Kaplan et al. 2020, arXiv:2001.08361, section 2.1; Chowdhery et al. 2022,
    arXiv:2204.02311, appendix B (which counts K = context for all).
    Claim: test_describe.py::test_flops_are_what_pytorch_counts
    Claim: test_describe.py::test_activations_are_what_autograd_keeps
    """

    config: ModelConfig
    parameters: Count
    keys: float  # K
    forward_flops: int
    weights_bytes: int
    cache_bytes: int
    activations_bytes: int
    beside: Mapping[str, int]  # parameters with the attention and without it
    training: str = ""  # how it is trained; of a recipe and of a run

    @property
    def training_flops(self) -> int:
        return 3 * self.forward_flops

    @property
    def training_bytes(self) -> int:
        return 4 * self.weights_bytes + self.activations_bytes


def describe(config: ModelConfig, batch: int) -> Description:
    """The model of a config, trained with so many windows in each step; nothing is allocated."""
    with torch.device("meta"):
        model = for_text(build(config))
    parameters = count(model)
    linear = [m for m in model.blocks.modules() if isinstance(m, nn.Linear)]
    attentions = [m for m in model.modules() if isinstance(m, Attention)]
    matrices = sum(m.weight.numel() for m in linear) + config.vocabulary * config.width
    keys = _mean_keys(config) if attentions else 0.0
    inner = sum(m.heads * m.head_width for m in attentions)
    shared = sum(m.kv_heads * m.head_width for m in attentions)
    forwards = [m for m in model.modules() if isinstance(m, FeedForward)]
    hidden = sum(m.up.out_features + m.down.in_features for m in forwards)
    streams = (6 if attentions else 2) * config.width * config.layers
    each = streams + 2 * shared + hidden + 2 * config.width + 2 * config.vocabulary
    return Description(
        config=config,
        parameters=parameters,
        keys=keys,
        forward_flops=round(2 * matrices + 4 * inner * keys),
        weights_bytes=BYTES * parameters.total,
        cache_bytes=BYTES * 2 * shared * config.context * (config.kind == "decoder"),
        activations_bytes=BYTES * batch * config.context * each,
        beside={kind: made.total for kind, made in counts(config).items()},
    )


def described(target: str, options: Mapping[str, Any]) -> tuple[Description, str]:
    """The description of a run's folder, or of a recipe with options; and what was assumed."""
    if (Path(target).expanduser() / "config.json").is_file():
        if options:
            raise UserError(f"a run has its options already; got --{next(iter(options))}.")
        run = load_text(target)
        if run.recipe is None:
            return describe(run.config, batch=1), ""
        return _trained(run.config, run.recipe.train), ""
    recipe = Recipe.read(target).with_options(options)
    if recipe.data.source:
        size, assumed = len(corpus(recipe.data).tokenizer), ""
    else:
        size, assumed = ASSUMED, f"a vocabulary of {ASSUMED}, as no --data.source is named"
    return _trained(replace(recipe.model, vocabulary=size), recipe.train), assumed


def _trained(config: ModelConfig, settings: Train) -> Description:
    how = f"{training_words(settings)} · {drawing_words(config)}"
    return replace(describe(config, settings.batch), training=how)


def flat(described: Description) -> dict[str, str | int | float]:
    """One flat object of it, as `atento describe --json` prints it."""
    counted = {f"parameters.{k}": v for k, v in asdict(described.parameters).items()}
    return {
        **{f"model.{k}": v for k, v in asdict(described.config).items()},
        "parameters": described.parameters.total,
        **counted,
        "parameters_with_attention": described.beside["dot"],
        "parameters_without_attention": described.beside["none"],
        "mask_words": mask_words(described.config),
        "keys_per_query": described.keys,
        "forward_flops_per_token": described.forward_flops,
        "training_flops_per_token": described.training_flops,
        "weights_bytes": described.weights_bytes,
        "cache_bytes": described.cache_bytes,
        "activations_bytes": described.activations_bytes,
        "training_bytes": described.training_bytes,
        "training": described.training,
    }


def _mean_keys(config: ModelConfig) -> float:
    """Over all queries of a full context, or 64 spread over a long one."""
    mask, context = mask_from(config.mask), config.context
    if context <= LONGEST:
        return float(mask.dense(context, context).double().sum() / context)
    queries = [int((n + 0.5) * context / 64) for n in range(64)]
    return sum(float(mask.dense(1, context, at=i).double().sum()) for i in queries) / 64


def mask_picture(config: ModelConfig) -> list[str]:
    """A row for each of the first queries: # where it may attend to the key, . where not."""
    seen = min(config.context, SHOWN)
    allowed = mask_from(config.mask).dense(seen, seen).flatten(0, -3)[0]
    if config.attention == "none":
        allowed = torch.eye(seen, dtype=torch.bool)
    return [" ".join("#" if may else "." for may in row) for row in allowed.tolist()]


def mask_words(config: ModelConfig) -> str:
    """Who may attend to whom, as a sentence; a mask without words is quoted as it is written."""
    if config.attention == "none":
        return "Without attention, each token knows of itself alone."
    return f"Each token may attend to {_words(ast.parse(config.mask.strip(), mode='eval').body)}."


def _words(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            joint = "; of these only " if isinstance(op, ast.BitAnd) else ", and to "
            parts = [
                _words(p) if isinstance(p, ast.Call) else f"({_words(p)})" for p in (left, right)
            ]
            return joint.join(parts)
        case ast.UnaryOp(operand=operand):
            return f"all but {_words(operand)}"
        case ast.Call(func=ast.Name(id=name), args=args, keywords=named):
            given = {k.arg: ast.unparse(k.value) for k in named}
            return _leaf(name, [ast.unparse(arg) for arg in args], given) or ast.unparse(node)
    return ast.unparse(node)


def _leaf(name: str, args: list[str], named: dict[str | None, str]) -> str:
    match name:
        case "Full":
            return "all tokens"
        case "Causal":
            return "itself and all tokens before it"
        case "Window":
            before = named.get("before") or args[0]
            after = named.get("after") or (args[1] if len(args) > 1 else "0")
            return _window(before, after)
        case "Dilated":
            step = named.get("step") or args[0]
            return f"tokens at a distance that {step} divides"
        case "Prefix":
            return f"the first {named.get('n') or args[0]} tokens"
        case "Global":
            return f"all tokens from or at positions {', '.join([*args, *named.values()])}"
        case _:
            return ""


def _window(before: str, after: str) -> str:
    behind = "all tokens before it" if before == "None" else f"the {before} tokens before it"
    ahead = "all tokens after it" if after == "None" else f"the {after} tokens after it"
    parts = ["itself"] + [behind] * (before != "0") + [ahead] * (after != "0")
    return " and ".join(parts)
