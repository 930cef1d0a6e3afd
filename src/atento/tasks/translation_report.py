"""A run of pairs as a page: what was asked, the answer, curves, a translation and its alignment."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atento.errors import UserError
from atento.models.storage import read_json
from atento.report.curves import Chart, Level, Series, curves
from atento.report.file import write
from atento.report.heatmap import Axes, heatmap
from atento.report.markup import Html, element, joined
from atento.report.numbers import number, spelled
from atento.report.page import fragment, page
from atento.report.parts import box, facts, paragraph, said
from atento.tasks.report import NARROW, REPORT, WIDE, spoken_here
from atento.tasks.texts import Words

if TYPE_CHECKING:
    from atento.tasks.translating import Translation
    from atento.tasks.translation_run import TranslationRun

__all__ = ["TranslationReport", "aligned_html", "shown", "write_report"]

STEPS = 6  # of the translations over time
VISIBLE = {"\n": "↵", "\t": "⇥", " ": "␣"}
END = "∎"


def write_report(run: "TranslationRun", lang: str | None = None) -> Path:
    """Puts report.html into the run's folder, whole or not at all, and returns where it is."""
    if run.recipe is None:
        raise UserError(
            f"{str(run.folder)!r} holds a model but no recipe.toml, which says what it was trained "
            "for. Report on the folder of its run."
        )
    file = run.folder / REPORT
    content = TranslationReport(run, spoken_here(lang)).page()
    try:
        write(file, content)
    except OSError as error:
        raise UserError(
            f"{str(file)!r} cannot be written ({error.strerror}); the run itself is whole. Make "
            f"room, and then: atento report {run.folder}"
        ) from error
    return file


def shown(run: "TranslationRun", lang: str | None = None) -> Html:
    """The first screen of the report as a part of a page, for notebooks."""
    spoken = spoken_here(lang)
    first = TranslationReport(run, spoken).first_screen()
    return fragment(element("main", {"class": "report"}, first), spoken)


def aligned_html(made: "Translation", title: str) -> Html:
    """The alignment as a heatmap: rows are the translation's tokens, columns the source's."""
    assert made.alignment is not None
    axes = Axes(rows=_names(made.pieces), columns=_names(made.source_pieces))
    return heatmap(made.alignment.tolist(), title, axes=axes, digits=None, limits=(0.0, 1.0))


