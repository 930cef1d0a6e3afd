"""A run that turns one text into another, and what can be done with it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from atento.data.known import Known
from atento.data.pair_corpus import PairCorpus, encoded, pair_corpus
from atento.data.pair_files import Pair
from atento.data.tokenizers import load_tokenizer
from atento.errors import UserError
from atento.models.beam import Beam
from atento.models.config import ModelConfig
from atento.models.format import MARK, check_format
from atento.models.storage import read_json
from atento.tasks.folder import TOKENIZER, RunFolder, check_source
from atento.tasks.recipe import Recipe
from atento.tasks.translating import Sides, Translation, translated
from atento.tasks.translation import pair_loss
from atento.tasks.translation_report import shown, write_report

__all__ = ["FILES", "TranslationRun", "known_sides", "sides_files", "translation_run"]

SOURCE_TOKENIZER, KNOWN = "source_tokenizer.json", "known.json"
FILES = (TOKENIZER, SOURCE_TOKENIZER, KNOWN)  # that `sides_files` may write


@dataclass(frozen=True, repr=False)
class TranslationRun(RunFolder):
    """A model of pairs, and how both sides are written."""

    sides: Sides

    def translate(
        self,
        lines: str | Sequence[str],
        beam: int = 5,
        nbest: int = 1,
        *,
        how: Beam | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> list[list[Translation]]:
        """For each line its `nbest` translations, the best first: text, score and alignment.

        The n-th answer is the n-th line's; an empty line has an empty one. `beam` hypotheses are
        kept at once, 1 is greedy; `how` says more of the search. `tell` hears how many lines are
        done.
        Claim: test_translating.py::test_a_run_translates_in_order_and_shows_where_it_looked
        """
        given = [lines] if isinstance(lines, str) else list(lines)
        looks = getattr(self.model, "aligned", None) is not None
        asked = replace(how or Beam(), size=beam, nbest=nbest, aligned=looks)
        return translated(self.model, self.sides, given, asked, tell)

    def evaluate(self, split: str = "validation") -> dict[str, float]:
        """`val_loss` or `test_loss`, nats for each target token of a split, and how many pairs."""
        pairs = encoded(self.pairs(split), (self.sides.source, self.sides.target))
        loss = pair_loss(self.model, pairs, self.trained.train.tokens)
        name = "val" if split == "validation" else split
        return {f"{name}_loss": loss, f"{name}_pairs": len(pairs)}

    def pairs(self, split: str = "validation") -> list[Pair]:
        """A split of the pairs that the run began with, which must be as they were."""
        if split not in ("training", "validation", "test"):
            raise UserError(f"split must be validation, test or training; got {split!r}.")
        held = self.corpus()
        found: list[Pair] = getattr(held.pairs, split)
        if not found:
            raise UserError(
                f"data.source {held.source!r} has no {split} pairs. Name them in a new run with "
                f"--data.{split} FILE."
            )
        return found

    def report(self, lang: str | None = None) -> Path:
        """Writes report.html into the run's folder, in `pt` or `en`, else as LANG says."""
        return write_report(self, lang)

    def _repr_html_(self) -> str:
        """The first screen of the report, for notebooks."""
        return shown(self)

    def corpus(self) -> PairCorpus:
        """The pairs that the run began with, which must be as they were."""
        held = pair_corpus(self.trained.data, (self.sides.source, self.sides.target))
        check_source(self.folder, held.source, held.sha256)
        return held


def translation_run(
    folder: Path,
    model: nn.Module,
    config: ModelConfig,
    recipe: Recipe | None,
    metrics: list[dict[str, Any]],
) -> TranslationRun:
    """The run of a folder whose model is loaded."""
    sides = known_sides(folder)
    sizes = (config.source_vocabulary or config.vocabulary, config.vocabulary)
    if (len(sides.source), len(sides.target)) != sizes:
        raise UserError(
            f"{folder / TOKENIZER} has {len(sides.target)} tokens, and the model "
            f"{config.vocabulary}: they do not belong together."
        )
    return TranslationRun(folder, model, config, recipe, metrics, sides)


def sides_files(sides: Sides) -> dict[str, bytes]:
    """The files by which both sides are known again: name → content."""
    source, target = sides.source, sides.target
    content = MARK | {
        "source": source.characters,
        "target": target.characters,
        "unsaid": list(sides.unsaid),
    }
    files = {
        TOKENIZER: target.tokenizer.to_json().encode(),
        KNOWN: json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n",
    }
    if source.tokenizer is not target.tokenizer:
        files[SOURCE_TOKENIZER] = source.tokenizer.to_json().encode()
    return files


def known_sides(folder: Path) -> Sides:
    """What `sides_files` wrote."""
    for name in (TOKENIZER, KNOWN):
        if not (folder / name).is_file():
            raise UserError(f"{str(folder)!r} must hold {name}; it does not. Copy it there too.")
    content = read_json(folder / KNOWN)
    check_format(content, str(folder / KNOWN))
    target = load_tokenizer(folder / TOKENIZER)
    apart = folder / SOURCE_TOKENIZER
    source = load_tokenizer(apart) if apart.is_file() else target
    try:
        return Sides(
            Known(source, str(content["source"])),
            Known(target, str(content["target"])),
            tuple(int(number) for number in content["unsaid"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / KNOWN} is not as atento writes it: {error!r}.") from error
