"""A run as a page: what was asked, the answer, curves, a sample, a head; below, the rest."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atento.errors import UserError
from atento.inspection.surest import surest
from atento.models.storage import read_json
from atento.report.curves import Chart, Level, Series, curves
from atento.report.file import write
from atento.report.heatmap import Axes, heatmap
from atento.report.language import LANGUAGES, language
from atento.report.markup import Html, element, joined
from atento.report.numbers import number, spelled
from atento.report.page import fragment, page
from atento.report.parts import box, facts, paragraph, said
from atento.tasks.texts import Words

if TYPE_CHECKING:
    from atento.tasks.run import Run

__all__ = [
    "NARROW",
    "REPORT",
    "WIDE",
    "Report",
    "shown",
    "short_source",
    "spoken_here",
    "write_report",
]

REPORT = "report.html"

WIDE, NARROW = (720.0, 290.0), (350.0, 290.0)  # pixels of the curves on a screen, on a phone
SHOWN = 24  # tokens of the sentence, at most
SAID = 200  # tokens of the sample, at most
STEPS = 6  # of the samples over time
VISIBLE = {"\n": "↵", "\t": "⇥", " ": "␣"}


def write_report(run: "Run", lang: str | None = None) -> Path:
    """Puts report.html into the run's folder, whole or not at all, and returns where it is."""
    if run.recipe is None:
        raise UserError(
            f"{str(run.folder)!r} holds a model but no recipe.toml, which says what it was trained "
            "for. Report on the folder of its run."
        )
    file = run.folder / REPORT
    content = Report(run, spoken_here(lang)).page()
    try:
        write(file, content)
    except OSError as error:
        raise UserError(
            f"{str(file)!r} cannot be written ({error.strerror}); the run itself is whole. Make "
            f"room, and then: atento report {run.folder}"
        ) from error
    return file


def shown(run: "Run", lang: str | None = None) -> Html:
    """The first screen of the report as a part of a page, for notebooks.

    Claim: tasks/test_report.py::test_in_a_notebook_a_run_is_one_fragment_that_asks_for_nothing
    """
    spoken = spoken_here(lang)
    first = Report(run, spoken).first_screen()
    return fragment(element("main", {"class": "report"}, first), spoken)


def spoken_here(lang: str | None) -> str:
    """The language asked for, else the environment's."""
    if lang is not None and lang not in LANGUAGES:
        raise UserError(f"lang must be one of {', '.join(LANGUAGES)}; got {lang!r}.")
    return lang or language(os.environ)


def short_source(data: dict[str, Any], source: str) -> str:
    """A text's name without its folders, as far as the run kept it."""
    name = str(data.get("survey", {}).get("name") or source)
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or name


