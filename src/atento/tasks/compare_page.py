"""A comparison as a page: what was asked, the answer, the table, curves, and what each says."""

import statistics
from collections.abc import Iterator

from atento.report.curves import Chart, Level, Series, curves
from atento.report.markup import Html, element, joined
from atento.report.numbers import number, spelled
from atento.report.page import fragment, page
from atento.report.parts import box, facts, paragraph, said
from atento.report.table import table
from atento.tasks.comparison import Comparison, Group, Row
from atento.tasks.report import NARROW, WIDE, short_source, spoken_here
from atento.tasks.texts import Words

__all__ = ["compare_chart", "compare_fragment", "compare_page"]


def compare_page(comparison: Comparison, lang: str | None = None) -> str:
    """The whole page.

    Claim: test_compare.py::test_the_page_shows_every_recipe_and_asks_for_nothing
    """
    drawn = _Drawn(comparison, spoken_here(lang))
    body = element("main", {"class": "report"}, drawn.first_screen(), drawn.below())
    return page(drawn.title(), body, drawn.lang)


def compare_fragment(comparison: Comparison, lang: str | None = None) -> Html:
    """Its first screen as a part of a page, for notebooks."""
    drawn = _Drawn(comparison, spoken_here(lang))
    return fragment(element("main", {"class": "report"}, drawn.first_screen()), drawn.lang)


def compare_chart(comparison: Comparison, lang: str, size: tuple[float, float] = WIDE) -> Chart:
    """Validation losses over the tokens seen: the mean of the seeds, and how far they spread."""
    run, curve = Words("run", lang), Words("compare", lang)
    return Chart(
        title=curve("curves", "heading"),
        series=[_series(group) for group in comparison.groups],
        levels=[
            Level(name=run("curves", name) or name, value=value)
            for name, value in comparison.baselines.items()
        ],
        x=curve("curves", "x"),
        y=curve("curves", "y"),
        lang=lang,
        size=size,
    )


def _series(group: Group) -> Series:
    """The mean over the seeds at the steps that all of them recorded."""
    each = [
        {r["step"] * run.tokens_each_step: float(r["val_loss"]) for r in run.metrics}
        for run in group.runs
    ]
    along = sorted(set.intersection(*(set(found) for found in each)))
    at = [[found[x] for found in each] for x in along]
    return Series(
        name=group.name,
        points=[(x, statistics.fmean(values)) for x, values in zip(along, at, strict=True)],
        spread=[(min(values), max(values)) for values in at] if len(each) > 1 else (),
    )


class _Drawn:
    """The parts of the page in one language."""

    def __init__(self, comparison: Comparison, lang: str) -> None:
        self.held, self.lang, self.words = comparison, lang, Words("compare", lang)

    def title(self) -> str:
        names = ", ".join(group.name for group in self.held.groups)
        return self.words("page", "title", {"names": names})

    def first_screen(self) -> Html:
        say = self.words
        chart = [
            curves(compare_chart(self.held, self.lang, size), kind)
            for size, kind in ((WIDE, "wide"), (NARROW, "narrow"))
        ]
        left = box(say("curves", "heading"), *chart, self._note("curves"))
        return joined(
            [
                element("h1", None, self.title()),
                paragraph(self._asked(), "asked"),
                paragraph(self._answer(), "answer"),
                *(paragraph(words, "warning") for words in self._differences()),
                box(say("table", "heading"), self._table(), self._note("table")),
                element(
                    "div",
                    {"class": "first"},
                    left,
                    element("div", {"class": "column"}, *self._samples()),
                ),
            ],
            "\n",
        )

    def below(self) -> Html:
        """Each one's recipe, where it is not the same for all."""
        every = {group.name: group.runs[0].recipe.flat() for group in self.held.groups}
        options = next(iter(every.values()))
        own = [key for key in options if len({str(flat[key]) for flat in every.values()}) > 1]
        boxes = [
            box(name, facts({key: str(flat[key]) for key in own or options}))
            for name, flat in every.items()
        ]
        heading = element("h2", None, Words("run", self.lang)("parts", "settings"))
        return joined([heading, element("div", {"class": "below"}, *boxes)])

    def _number(self, value: float | None, digits: int = 0) -> str:
        if value is None:
            return ""
        return spelled(f"{value:,.{digits}f}", self.lang)

    def _note(self, part: str) -> Html:
        return paragraph(self.words(part, "note"), "notes")

    def _asked(self) -> str:
        runs = [run for group in self.held.groups for run in group.runs]
        values = {
            "source": short_source(runs[0].data, runs[0].recipe.data.source),
            "runs": self._number(len(runs)),
            "tokens": self._number(runs[0].tokens_seen),
        }
        unequal = self.held.differs.keys() & {"source", "tokens"}
        return self.words("page", "asked_unequal" if unequal else "asked", values)

    def _answer(self) -> str:
        say, rows = self.words, [row for row in self.held.table if row.seeds]
        if not self.held.comparable:
            return say("page", "apart")
        best = min(rows, key=lambda row: row.val_loss)
        worst = max(rows, key=lambda row: row.val_loss)
        bits = {"bits": self._number(best.bits_per_character, 3)}
        values = {
            "best": best.name,
            "loss": self._number(best.val_loss, 4),
            "spread": self._spread(best),
            "bits": "" if best.bits_per_character is None else f" {say('page', 'bits', bits)}",
            "worst": worst.name,
            "gap": self._number(worst.val_loss - best.val_loss, 4),
            "count": self._number(best.seeds),
        }
        return say("page", "seeds" if len(rows) == 1 else "answer", values)

    def _spread(self, row: Row) -> str:
        if row.deviation is None:
            return ""
        return f" ± {self._number(row.deviation, 4)}"

    def _differences(self) -> Iterator[str]:
        say = self.words
        for condition, held in self.held.differs.items():
            each = "; ".join(f"{name} {value}" for name, value in held.items())
            values = {"condition": say("page", condition), "held": each}
            yield say("page", "differs", values)

    def _table(self) -> Html:
        say = self.words
        heads = ("loss", "difference", "bits", "parameters", "tokens", "seconds", "seeds")
        rows = [
            [
                f"{spelled(number(row.val_loss, 4), self.lang)}{self._spread(row)}",
                "" if row.difference is None else spelled(f"{row.difference:+.4f}", self.lang),
                self._number(row.bits_per_character, 3),
                self._number(row.parameters),
                self._number(row.tokens),
                self._number(row.seconds, 1),
                self._number(row.seeds) if row.seeds else "",
            ]
            for row in self.held.table
        ]
        run = Words("run", self.lang)
        names = [row.name if row.seeds else run("curves", row.name) for row in self.held.table]
        made = table(rows, columns=[say("table", head) for head in heads], names=names)
        return element("div", {"class": "scroll"}, made)

    def _samples(self) -> Iterator[Html]:
        for group in self.held.groups:
            words = str(group.runs[0].best.get("sample", ""))
            if words:
                yield box(f"{self.words('samples', 'heading')}: {group.name}", said(words))
