"""What several runs say beside each other: a table, what is not the same for all, files."""

import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from atento.errors import UserError
from atento.models.format import MARK
from atento.models.storage import read_json
from atento.report.file import write
from atento.report.markup import Html
from atento.report.numbers import number
from atento.tasks.recipe import Recipe
from atento.training.loop import read_metrics

__all__ = ["COMPARISON", "PAGE", "Comparison", "Group", "Member", "Row", "load_comparison"]

COMPARISON, PAGE = "compare.json", "compare.html"


@dataclass(frozen=True)
class Member:
    """One run, as its folder tells of it; no model is loaded."""

    folder: Path
    recipe: Recipe
    environment: dict[str, Any]
    metrics: list[dict[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> "Member":
        """The run of a folder; one without a measured model is an error."""
        records = read_metrics(folder)
        if not records:
            raise UserError(
                f"{str(folder)!r} holds no model yet that was measured. Go on with: atento train "
                f"{folder / 'recipe.toml'} --out {folder} --resume"
            )
        environment = read_json(folder / "env.json")
        return cls(folder, Recipe.read(str(folder / "recipe.toml")), environment, records)

    @property
    def data(self) -> dict[str, Any]:
        """What it kept of its text."""
        found: dict[str, Any] = self.environment.get("data", {})
        return found

    @property
    def tokens_each_step(self) -> int:
        if told := self.data.get("target_tokens_each_step"):  # of pairs, on average
            return round(float(told) * self.recipe.train.accumulate)
        return self.recipe.train.batch * self.recipe.train.accumulate * self.recipe.model.context

    @property
    def tokens_seen(self) -> int:
        return int(self.metrics[-1]["step"]) * self.tokens_each_step

    @property
    def best(self) -> dict[str, Any]:
        return min(self.metrics, key=lambda record: float(record["val_loss"]))

    def bits(self, loss: float) -> float | None:
        """Bits for each character of the validation split; None where its length is not known."""
        tokens, characters = (
            float(self.data.get(f"validation_{kind}", 0)) for kind in ("tokens", "characters")
        )
        return loss / math.log(2) * tokens / characters if tokens and characters else None


@dataclass(frozen=True)
class Group:
    """The runs of one recipe, which differ by their seeds alone."""

    name: str
    runs: tuple[Member, ...]

    @property
    def conditions(self) -> dict[str, str]:
        """What must be the same for all that are compared; the first three, for losses to be."""
        run, hidden = self.runs[0], ""
        if run.recipe.model.kind == "encoder":
            hidden = f", {run.recipe.train.masked:g} hidden"
        return {
            "source": f"{run.recipe.data.source} ({str(run.environment.get('source'))[:8]})",
            "tokenizer": f"{run.recipe.data.tokenizer}, {run.data.get('vocabulary', '?')}",
            "objective": f"{run.recipe.model.kind}{hidden}",
            "tokens": " or ".join(f"{n:,}" for n in sorted({r.tokens_seen for r in self.runs})),
        }


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table, losses in nats for each token; None where there is nothing to say."""

    name: str
    val_loss: float
    parameters: int | None = None
    tokens: int | None = None  # seen in training
    seconds: float | None = None  # the mean over the seeds
    seeds: int = 0
    deviation: float | None = None  # of val_loss over the seeds: with n − 1
    bits_per_character: float | None = None
    difference: float | None = None  # of val_loss to the first


@dataclass(frozen=True)
class Comparison:
    """Several recipes, each trained with several seeds, and where the files of all that are."""

    folder: Path
    groups: tuple[Group, ...]

    @cached_property
    def differs(self) -> dict[str, dict[str, str]]:
        """Each condition that is not the same for all → what it is for each.

        Claim: test_compare.py::test_what_is_not_the_same_is_marked
        """
        every = {group.name: group.conditions for group in self.groups}
        names = next(iter(every.values())) if every else {}
        found = {key: {name: held[key] for name, held in every.items()} for key in names}
        return {key: held for key, held in found.items() if len(set(held.values())) > 1}

    @property
    def comparable(self) -> bool:
        """Whether the losses are of the same tokens, asked for in the same way."""
        return not self.differs.keys() & {"source", "tokenizer", "objective"}

    @property
    def baselines(self) -> dict[str, float]:
        """What counting reaches on the split, where it is the same for all."""
        found: dict[str, float] = self.groups[0].runs[0].data.get("baselines", {})
        return found if not self.differs.keys() & {"source", "tokenizer"} else {}

    @cached_property
    def table(self) -> list[Row]:
        """A row for each recipe, in the order given, then for what counting reaches.

        val_loss is the mean over seeds of each run's best by validation.
        Claim: test_compare.py::test_the_table_is_what_the_metrics_say
        """
        rows: list[Row] = []
        for group in self.groups:
            first, losses = group.runs[0], [run.best["val_loss"] for run in group.runs]
            loss = statistics.fmean(losses)
            before = rows[0].val_loss if rows and self.comparable else None
            rows.append(
                Row(
                    name=group.name,
                    val_loss=loss,
                    parameters=first.environment.get("parameters"),
                    tokens=first.tokens_seen,
                    seconds=statistics.fmean(run.metrics[-1]["seconds"] for run in group.runs),
                    seeds=len(losses),
                    deviation=statistics.stdev(losses) if len(losses) > 1 else None,
                    bits_per_character=first.bits(loss),
                    difference=None if before is None else loss - before,
                )
            )
        run = self.groups[0].runs[0]
        return rows + [
            Row(name=name, val_loss=loss, bits_per_character=run.bits(loss))
            for name, loss in self.baselines.items()
        ]

    def flat(self) -> dict[str, str | float | int | None]:
        """One flat object of it, as `atento compare --json` prints it."""
        found: dict[str, str | float | int | None] = {
            "folder": str(self.folder),
            "same_conditions": not self.differs,
        }
        for row in self.table:
            values = asdict(row).items()
            found |= {f"{row.name}.{k}": v for k, v in values if k != "name" and v is not None}
        return found

    def report(self, lang: str | None = None) -> Path:
        """Writes compare.html and compare.json, and returns where the page is."""
        from atento.tasks.compare_page import compare_page

        page = compare_page(self, lang)
        content = MARK | {
            "runs": {g.name: [self._named(run.folder) for run in g.runs] for g in self.groups},
            "differs": self.differs,
            "table": [asdict(row) for row in self.table],
        }
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(self.folder / COMPARISON, text)
            write(self.folder / PAGE, page)
        except OSError as error:
            raise UserError(
                f"{str(self.folder)!r} cannot be written ({error.strerror}); the runs are whole. "
                "Make room, or name another --out, and compare again."
            ) from error
        return self.folder / PAGE

    def _named(self, folder: Path) -> str:
        """A run's folder, from the comparison's where it is inside of it."""
        inside = folder.is_relative_to(self.folder)
        return (folder.relative_to(self.folder) if inside else folder.resolve()).as_posix()

    def _repr_html_(self) -> Html:
        """The first screen of the page, for notebooks."""
        from atento.tasks.compare_page import compare_fragment

        return compare_fragment(self)

    def __repr__(self) -> str:
        """The table, as a terminal shows it."""
        return "\n".join(_lines(self))


def load_comparison(folder: str | Path) -> Comparison:
    """The comparison of a folder that `atento compare` wrote."""
    home = Path(folder).expanduser()
    content = read_json(home / COMPARISON)
    groups = [
        Group(name, tuple(Member.of(home / path) for path in paths))
        for name, paths in content["runs"].items()
    ]
    return Comparison(home, tuple(groups))


def _lines(comparison: Comparison) -> Iterator[str]:
    heads = ("", "parameters", "tokens", "seconds", "val_loss", "bits/char", "difference")
    rows = [heads, *(_cells(row) for row in comparison.table)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(heads))]
    for row in rows:
        name = row[0].ljust(widths[0])
        yield "  ".join([name, *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
    for condition, held in comparison.differs.items():
        yield f"Not the same for all, {condition}: {'; '.join(f'{k} {v}' for k, v in held.items())}"


def _cells(row: Row) -> tuple[str, ...]:
    spread = "" if row.deviation is None else f" ± {row.deviation:.4f}"
    return (
        row.name,
        "" if row.parameters is None else f"{row.parameters:,}",
        "" if row.tokens is None else f"{row.tokens:,}",
        "" if row.seconds is None else f"{row.seconds:.1f}",
        f"{number(row.val_loss, 4)}{spread}",
        "" if row.bits_per_character is None else number(row.bits_per_character, 3),
        "" if row.difference is None else f"{row.difference:+.4f}",
    )
