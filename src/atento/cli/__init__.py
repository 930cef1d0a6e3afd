"""The command line: finds the verb, then imports that verb's file and nothing else.

Each verb is a file of this folder with `run(argv: list[str]) -> int`. What a user can mend is an
`atento.errors.UserError`, printed as one line with exit code 2; other exceptions are defects and
keep their traceback.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator

from atento import __version__
from atento.errors import UserError

__all__ = ["main"]

VERBS = {
    "demo": "train on data that is already there, and say what it learned",
    "lesson": "run a lecture's worked examples: list, or a lesson's name",
    "recipes": "list what can be trained, one line each",
    "train": "train a recipe, by name or from a TOML file",
    "compare": "train several recipes on the same data, and set them side by side",
    "report": "write a run's page, or its curves as a picture",
    "sample": "continue a prompt with a trained run",
    "translate": "turn lines into another language with a trained run",
    "eval": "measure a run on its whole validation split",
    "describe": "show what a run or a recipe is made of, and what it costs",
    "doctor": "show versions, devices, precision, extras and data",
}


def main(argv: list[str] | None = None) -> int:
    """The exit code of `atento ARGV`: 0 done, 2 a mistake of the user's, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    _never_fail_on_a_character()
    try:
        with contextlib.nullcontext() if _speaks() else _silence():
            code = _run(argv)
            sys.stdout.flush()
    except UserError as error:
        if _speaks():
            print(f"atento: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `atento recipes | head -1`: the reader has left, and the interpreter's last flush would
        # complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"atento {__version__}")
        return 0
    if argv[0] not in VERBS:
        raise UserError(_unknown(argv[0]))
    # Whether a training is only tried is said anywhere among its options.
    verb = "dry_run" if argv[0] == "train" and "--dry-run" in argv else argv[0]
    code: int = importlib.import_module(f"atento.cli.{verb}").run(argv[1:])
    return code


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:{width}}  {what}" for verb, what in VERBS.items())
    return (
        "usage: atento VERB [options]\n\n"
        f"{verbs}\n\n"
        "`atento VERB --help` lists a verb's options; `atento --version` says which atento this is."
    )


def _unknown(verb: str) -> str:
    import difflib

    near = difflib.get_close_matches(verb, VERBS, n=1)
    hint = f"Did you mean `atento {near[0]}`?" if near else "`atento --help` lists them all."
    return f"verb must be one of {', '.join(VERBS)}; got {verb!r}. {hint}"


def _speaks() -> bool:
    """Whether this process is alone, or the first of those that torchrun started to train as one.

    The others stop where the first one does, and it says why.
    """
    return os.environ.get("RANK", "0") == "0" or "WORLD_SIZE" not in os.environ


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        yield


def _never_fail_on_a_character() -> None:
    """Lets a console that lacks a sign, such as − on cp1252, show `?` instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
