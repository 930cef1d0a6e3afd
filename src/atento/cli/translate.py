"""`atento translate`: lines into another language, one out for each line in."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from atento.cli.parser import Parser
from atento.cli.terminal import Terminal
from atento.cli.threads import spin_briefly
from atento.errors import UserError

if TYPE_CHECKING:
    from atento.tasks.translating import Translation
    from atento.tasks.translation_run import TranslationRun

__all__ = ["run"]

VISIBLE = {"\n": "↵", "\t": "⇥", " ": "␣"}
WIDEST = 24  # letters of a token's name beside a row


def run(argv: list[str]) -> int:
    """Prints a line for each line, in order; what is to be said of them goes to stderr."""
    options = _parser().parse_args(argv)
    spin_briefly()
    from atento.tasks.run import Run, load

    held = load(options.run)
    if isinstance(held, Run):
        raise UserError(
            f"run must turn one text into another; {options.run} holds a model of one text. Try: "
            f"atento sample {options.run}"
        )
    if options.alignment and getattr(held.model, "aligned", None) is None:
        raise UserError(
            f"--alignment is of what is looked at, and {options.run} has no attention: all that it "
            "knows of a source is one vector. Leave it out."
        )
    counted = _Counted()
    every = _file(held, options) if options.file else _stream(held, options)
    for number, answers in enumerate(every, 1):
        counted.add(answers[0])
        _show(number, answers, options)
    if not options.quiet:
        for line in counted.sentences():
            print(line, file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="atento translate",
        description="Translate lines with a trained run: those of a file, or those of standard "
        "input, each as it comes. One line out for each line in; an empty one for an empty one.",
    )
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of a run")
    add("--file", metavar="FILE", help="a text in UTF-8, plain or gzipped, instead of stdin")
    add("--beam", type=int, default=5, metavar="K", help="hypotheses kept at once; 1: greedy (5)")
    add(
        "--nbest",
        type=int,
        default=1,
        metavar="N",
        help="so many for each line, best first: the line's number, score and text, between tabs",
    )
    add(
        "--alignment",
        action="store_true",
        help="below each line, where its tokens looked in the source",
    )
    add("-q", "--quiet", action="store_true", help="no progress, and nothing counted at the end")
    return parser


def _stream(held: "TranslationRun", options: argparse.Namespace) -> Iterator[list["Translation"]]:
    """Each line as it comes: who writes to the pipe may wait for its answer."""
    for line in _lines(sys.stdin.buffer):
        yield held.translate(line, options.beam, options.nbest)[0]


def _lines(stream: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(
                f"standard input, line {number}, must be text in UTF-8; it is not. If it is an "
                "older text: iconv -f LATIN1 -t UTF-8 FILE | atento translate …"
            ) from error


def _file(held: "TranslationRun", options: argparse.Namespace) -> Iterator[list["Translation"]]:
    """All lines at once, in batches of like lengths, and a bar of how many are done."""
    from tqdm.auto import tqdm

    from atento.data.pair_files import lines_of

    lines = lines_of(Path(options.file).expanduser())
    silent = options.quiet or not sys.stderr.isatty()
    with tqdm(total=len(lines), unit="line", leave=False, disable=silent) as bar:
        found = held.translate(lines, options.beam, options.nbest, tell=bar.update)
    yield from found


def _show(number: int, answers: list["Translation"], options: argparse.Namespace) -> None:
    terminal = Terminal(sys.stdout)
    for made in answers:
        text = made.text.replace("\n", " ").replace("\r", " ")  # never more lines than came in
        if options.nbest == 1:
            print(text, flush=True)
        else:
            print(f"{number}\t{made.score:.4f}\t{text}", flush=True)
        if options.alignment and made.alignment is not None:
            terminal.show(_picture(made, terminal))


def _picture(made: "Translation", terminal: Terminal) -> Iterator[str]:
    """A row for each token of the translation, a column for each of the source, named below."""
    assert made.alignment is not None
    names = [_visible(piece)[:WIDEST] for piece in (*made.pieces, "")]
    columns = [_visible(piece) for piece in (*made.source_pieces, "")]
    room = max(map(len, names))
    for name, row in zip(names, made.alignment.tolist(), strict=True):
        yield f"    {name:>{room}} {' '.join(map(terminal.shade, row))}"
    deepest = max(map(len, columns))
    for depth in range(deepest):
        marks = (name[depth] if depth < len(name) else " " for name in columns)
        yield f"    {'':>{room}} {' '.join(marks)}"


def _visible(piece: str) -> str:
    return "".join(VISIBLE.get(mark, mark) for mark in piece) or "∎"


class _Counted:
    """What is to be said of all lines together."""

    def __init__(self) -> None:
        self.lines = self.cut = self.strange = self.survived = self.with_strange = 0

    def add(self, made: "Translation") -> None:
        self.lines += 1
        self.cut += made.cut > 0
        self.strange += made.strange
        self.survived += made.survived
        self.with_strange += made.strange > 0

    def sentences(self) -> Iterator[str]:
        if self.strange:
            yield (
                f"{self.with_strange:,} of {self.lines:,} lines have characters that training "
                f"never saw; of {self.strange:,} such words {self.survived:,} stand in the "
                "translations."
            )
        if self.cut:
            yield (
                f"{self.cut:,} of {self.lines:,} lines are longer than the model's positions; "
                "their ends were left out."
            )
