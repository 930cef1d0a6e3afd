"""The lessons by name. No torch is imported until one is run."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass

from atento.errors import UserError
from atento.lessons.lesson import Step
from atento.lessons.systems import find
from atento.lessons.texts import text

__all__ = ["LESSONS", "Lesson", "lesson", "lessons_about"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A lesson's name, its other names, and the file whose `steps()` are run."""

    name: str
    lecture: str
    file: str
    aliases: tuple[str, ...] = ()

    def title(self, lang: str) -> str:
        return text(self.name, "lesson", "title", lang)

    def steps(self) -> tuple[Step, ...]:
        """The steps, computed now."""
        return tuple(importlib.import_module(f"atento.lessons.{self.file}").steps())


LESSONS = (
    Lesson(name="pizza", lecture="001", file="pizza", aliases=("001",)),
    Lesson(name="multi-head", lecture="003", file="multi_head", aliases=("003",)),
)


def lesson(name: str) -> Lesson:
    """The lesson of that name or alias, or a UserError with the nearest one."""
    names = {one: found for found in LESSONS for one in (found.name, *found.aliases)}
    if name.casefold() in names:
        return names[name.casefold()]
    near = difflib.get_close_matches(name.casefold(), [*names, "list"], n=1)
    hint = (
        f"Did you mean `atento lesson {near[0]}`?" if near else "`atento lesson list` tells more."
    )
    known = ", ".join(found.name for found in LESSONS)
    raise UserError(f"the lesson must be one of {known}, or list; got {name!r}. {hint}")


def lessons_about(word: str) -> tuple[Lesson, ...]:
    """The lessons that a word names: by name, title, lecture, or a row that they show."""
    if not word:
        return LESSONS
    of_lecture = tuple(one for one in LESSONS if one.lecture == word.strip())
    if of_lecture:
        return of_lecture
    shown = {row.command for row in find(word)}
    wanted = word.casefold()
    return tuple(
        one
        for one in LESSONS
        if f"atento lesson {one.name}" in shown
        or any(wanted in words.casefold() for words in (one.name, one.title("pt"), one.title("en")))
    )
