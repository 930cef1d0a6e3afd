"""`atento lesson`: the lectures' worked examples, run through the library."""

import argparse
import os
from pathlib import Path

from atento.cli.output import check_folder, written
from atento.cli.parser import Parser
from atento.errors import UserError
from atento.report.language import LANGUAGES, language

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Prints a lesson or writes its page, or lists what the lectures hold."""
    parser = _parser()
    if not argv:
        parser.print_help()
        return 0
    options = parser.parse_args(argv)
    lang = options.lang or language(os.environ)
    if options.lesson == "list":
        if options.html is not None:
            raise UserError("--html goes with a lesson, and list is none. Name one, such as pizza.")
        print(_listing(lang, " ".join(options.word)))
        return 0
    if options.word:
        raise UserError(
            f"a lesson takes no further word; got {options.word[0]!r}. "
            "Words to search for go after `atento lesson list`."
        )
    return _taught(options.lesson, lang, options.html)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="atento lesson",
        description="Run a lecture's worked examples: every step, the printed figures beside ours.",
        epilog=f"lessons:\n{_lessons('en')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("lesson", help="a lesson's name, a lecture's number, or list")
    parser.add_argument(
        "word", nargs="*", help="with list: only what these words of a slide stand for"
    )
    parser.add_argument("--lang", choices=LANGUAGES, help="pt or en; by default as LANG says")
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page instead")
    return parser


def _lessons(lang: str, word: str = "") -> str:
    from atento.lessons.catalogue import lessons_about

    return "\n".join(
        f"  {lesson.name:<12}{' '.join(lesson.aliases):<6}{lesson.title(lang)}"
        for lesson in lessons_about(word)
    )


def _listing(lang: str, word: str) -> str:
    from atento.lessons.systems import find, listing
    from atento.lessons.texts import text

    lessons, rows = _lessons(lang, word), listing(lang, word)
    if not lessons:
        if not find(word):
            raise UserError(rows)
        return rows
    head = text("page", "labels", "lessons", lang)
    return f"{head}\n{lessons}" + (f"\n\n{rows}" if find(word) else "")


def _taught(name: str, lang: str, html: str | None) -> int:
    from atento.lessons.catalogue import lesson
    from atento.lessons.texts import text

    found = lesson(name)
    if html is None:
        from atento.lessons.plain import plain

        print(plain(found, found.steps(), lang))
        return 0
    from atento.lessons.page import lesson_page

    check_folder("--html", Path(html))
    written("--html", Path(html), lesson_page(found, found.steps(), lang).encode())
    print(text("page", "labels", "file", lang, {"file": html}))
    return 0