class TranslationReport:
    """The page of a run in one language, made of what its folder holds."""

    def __init__(self, run: "TranslationRun", lang: str) -> None:
        self.run, self.lang, self.words = run, lang, Words("translation", lang)
        self.environment = read_json(run.folder / "env.json")
        self.data: dict[str, Any] = self.environment.get("data", {})
        self.recipe = run.recipe.flat() if run.recipe else {}

    def page(self) -> str:
        """The whole page.

        Claim: test_translation_report.py::test_the_page_shows_a_translation_and_its_alignment
        """
        below = element("div", {"class": "below"}, *self._below())
        body = element("main", {"class": "report"}, self.first_screen(), self._samples(), below)
        return page(self._title(), body, self.lang)

    def first_screen(self) -> Html:
        """What was asked, the answer, the curves, and where a translation looked."""
        column = element("div", {"class": "column"}, self._curves())
        return joined(
            [
                element("h1", None, self._title()),
                paragraph(self._asked(), "asked"),
                paragraph(self._answer(), "answer"),
                element("div", {"class": "first"}, column, self._example()),
            ],
            "\n",
        )

    def chart(self, size: tuple[float, float] = WIDE) -> Chart:
        """The curves of training and validation."""
        say, records = self.words, self.run.metrics
        lines = [
            Series(name=say("curves", name), points=[(r["step"], r[key]) for r in records])
            for name, key in (("validation", "val_loss"), ("train", "train_loss"))
        ]
        uniform = math.log(self.data["vocabulary"]) if "vocabulary" in self.data else None
        levels = [Level(name=say("curves", "uniform"), value=uniform)] if uniform else []
        return Chart(
            title=say("curves", "heading"),
            series=lines,
            levels=levels,
            x=say("curves", "step"),
            y=say("curves", "y"),
            lang=self.lang,
            size=size,
        )

    def _number(self, value: float, digits: int = 0) -> str:
        written = f"{value:,.{digits}f}" if math.isfinite(value) else number(value, digits)
        return spelled(written, self.lang)

    def _title(self) -> str:
        name = str(self.environment.get("recipe", self.run.folder.name))
        return self.words("asked", "title", {"name": name, "source": self._source()})

    def _source(self) -> str:
        source = str(self.recipe.get("data.source", ""))
        return source.replace("\\", "/").rstrip("/").rpartition("/")[2] or source

    def _asked(self) -> str:
        values = {
            "source": self._source(),
            "parameters": self._number(sum(p.numel() for p in self.run.model.parameters())),
            "pairs": self._number(self.data.get("training_pairs", math.nan)),
            "model": self.words("models", self._model()),
        }
        return self.words("asked", "asked", values)

    def _model(self) -> str:
        kind, attention = self.run.config.kind, self.run.config.attention
        return "transformer" if kind == "encoder-decoder" else attention

    def _answer(self) -> str:
        if not self.run.metrics:
            return self.words("answer", "none")
        best = min(self.run.metrics, key=lambda record: float(record["val_loss"]))
        values = {
            "step": self._number(best["step"]),
            "loss": self._number(best["val_loss"], 4),
            "exact": self._number(100 * best.get("exact_match", math.nan), 1),
        }
        return self.words("answer", "answer", values)

    def _curves(self) -> Html:
        values = {"tokens": self._number(self.data.get("validation_tokens", math.nan))}
        drawn = [curves(self.chart(WIDE), "wide"), curves(self.chart(NARROW), "narrow")]
        notes = paragraph(self.words("curves", "note", values), "notes")
        return box(self.words("curves", "heading"), *drawn, notes)

    def _example(self) -> Html:
        """The validation line of the records, translated anew, and where each token looked."""
        say = self.words
        line = next((text.split("\n")[0] for _, text in reversed(self._kept())), "")
        if not line:
            return Html("")
        made = self.run.translate(line)[0][0]
        parts = [said(f"{line}\n→ {made.text}")]
        if made.alignment is None:
            parts.append(paragraph(say("example", "deaf"), "notes"))
        else:
            parts.append(aligned_html(made, say("example", "title")))
            parts.append(paragraph(say("example", "note"), "notes"))
        return box(say("example", "heading"), *parts)

    def _kept(self) -> list[tuple[dict[str, Any], str]]:
        return [(r, str(r["sample"])) for r in self.run.metrics if r.get("sample")]

    def _samples(self) -> Html:
        say, kept = self.words, self._kept()
        if not kept:
            return Html("")
        chosen = sorted({round(n * (len(kept) - 1) / (STEPS - 1)) for n in range(STEPS)})
        head = [element("th", {"scope": "col"}, say("sample", p)) for p in ("step", "loss", "said")]
        rows = [element("tr", None, *head)]
        for record, text in (kept[n] for n in chosen):
            cells = [self._number(record["step"]), self._number(record["val_loss"], 3)]
            written = [element("td", None, cell) for cell in cells]
            rows.append(element("tr", None, *written, element("td", None, said(text))))
        whole = element("table", {"class": "samples"}, *rows)
        heading = element("h2", None, say("sample", "steps"))
        return joined([heading, element("div", {"class": "scroll"}, whole)])

    def _below(self) -> list[Html]:
        say = self.words
        settings = [
            box(f"{say('parts', 'settings')} [{name}]", facts(self._settings(f"{name}.")))
            for name in ("data", "model", "train")
            if self.recipe
        ]
        pairs = {k: self._number(v) for k, v in self.data.items()}
        environment = {k: str(v) for k, v in self.environment.items() if k != "data"}
        return [
            box(say("parts", "data"), facts(pairs)),
            *settings,
            box(say("parts", "environment"), facts(environment)),
        ]

    def _settings(self, prefix: str) -> dict[str, str]:
        every = self.recipe.items()
        return {k.removeprefix(prefix): str(v) for k, v in every if k.startswith(prefix)}


def _names(pieces: tuple[str, ...]) -> list[str]:
    """Tokens on an axis: blanks by their signs, never nothing, and the end."""
    return [*("".join(VISIBLE.get(m, m) for m in piece) or "∅" for piece in pieces), END]
