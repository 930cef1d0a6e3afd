"""Pairs as tokens: the tokenizers that were fitted to the training pairs, and every split."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from atento.data.buckets import Numbers
from atento.data.config import Data
from atento.data.known import Known
from atento.data.pair_files import Pair
from atento.data.pair_sets import PAIR_SETS
from atento.data.pairs import Pairs, read_pairs
from atento.data.sources import absolute
from atento.data.text import Tokens
from atento.data.tokenizers import Tokenizer, trained

__all__ = ["PairCorpus", "TokenPairs", "absolute_pairs", "encoded", "pair_corpus"]


@dataclass(frozen=True)
class TokenPairs:
    """Pairs as texts, and as numbers without their ends."""

    texts: list[Pair]
    sources: list[Tokens]
    targets: list[Tokens]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def lengths(self) -> Numbers:  # [N, 2]
        """Of sources and targets, ends included."""
        found = [(len(s) + 1, len(t) + 1) for s, t in zip(self.sources, self.targets, strict=True)]
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    def some(self, numbers: Iterable[int]) -> "TokenPairs":
        """Those of these numbers, in this order."""
        order = list(numbers)
        return TokenPairs(
            [self.texts[n] for n in order],
            [self.sources[n] for n in order],
            [self.targets[n] for n in order],
        )


@dataclass(frozen=True)
class PairCorpus:
    """Pairs that were read, and how each side is turned into numbers."""

    source: str  # as a recipe can name it from any folder
    pairs: Pairs
    sides: tuple[Known, Known]  # of sources and of targets

    @cached_property
    def sha256(self) -> str:
        """Of all pairs of all splits."""
        return self.pairs.sha256

    @cached_property
    def training(self) -> TokenPairs:
        return encoded(self.pairs.training, self.sides)

    @cached_property
    def validation(self) -> TokenPairs:
        return encoded(self.pairs.validation, self.sides)

    def sentences(self) -> Iterator[str]:
        """What is to be said of the pairs: sizes, and what held-out ones share with training."""
        for split in ("validation", "test"):
            held = getattr(self.pairs, split)
            shared = self.pairs.shared(split)
            if held and (shared.sources or shared.pairs):
                yield (
                    f"Of {len(held):,} {split} pairs {shared.sources:,} have a source that stands "
                    f"in training too, and {shared.pairs:,} stand there whole."
                )


def pair_corpus(data: Data, sides: tuple[Known, Known] | None = None) -> PairCorpus:
    """The pairs that a recipe names; their tokenizers are fitted to training pairs alone.

    With `joint` both sides have one tokenizer, else each its own. `sides` are those of a run.
    """
    pairs = read_pairs(
        data.source, languages=data.languages, validation=data.validation, test=data.test
    )
    return PairCorpus(absolute_pairs(data.source), pairs, sides or _fitted(data, pairs.training))


def absolute_pairs(source: str) -> str:
    """The source as a recipe can name it from any folder."""
    return source if source in PAIR_SETS or not source else absolute(source)


def encoded(pairs: list[Pair], sides: tuple[Known, Known]) -> TokenPairs:
    """Pairs in the numbers of both sides; what was never seen is a placeholder."""
    sources, targets = sides
    return TokenPairs(
        pairs,
        [sources.encode(source)[0] for source, _ in pairs],
        [targets.encode(target)[0] for _, target in pairs],
    )


def _fitted(data: Data, training: list[Pair]) -> tuple[Known, Known]:
    sources, targets = [source for source, _ in training], [target for _, target in training]
    if data.joint:
        both = _trained(data, sources + targets)
        return Known(both, set().union(*sources)), Known(both, set().union(*targets))
    return (
        Known(_trained(data, sources), set().union(*sources)),
        Known(_trained(data, targets), set().union(*targets)),
    )


def _trained(data: Data, lines: list[str]) -> Tokenizer:
    return trained(data.tokenizer, (f"{line}\n" for line in lines), data.vocabulary_size)
