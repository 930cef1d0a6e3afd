"""What a model of pairs is made of, and what its pairs are: worked out, not run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

from atento.data.dates import FORMATS, written
from atento.data.pair_corpus import pair_corpus
from atento.errors import UserError
from atento.models.build import build, drawing_words
from atento.models.config import ModelConfig
from atento.models.count import Count, count, counts
from atento.tasks.recipe import Recipe
from atento.tasks.run import load
from atento.training.words import training_words

__all__ = ["PairsDescription", "described_pairs", "is_of_pairs"]

EXAMPLE = date(2021, 3, 5)


@dataclass(frozen=True, kw_only=True)
class PairsDescription:
    """A model of pairs in numbers, and how dates are written where it learns those."""

    config: ModelConfig
    parameters: Count
    beside: Mapping[str, int]  # model.attention → parameters
    training: str
    formats: tuple[str, ...] = ()  # one day, in each of them

    def flat(self) -> dict[str, str | int | float]:
        """One flat object of it, as `atento describe --json` prints it."""
        return {
            **{f"model.{k}": v for k, v in asdict(self.config).items()},
            "parameters": self.parameters.total,
            **{f"parameters.{k}": v for k, v in asdict(self.parameters).items()},
            **{f"parameters_with_{k}": v for k, v in self.beside.items()},
            "training": self.training,
            "formats": len(self.formats),
        }


def is_of_pairs(target: str) -> bool:
    """Whether a run's folder, or a recipe, turns one text into another; a bare model tells not."""
    folder = Path(target).expanduser()
    bare = (folder / "config.json").is_file() and not (folder / "recipe.toml").is_file()
    return not bare and Recipe.read(target).task == "translation"


def described_pairs(target: str, options: Mapping[str, Any]) -> PairsDescription:
    """The description of a run's folder, or of a recipe with options.

    Claim: test_describe_pairs.py::test_the_parts_make_the_whole
    """
    recipe = Recipe.read(target).with_options(options)
    if (Path(target).expanduser() / "config.json").is_file():
        if options:
            raise UserError(f"a run has its options already; got --{next(iter(options))}.")
        config = load(target).config
    else:
        source, side = pair_corpus(recipe.data).sides
        apart = 0 if source.tokenizer is side.tokenizer else len(source)
        config = replace(recipe.model, vocabulary=len(side), source_vocabulary=apart)
    with torch.device("meta"):
        parameters = count(build(config))
    of_dates = recipe.data.source == "dates"
    return PairsDescription(
        config=config,
        parameters=parameters,
        beside={kind: made.total for kind, made in counts(config).items()},
        training=f"{training_words(recipe.train, paired=True)} · {drawing_words(config)}",
        formats=tuple(written(EXAMPLE, form) for form in FORMATS) if of_dates else (),
    )
