"""What is said of figures and claims, the same on a terminal and on a page."""

from __future__ import annotations

from collections import Counter

from atento.lessons.lesson import Figure, Step, items
from atento.lessons.texts import text
from atento.report.numbers import number

__all__ = ["entries", "figure_words", "head_of_printed", "summary"]


def figure_words(lesson: str, figure: Figure, lang: str) -> tuple[str, str]:
    """The figure's name, and why it is wrong: empty where the lesson says nothing of it."""
    if not figure.text:
        return "", ""
    name, why = (text(lesson, figure.text, part, lang, figure.values) for part in ("name", "why"))
    return name, why


def head_of_printed(figure: Figure, lang: str) -> str:
    """What stands above the lecture's side of a figure."""
    label = "derived" if figure.derived else "printed" if figure.ours else "given"
    return text("page", "labels", label, lang)


def entries(figure: Figure, lang: str) -> str:
    """Each wrong entry by row and column from 1, with the right number."""
    # A number that the printed digits cannot tell from the right one gets one digit more.
    told = []
    for r, c in figure.wrong:
        said, right = figure.printed[r][c], figure.ours[r][c]
        digits = figure.digits
        if number(said, digits) == number(right, digits):
            digits += 1
        told.append(f"[{r + 1},{c + 1}] {number(said, digits)} → {number(right, digits)}")
    head = text("page", "labels", "wrong", lang)
    size = len(figure.printed) * len(figure.printed[0])
    count = text("page", "labels", "count", lang, {"wrong": str(len(told)), "all": str(size)})
    return f"{count} {head} {'; '.join(told)}."


def summary(steps: tuple[Step, ...], lang: str) -> str:
    """How many printed figures and claims were checked, and how many are right."""
    found = Counter(item.verdict for item in items(steps) if item.verdict)
    values = {"all": str(found.total()), "ok": str(found["ok"]), "wrong": str(found["wrong"])}
    return text("page", "labels", "summary", lang, values)
