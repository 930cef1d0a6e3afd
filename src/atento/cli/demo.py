"""`atento demo`: what attention buys, shown on a text that is already here, or on one's own."""

import argparse
import os
import sys
from pathlib import Path

from atento.cli.parser import Parser
from atento.cli.terminal import Terminal
from atento.cli.threads import spin_briefly
from atento.cli.wording import Wording
from atento.data.sets import SETS, installed
from atento.errors import UserError
from atento.report.language import LANGUAGES, language

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Trains a network without and with attention, and tells what came of it."""
    options = _parser().parse_args(argv)
    if options.steps is not None and options.steps < 1:
        raise UserError(f"--steps must be at least 1; got {options.steps}.")
    source = _source(options)
    words = Wording(options.lang or language(os.environ))
    terminal = Terminal(sys.stdout, quiet=options.quiet)
    _check_folder(options.out)
    # Before torch, which takes seconds to import.
    terminal.head(words("begin", "title"))
    terminal.say(words("begin", "plan"))
    spin_briefly()
    from atento.cli.story import Story
    from atento.tasks.start import next_folder

    folder = Path(options.out).expanduser() if options.out else next_folder("demo")
    Story(source, folder, options.steps, words, terminal).tell()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="atento demo",
        description="Train a small network without and with attention, and see what that changes: "
        "on the King James Bible or what else is on this machine, or on a text of yours.",
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="a text of yours, instead of one that is here")
    add("--data.source", dest="source", metavar="FILE", help="the same, as atento train has it")
    add("--out", metavar="DIR", help="a new folder for the two runs and the page (runs/demo-N)")
    add("--lang", choices=LANGUAGES, help="pt or en; by default as LANG says")
    add("--steps", type=int, metavar="N", help="steps of each training; by default the recipe's")
    add("-q", "--quiet", action="store_true", help="only the table, and where the page is")
    return parser


def _source(options: argparse.Namespace) -> str:
    """The text: the user's, else the Bible, else what Python itself carries."""
    if options.file is not None and options.source is not None:
        raise UserError(
            f"FILE is --data.source, said shorter; got {options.file!r} and {options.source!r}. "
            "Give one of them."
        )
    given: str | None = options.file if options.source is None else options.source
    if given is None:
        return "kjv" if installed("kjv") else "pydoc"
    path = Path(given).expanduser()
    if given == "-" or (path.exists() and not (path.is_file() or path.is_dir())):
        raise UserError(
            f"data.source must be a text that can be read twice, as the demo trains twice; "
            f"{given!r} cannot. Save it to a file first."
        )
    if given not in SETS and not path.exists() and "," not in given:
        raise UserError(
            f"FILE must be a text file, a folder of .txt files, or one of {', '.join(SETS)}; there "
            f"is no {given!r}. Check the path."
        )
    return given


def _check_folder(given: str | None) -> None:
    folder = Path(given or "").expanduser()
    if given and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"--out must be a new or empty folder; {str(folder)!r} is not. Name another."
        )
