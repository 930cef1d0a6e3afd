"""A terminal to tell a story on: 79 columns, in the signs that it has, plain where it is a pipe."""

import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

__all__ = ["WIDTH", "Steps", "Terminal"]

WIDTH = 79
SHADES, PLAIN_SHADES = "·░▒▓█", ".-+*#"  # from nothing to half and more
BAR, PLAIN_BAR = "█", "#"
LATE = 66  # a typed line ends at the first blank from this column on


class Terminal:
    """Says, shows and types; with `quiet`, shows only.

    The signs are ASCII where the stream's encoding lacks the others. Bold only on a terminal, and
    not where NO_COLOR asks for none.
    """

    def __init__(
        self, stream: TextIO, environment: Mapping[str, str] = os.environ, *, quiet: bool = False
    ) -> None:
        self.stream, self.quiet = stream, quiet
        signs = _has(stream, SHADES + BAR)
        self.shades, self.block = (SHADES, BAR) if signs else (PLAIN_SHADES, PLAIN_BAR)
        self.lively = stream.isatty() and environment.get("TERM") != "dumb"
        self.bold = self.lively and not environment.get("NO_COLOR") and sys.platform != "win32"

    def say(self, words: str = "", indent: str = "") -> None:
        """A paragraph; nothing where it is quiet."""
        if not self.quiet:
            self.show(textwrap.wrap(words, WIDTH, initial_indent=indent, subsequent_indent=indent)
                      or [""])  # fmt: skip

    def head(self, words: str) -> None:
        """A heading, after an empty line."""
        self.say()
        if not self.quiet:
            self.show([f"\033[1m{words}\033[0m" if self.bold else words])

    def show(self, lines: Iterable[str]) -> None:
        """Lines as they are, also where it is quiet."""
        for line in lines:
            print(line.rstrip(), file=self.stream, flush=True)

    def type(self, pieces: Iterable[str], indent: str = "    ") -> None:
        """Text as it comes, its long lines broken at blanks."""
        column = self._put(indent, 0)
        for sign in (sign for piece in pieces for sign in piece):
            if sign == "\n" or (sign == " " and column >= LATE) or column >= WIDTH:
                self._put("\n", 0)
                column = self._put(indent, 0)
            if sign not in "\n " or (sign == " " and column > len(indent)):
                column = self._put(sign, column)
        self._put("\n", 0)

    def _put(self, text: str, column: int) -> int:
        self.stream.write(text)
        self.stream.flush()
        return column + len(text)

    def bar(self, share: float, width: int) -> str:
        """A bar of a share of the width, at least one sign long."""
        return self.block * max(1, round(share * width))

    def shade(self, weight: float) -> str:
        """A sign as dark as a weight from 0 to 1 is large; from 1/2 on it is the darkest."""
        return self.shades[min(4, int(8 * weight))]

    def map(self, names: Sequence[str], rows: Sequence[Sequence[float]]) -> list[str]:
        """A sign for each weight; one-letter names beside the rows and above the columns."""
        shown = [name if name.isprintable() and name.strip() else "_" for name in names]
        lines = [" ".join(["    ", *shown])]
        for name, row in zip(shown, rows, strict=True):
            lines.append(" ".join([f"    {name}"[-5:], *map(self.shade, row)]))
        return lines


class Steps:
    """How a training is shown: one bar, drawn anew, and gone when it is over; on a pipe, nothing.

    The protocol is `training.progress.Progress`.
    """

    def __init__(self, terminal: Terminal, words: str) -> None:
        self._terminal, self._words = terminal, words
        self._done = self._all = self._drawn = 0

    def say(self, line: str) -> None:
        """Nothing: the story says it in its own words."""

    def record(self, line: str) -> None:
        """Nothing: the story shows what came of it."""

    def begin(self, step: int, steps: int) -> None:
        """Draws the empty bar."""
        self._done, self._all, self._drawn = step, steps, -1
        self._draw()

    def step(self) -> None:
        """Draws it anew when it has grown."""
        self._done += 1
        self._draw()

    def end(self) -> None:
        """Wipes it away."""
        if self._live:
            print("\r" + " " * (WIDTH - 1), end="\r", file=self._terminal.stream, flush=True)

    @property
    def _live(self) -> bool:
        return self._terminal.lively and not self._terminal.quiet

    def _draw(self) -> None:
        grown = 40 * self._done // max(self._all, 1)
        if self._live and grown != self._drawn:
            self._drawn = grown
            bar = self._terminal.block * grown + self._terminal.shades[0] * (40 - grown)
            line = f"\r    {self._words} {bar} {self._done:,}/{self._all:,}"
            print(line, end="", file=self._terminal.stream, flush=True)


def _has(stream: TextIO, signs: str) -> bool:
    try:
        signs.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
