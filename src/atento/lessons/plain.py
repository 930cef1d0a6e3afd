"""A lesson as plain text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby, zip_longest

from atento.lessons.catalogue import Lesson
from atento.lessons.lesson import Figure, Quote, Rows, Step
from atento.lessons.texts import text
from atento.lessons.verdicts import entries, figure_words, head_of_printed, summary
from atento.report.numbers import number

__all__ = ["plain"]

WIDTH = 79
WRONG = "*"  # a sign that every terminal has


def plain(lesson: Lesson, steps: tuple[Step, ...], lang: str) -> str:
    """Every step of the lesson, the printed figures beside ours, wrong ones marked with `*`."""
    title = lesson.title(lang)
    lines = [title, "=" * len(title), "", *_wrapped(text(lesson.name, "lesson", "body", lang))]
    for count, step in enumerate(steps, 1):
        head = f"{count}. {text(lesson.name, step.text, 'title', lang)}"
        lines += ["", head, "-" * len(head)]
        lines += _wrapped(text(lesson.name, step.text, "body", lang, step.values))
        for alone, run in groupby(step.items, _stands_alone):
            if not alone:
                lines += _shelves([_named(item, lang) for item in run if isinstance(item, Figure)])
                continue
            for item in run:
                lines.append("")
                if isinstance(item, Figure):
                    lines += _figure(lesson.name, item, lang)
                else:
                    lines += _quote(lesson.name, item, lang)
    lines += ["", *_wrapped(summary(steps, lang))]
    return "\n".join(line.rstrip() for line in lines)


def _stands_alone(item: Figure | Quote) -> bool:
    """Whether there is more to show of an item than one matrix with its symbol."""
    return isinstance(item, Quote) or bool(item.text or (item.ours and item.printed))


def _named(figure: Figure, lang: str) -> list[str]:
    head = head_of_printed(figure, lang) if figure.printed else ""
    return [figure.symbol, *_block(head, figure.ours or figure.printed, figure)]


def _shelves(blocks: list[list[str]]) -> Iterator[str]:
    """As many blocks side by side as fit, then the next ones below them."""
    shelf: list[list[str]] = []
    for block in blocks:
        if shelf and not _fit([*shelf, block]):
            yield from ("", *_beside(shelf))
            shelf = []
        shelf.append(block)
    yield from ("", *_beside(shelf))


def _wrapped(words: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def _quote(lesson: str, quote: Quote, lang: str) -> Iterator[str]:
    verdict = text("page", "verdicts", quote.verdict or "", lang)
    said = text("page", "labels", "said", lang)
    yield from _wrapped(f"{said}: «{quote.words}» [{verdict}]", "  ")
    yield from _wrapped(text(lesson, quote.text, "why", lang, quote.values), "  ")


def _figure(lesson: str, figure: Figure, lang: str) -> Iterator[str]:
    name, why = figure_words(lesson, figure, lang)
    verdict = f" [{text('page', 'verdicts', figure.verdict, lang)}]" if figure.verdict else ""
    yield from _wrapped(figure.symbol + (f": {name}" if name else "") + verdict, "  ")
    marked = frozenset(figure.wrong)
    blocks = []
    if figure.ours:
        head = text("page", "labels", "ours", lang) if figure.printed else ""
        blocks.append(_block(head, figure.ours, figure))
    if figure.printed:
        blocks.append(_block(head_of_printed(figure, lang), figure.printed, figure, marked))
    yield from _beside(blocks)
    if figure.wrong:
        yield from _wrapped(f"{WRONG} {entries(figure, lang)}", "    ")
        yield from _wrapped(why, "    ")


def _block(
    head: str, rows: Rows, figure: Figure, marked: frozenset[tuple[int, int]] = frozenset()
) -> list[str]:
    """The matrix in aligned columns under its head, row names on the left."""
    cells = [
        [
            number(value, figure.digits) + (WRONG if (r, c) in marked else " ")
            for c, value in enumerate(row)
        ]
        for r, row in enumerate(rows)
    ]
    columns = [f"{name} " for name in figure.columns]
    wide = max(len(cell) for row in [columns, *cells] for cell in row)
    left = max((len(name) for name in figure.rows), default=0)
    names = [*figure.rows, *[""] * (len(cells) - len(figure.rows))]
    lines = [head.strip()] if head else []
    if columns:
        lines.append(" " * left + "".join(f" {name:>{wide}}" for name in columns))
    lines += [
        f"{name:<{left}}" + "".join(f" {cell:>{wide}}" for cell in row)
        for name, row in zip(names, cells, strict=True)
    ]
    return lines


def _beside(blocks: list[list[str]]) -> Iterator[str]:
    """The blocks side by side where they fit, else one below the other."""
    if not _fit(blocks):
        for block in blocks:
            yield from (f"    {line}" for line in block)
        return
    widths = [_width(block) for block in blocks]
    for lines in zip_longest(*blocks, fillvalue=""):
        yield "    " + "   ".join(
            f"{line:<{width}}" for line, width in zip(lines, widths, strict=True)
        )


def _fit(blocks: list[list[str]]) -> bool:
    return sum(map(_width, blocks)) + 3 * (len(blocks) - 1) + 4 <= WIDTH


def _width(block: list[str]) -> int:
    return max(map(len, block))
