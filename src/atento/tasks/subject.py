"""What a run learns from, a text or pairs, as `train` needs it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from atento.data.config import Data
from atento.data.corpus import Corpus, Progress, corpus
from atento.data.pair_corpus import PairCorpus, absolute_pairs, pair_corpus
from atento.data.sources import absolute
from atento.data.tokenizers import load_tokenizer
from atento.models.config import ModelConfig
from atento.tasks.about import about
from atento.tasks.folder import TOKENIZER
from atento.tasks.language import Language, language
from atento.tasks.recipe import Recipe
from atento.tasks.translating import Sides
from atento.tasks.translation import Translating, translating, unsaid
from atento.tasks.translation_run import known_sides, sides_files
from atento.training.config import Train
from atento.training.task import Task

__all__ = ["Learning", "Subject", "located", "subject"]


class Learning(Task, Protocol):
    """A task, as `train` and a dry run tell of it."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def tokens_each_step(self) -> float: ...  # without accumulation; those that are asked for

    def sizes(self) -> str: ...  # how much is learned from and judged by

    def stands_beside(self) -> str: ...  # the losses that its own stand beside

    def judge_a_part(self) -> float: ...  # of the validation split; which share of it that was


class Subject(Protocol):
    """What was read, before there is a model."""

    @property
    def source(self) -> str: ...  # as a recipe can name it from any folder

    @property
    def sha256(self) -> str: ...

    def sentences(self) -> Iterator[str]: ...  # what is to be said of it

    def task(self, model: ModelConfig, train: Train, device: torch.device) -> Learning: ...

    def files(self) -> dict[str, bytes]: ...  # by which a run's model reads and says it

    def facts(self, task: Learning) -> dict[str, Any]: ...  # what env.json keeps of it


@dataclass(frozen=True)
class _Text:
    """One text, to go on with or to fill in."""

    corpus: Corpus

    @property
    def source(self) -> str:
        return self.corpus.source

    @property
    def sha256(self) -> str:
        return self.corpus.sha256

    def sentences(self) -> Iterator[str]:
        yield from self.corpus.survey.sentences()

    def task(self, model: ModelConfig, train: Train, device: torch.device) -> Learning:
        return language(self.corpus, model, train, device)

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.corpus.tokenizer.to_json().encode()}

    def facts(self, task: Learning) -> dict[str, Any]:
        assert isinstance(task, Language)
        return about(self.corpus, task)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of texts, to turn one into the other."""

    corpus: PairCorpus

    @property
    def source(self) -> str:
        return self.corpus.source

    @property
    def sha256(self) -> str:
        return self.corpus.sha256

    def sentences(self) -> Iterator[str]:
        yield from self.corpus.sentences()

    def task(self, model: ModelConfig, train: Train, device: torch.device) -> Learning:
        return translating(self.corpus, model, train, device)

    def files(self) -> dict[str, bytes]:
        source, target = self.corpus.sides
        return sides_files(Sides(source, target, unsaid(self.corpus.training, target)))

    def facts(self, task: Learning) -> dict[str, Any]:
        assert isinstance(task, Translating)
        pairs = self.corpus.pairs
        return {
            "training_pairs": len(task.training),
            "validation_pairs": len(pairs.validation),
            "test_pairs": len(pairs.test),
            "validation_tokens": int(task.validation.lengths[:, 1].sum()),
            "vocabulary": len(task.sides.target),
            "target_tokens_each_step": task.tokens_each_step,
        }


def subject(recipe: Recipe, far: Progress | None = None, folder: Path | None = None) -> Subject:
    """What a recipe learns from; of a run's folder, by its own tokenizers."""
    match recipe.task:
        case "translation":
            if folder is None:
                return _Pairs(pair_corpus(recipe.data))
            sides = known_sides(folder)
            return _Pairs(pair_corpus(recipe.data, (sides.source, sides.target)))
        case _:
            held = None if folder is None else load_tokenizer(folder / TOKENIZER)
            return _Text(corpus(recipe.data, tokenizer=held, progress=far))


def located(task: str, data: Data) -> Data:
    """The same data, as a recipe can name them from any folder."""
    match task:
        case "translation":
            return replace(
                data,
                source=absolute_pairs(data.source),
                validation=absolute_pairs(data.validation),
                test=absolute_pairs(data.test),
            )
        case _:
            return replace(data, source=absolute(data.source))
