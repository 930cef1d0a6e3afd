"""How many parameters a model has, and where."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from torch import nn

from atento.layers.attention import Attention
from atento.layers.embedding import TokenEmbedding
from atento.layers.feedforward import FeedForward
from atento.layers.lookback import Bahdanau, FixedContext, Lookback, Luong
from atento.layers.norm import LayerNorm, RMSNorm
from atento.layers.positions import Learned
from atento.layers.recurrent import Recurrent
from atento.models.build import build
from atento.models.config import ATTENTIONS, ModelConfig

__all__ = ["Count", "count", "counts"]


@dataclass(frozen=True, kw_only=True)
class Count:
    """Parameters by part. A tied head has none of its own: its matrix is the embedding's."""

    embedding: int = 0
    positions: int = 0
    attention: int = 0
    feedforward: int = 0
    recurrent: int = 0
    norms: int = 0  # those of queries and keys too
    head: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """Every parameter, each once."""
        return sum(asdict(self).values())

    @property
    def without_positions(self) -> int:
        """nanoGPT's convention: the total without the position embeddings.

        The tokens' embedding counts, as it is the head's matrix too. GPT-2 has 124.44M, and
        123.653376M in this convention.
        Claim: test_count.py::test_gpt_2_has_what_nanogpt_prints
        """
        return self.total - self.positions


def count(model: nn.Module) -> Count:
    """The parameters of a model, also of one on meta.

    Claim: test_count.py::test_the_parts_make_the_whole
    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    for part, parameter in _parameters(model, "other"):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            found[part] = found.get(part, 0) + parameter.numel()
    return Count(**found)


def counts(config: ModelConfig) -> dict[str, Count]:
    """`model.attention` → its count, for every attention that a model of this kind can have.

    Nothing is allocated, however large the model.
    Claim: test_count.py::test_without_attention_the_rest_counts_the_same
    Claim: test_recurrent_models.py::test_luongs_scores_have_fewer_parameters_than_bahdanaus
    """
    kinds = ATTENTIONS[config.kind]
    with torch.device("meta"):
        return {kind: count(build(replace(config, attention=kind))) for kind in kinds}


def _parameters(module: nn.Module, part: str) -> Iterator[tuple[str, nn.Parameter]]:
    """Each parameter with the part it belongs to: the innermost one that has a name here."""
    part = _part(module) or part
    for parameter in module.parameters(recurse=False):
        yield part, parameter
    for name, child in module.named_children():
        own_head = isinstance(module, TokenEmbedding) and name == "head"
        yield from _parameters(child, "head" if own_head else part)


def _part(module: nn.Module) -> str | None:
    match module:
        case TokenEmbedding():
            return "embedding"
        case Learned():
            return "positions"
        case Attention() | Lookback():
            return "attention"
        case Recurrent() | FixedContext() | Luong() | Bahdanau():
            return "recurrent"
        case FeedForward():
            return "feedforward"
        case LayerNorm() | RMSNorm():
            return "norms"
        case _:
            return None
