"""A lesson as one self-contained HTML page."""

from __future__ import annotations

from atento.lessons.catalogue import Lesson
from atento.lessons.lesson import Figure, Quote, Rows, Step
from atento.lessons.texts import text
from atento.lessons.verdicts import entries, figure_words, head_of_printed, summary
from atento.report.heatmap import Axes, heatmap
from atento.report.markup import Html, element, joined
from atento.report.numbers import number
from atento.report.page import page
from atento.report.table import table

__all__ = ["lesson_page"]


def lesson_page(lesson: Lesson, steps: tuple[Step, ...], lang: str) -> str:
    """Every step, the printed figures beside ours, weights as heatmaps, wrong entries outlined."""
    title = lesson.title(lang)
    parts = [
        element("h1", None, title),
        *_paragraph(text(lesson.name, "lesson", "body", lang)),
        *_paragraph(summary(steps, lang)),
    ]
    for count, step in enumerate(steps, 1):
        parts.append(element("h2", None, f"{count}. {text(lesson.name, step.text, 'title', lang)}"))
        parts += _paragraph(text(lesson.name, step.text, "body", lang, step.values))
        figures = []
        for item in step.items:
            if isinstance(item, Figure):
                shown = _figure(lesson.name, item, lang)
            else:
                shown = _quote(lesson.name, item, lang)
            figures.append(element("div", {"class": "figure"}, *shown))
        parts.append(element("div", {"class": "figures"}, *figures))
    return page(title, joined([element("main", None, joined(parts, "\n"))]), lang)


def _paragraph(words: str) -> list[Html]:
    return [element("p", None, words)] if words else []


def _heading(words: str, verdict: str | None, lang: str) -> Html:
    badge = (
        [element("span", {"class": f"verdict {verdict}"}, text("page", "verdicts", verdict, lang))]
        if verdict
        else []
    )
    return element("h3", None, words, *badge)


def _quote(lesson: str, quote: Quote, lang: str) -> list[Html]:
    said = text("page", "labels", "said", lang)
    return [
        _heading(f"{said}: «{quote.words}»", quote.verdict, lang),
        *_paragraph(text(lesson, quote.text, "why", lang, quote.values)),
    ]


def _figure(lesson: str, figure: Figure, lang: str) -> list[Html]:
    name, why = figure_words(lesson, figure, lang)
    parts = [_heading(figure.symbol + (f": {name}" if name else ""), figure.verdict, lang)]
    blocks = []
    if figure.ours:
        head = text("page", "labels", "ours", lang)
        blocks.append(_block(head, figure.ours, figure, frozenset()))
    if figure.printed:
        head = head_of_printed(figure, lang)
        blocks.append(_block(head, figure.printed, figure, frozenset(figure.wrong)))
    parts.append(element("div", {"class": "beside"}, *blocks))
    if figure.wrong:
        parts += [*_paragraph(entries(figure, lang)), *_paragraph(why)]
    return parts


def _block(head: str, rows: Rows, figure: Figure, marked: frozenset[tuple[int, int]]) -> Html:
    if figure.heat:
        drawn = heatmap(
            rows,
            f"{figure.symbol}, {head}",
            axes=Axes(rows=figure.rows, columns=figure.columns),
            digits=figure.digits,
            limits=_limits(figure),
            marked=marked,
        )
    else:
        drawn = table(
            [[number(value, figure.digits) for value in row] for row in rows],
            columns=figure.columns,
            names=figure.rows,
            marked=marked,
        )
    return element("div", None, element("h4", None, head), drawn)


def _limits(figure: Figure) -> tuple[float, float]:
    """One scale for ours and the printed: from 0, or what is less, to the greatest."""
    values = [value for rows in (figure.ours, figure.printed) for row in rows for value in row]
    return min(0.0, *values), max(values)