class Report:
    """The page of a run in one language, made of what its folder holds."""

    def __init__(self, run: "Run", lang: str) -> None:
        self.run, self.lang, self.words = run, lang, Words("run", lang)
        self.environment = read_json(run.folder / "env.json")
        self.data: dict[str, Any] = self.environment.get("data", {})
        self.recipe = run.recipe.flat() if run.recipe else {}
        self.unit = self.words("unit", self.recipe.get("data.tokenizer", "bpe"))

    def page(self) -> str:
        """The whole page.

        Claim: tasks/test_report.py::test_the_page_has_what_was_asked_and_what_came_of_it
        """
        below = element("div", {"class": "below"}, *self._below())
        body = element("main", {"class": "report"}, self.first_screen(), self._samples(), below)
        return page(self._title(), body, self.lang)

    def first_screen(self) -> Html:
        """What was asked, the answer, the curves, a sample, and where one head looks."""
        left = [self._curves(), self._sample()]
        return joined(
            [
                element("h1", None, self._title()),
                paragraph(self._asked(), "asked"),
                paragraph(self._answer(), "answer"),
                element(
                    "div",
                    {"class": "first"},
                    element("div", {"class": "column"}, *left),
                    self._map(),
                ),
            ],
            "\n",
        )

    def chart(self, size: tuple[float, float] = WIDE) -> Chart:
        """The curves of training and validation, and what counting alone reaches."""
        say = self.words
        records = self.run.metrics
        lines = [
            Series(name=say("curves", name), points=[(r["step"], r[key]) for r in records])
            for name, key in (("validation", "val_loss"), ("train", "train_loss"))
        ]
        levels = [
            Level(name=say("curves", name) or name, value=value)
            for name, value in self.data.get("baselines", {}).items()
        ]
        return Chart(
            title=say("curves", "heading"),
            series=lines,
            levels=levels,
            x=say("curves", "step"),
            y=say("curves", "y", {"unit": self.unit}),
            lang=self.lang,
            size=size,
        )

    def _number(self, value: float, digits: int = 0) -> str:
        written = f"{value:,.{digits}f}" if math.isfinite(value) else number(value, digits)
        return spelled(written, self.lang)

    def _source(self) -> str:
        return short_source(self.data, str(self.recipe.get("data.source", "")))

    def _title(self) -> str:
        name = str(self.environment.get("recipe", self.run.folder.name))
        return self.words("asked", "title", {"name": name, "source": self._source()})

    def _asked(self) -> str:
        config, say = self.run.config, self.words
        part = "nobody" if config.attention == "none" else "heads"
        values = {
            "unit": self.unit,
            "source": self._source(),
            "parameters": self._number(sum(p.numel() for p in self.run.model.parameters())),
            "layers": self._number(config.layers),
            "width": self._number(config.width),
            "context": self._number(config.context),
            "attention": say("asked", part, {"heads": self._number(config.heads)}),
        }
        return say("asked", config.kind, values)

    def _answer(self) -> str:
        say = self.words
        if not self.run.metrics:
            return say("answer", "none")
        best = min(self.run.metrics, key=lambda record: float(record["val_loss"]))
        loss, counted = best["val_loss"], self.data.get("baselines", {})
        beside = ""
        if "bigram" in counted and "trigram" in counted:
            losses = {name: self._number(value, 3) for name, value in counted.items()}
            beside = say("answer", "beside", losses)
        values = {
            "step": self._number(best["step"]),
            "unit": self.unit,
            "loss": self._number(loss, 3),
            "bits": self._number(loss / math.log(2), 2),
            "beside": beside,
        }
        return say("answer", self.run.config.kind, values)

    def _curves(self) -> Html:
        say = self.words
        values = {
            "tokens": self._number(self.data.get("validation_tokens", math.nan)),
            "context": self._number(self.run.config.context),
            "dropout": spelled(f"{self.run.config.dropout:g}", self.lang),
        }
        drawn = [curves(self.chart(WIDE), "wide"), curves(self.chart(NARROW), "narrow")]
        notes = paragraph(say("curves", "note", values), "notes")
        return box(say("curves", "heading"), *drawn, notes)

    def _sample(self) -> Html:
        run, say = self.run, self.words
        if run.config.kind == "decoder":
            # Beyond the context every token reads the whole window anew: on a long one, minutes.
            tokens = SAID if run.config.context < 64 else min(SAID, run.config.context)
            text, note = run.sample(tokens=tokens, temperature=0.8, seed=0), say("sample", "note")
        else:
            text, note = next((r[1] for r in reversed(self._kept())), ""), say("sample", "filled")
        if not text:
            return Html("")
        return box(say("sample", "heading"), said(text), paragraph(note, "notes"))

    def _map(self) -> Html:
        run, say = self.run, self.words
        heading = say("map", "heading")
        if run.config.attention == "none":
            return box(heading, paragraph(say("map", "none")))
        if len(self.data.get("sentence", "")) < 2:
            return box(heading, paragraph(say("map", "missing")))
        tokens = run.encode(self.data["sentence"])[:, : min(SHOWN, run.config.context)]
        shown = surest(run.model, tokens)
        if shown is None:
            return box(heading, paragraph(say("map", "none")))
        names = [_visible(run.tokenizer.decode([token])) for token in tokens[0].tolist()]
        # What may not be attended has weight 0 to the bit: it is left without a colour.
        weights = [[w if w else math.nan for w in row] for row in shown.weights]
        most = max(w for row in shown.weights for w in row)
        values = {
            "layer": self._number(shown.layer),
            "head": self._number(shown.head),
            "surety": self._number(shown.surety, 2),
            "most": self._number(most, 2),
        }
        drawn = heatmap(
            weights,
            say("map", "title", values),
            axes=Axes(rows=names, columns=names),
            digits=None,
            limits=(0.0, most),
        )
        return box(heading, drawn, paragraph(say("map", "note", values), "notes"))

    def _kept(self) -> list[tuple[dict[str, Any], str]]:
        """The records at which the model said something, and what."""
        return [(r, str(r["sample"])) for r in self.run.metrics if r.get("sample")]

    def _samples(self) -> Html:
        say, kept = self.words, self._kept()
        if not kept:
            return Html("")
        last = len(kept) - 1
        chosen = sorted({round(n * last / (STEPS - 1)) for n in range(STEPS)})
        head = [element("th", {"scope": "col"}, say("sample", p)) for p in ("step", "loss", "said")]
        rows = [element("tr", None, *head)]
        for record, text in (kept[n] for n in chosen):
            cells = [self._number(record["step"]), self._number(record["val_loss"], 3)]
            written = [element("td", None, cell) for cell in cells]
            rows.append(element("tr", None, *written, element("td", None, said(text))))
        whole = element("table", {"class": "samples"}, *rows)
        return joined(
            [
                element("h2", None, say("sample", "steps")),
                element("div", {"class": "scroll"}, whole),
            ]
        )

    def _below(self) -> list[Html]:
        say = self.words
        settings = [
            box(f"{say('parts', 'settings')} [{name}]", facts(self._settings(name)))
            for name in ("data", "model", "train")
            if self.recipe
        ]
        environment = {k: str(v) for k, v in self.environment.items() if k != "data"}
        boxes = [
            box(say("parts", "data"), *(paragraph(words) for words in self._data())),
            box(say("parts", "speed"), facts(self._speed())),
            *settings,
            box(say("parts", "environment"), facts(environment)),
        ]
        return boxes

    def _settings(self, section: str) -> dict[str, str]:
        prefix = f"{section}."
        return {
            option.removeprefix(prefix): str(value)
            for option, value in self.recipe.items()
            if option.startswith(prefix)
        }

    def _speed(self) -> dict[str, str]:
        if not (self.run.metrics and self.run.recipe):
            return {}
        last, train, say = self.run.metrics[-1], self.run.recipe.train, self.words
        tokens = last["step"] * train.batch * train.accumulate * self.run.config.context
        found = {
            say("speed", "seconds"): self._number(last["seconds"], 1),
            say("speed", "tokens"): self._number(tokens),
        }
        if last["seconds"] > 0:
            found[say("speed", "rate")] = self._number(tokens / last["seconds"])
        if self.data.get("training_tokens"):
            passes = tokens / self.data["training_tokens"]
            found[say("speed", "passes")] = self._number(passes, 2)
        return found

    def _data(self) -> list[str]:
        """What the text is, in sentences; nothing where the run kept nothing of it."""
        say, survey = self.words, self.data.get("survey")
        if survey is None:
            return []
        count = {k: self._number(v) for k, v in survey.items() if isinstance(v, int)}
        split = {"training": "training_tokens", "validation": "validation_tokens"}
        sizes = {name: self._number(self.data[key]) for name, key in split.items()}
        name = survey["name"] or say("data", "texts", count)
        encodings = ", ".join(survey["encodings"])
        sentences = [
            say("data", "text", {**count, "name": name, "encodings": encodings}),
            say("data", "split", sizes | {"vocabulary": self._number(self.data["vocabulary"])}),
        ]
        if survey["licences"]:
            sentences.append(say("data", "licence", {"licences": ", ".join(survey["licences"])}))
        for owner, kind, file, line in survey["notices"]:
            where = {"owner": owner, "file": file, "line": self._number(line)}
            sentences.append(say("data", kind, where))
        if survey["rare"]:
            shown = ", ".join(f"{symbol!r} × {n}" for symbol, n in survey["rare"])
            more = survey["rare_kinds"] - len(survey["rare"])
            others = f" {say('data', 'others', {'count': self._number(more)})}" if more else ""
            sentences.append(say("data", "rare", {"shown": shown, "others": others}))
        if survey["damaged"]:
            sentences.append(say("data", "damaged", {"count": count["damaged"]}))
        return sentences


def _visible(token: str) -> str:
    """A token's text on an axis: blanks by their signs, never nothing."""
    return "".join(VISIBLE.get(mark, mark) for mark in token) or "∅"
