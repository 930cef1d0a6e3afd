"""What a text is like, before anything is learnt from it: encoding, line ends, notices, rarities.

A `Surveyor` is shown the text as it is read, block after block; a `Survey` is what it found.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Notice", "Survey", "Surveyor"]

RARE = 10  # a symbol that occurs less often is called rare
SHOWN = 12  # rare symbols in the sentence
OVERLAP = 120  # characters looked at again, so that no notice falls between two blocks
NAMES = {"\n": "\\n", "\r\n": "\\r\\n", "\r": "\\r"}
GUTENBERG = "Project Gutenberg"
# A literal (long ones are found fast) that a block with one has; whose; which part; the pattern.
NOTICES = (
    ("PROJECT GUTENBERG", GUTENBERG, "header", r"\*\*\* ?START OF TH(E|IS) PROJECT GUTENBERG"),
    ("PROJECT GUTENBERG", GUTENBERG, "footer", r"\*\*\* ?END OF TH(E|IS) PROJECT GUTENBERG"),
    ("SMALL PRINT", GUTENBERG, "header", r"\*END[* ]THE SMALL PRINT"),
    (
        "creativecommons.org/licenses",
        "Creative Commons",
        "notice",
        r"creativecommons\.org/licenses",
    ),
    ("Creative Commons", "Creative Commons", "notice", r"Creative Commons"),
    ("All rights reserved", "reserved rights", "notice", r"All rights reserved"),
    ("All Rights Reserved", "reserved rights", "notice", r"All Rights Reserved"),
    ("Todos os direitos reserv", "reserved rights", "notice", r"Todos os direitos reservados"),
)
PATTERNS = [(literal, owner, kind, re.compile(text)) for literal, owner, kind, text in NOTICES]


@dataclass(frozen=True)
class Notice:
    """A licence's words in the text: whose, in which file, on which line (from 1)."""

    owner: str
    kind: str  # the last line of a header, the first of a footer, or a notice
    file: str
    line: int

    def __str__(self) -> str:
        ends = {"header": "header ends", "footer": "footer begins", "notice": "notice stands"}
        return f"{self.owner}: a {ends[self.kind]} on line {self.line} of {self.file}"


@dataclass(frozen=True)
class Survey:
    """What is worth knowing of a text before training on it."""

    files: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()  # of each file
    licences: tuple[str, ...] = ()  # of named sets
    line_ends: tuple[str, ...] = ()  # those that occur, before they all became \n
    counts: tuple[tuple[str, int], ...] = ()  # each character → how often, rarest first
    lines: int = 0
    notices: tuple[Notice, ...] = ()

    @property
    def characters(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def alphabet(self) -> str:
        """The distinct characters, in the order of their code points."""
        return "".join(sorted(character for character, _ in self.counts))

    @property
    def rare(self) -> tuple[tuple[str, int], ...]:
        """The characters that occur fewer than ten times."""
        return tuple((c, n) for c, n in self.counts if n < RARE)

    def sentences(self) -> list[str]:
        """The same for people, one line each: what is always said, then what to look at."""
        many = f"{len(self.files)} texts" if len(self.files) > 1 else "".join(self.files)
        said = [
            f"{many}: {self.characters:,} characters, {len(self.counts)} of them distinct, in "
            f"{self.lines:,} lines; {', '.join(sorted(set(self.encodings)))}; line ends "
            f"{' and '.join(NAMES[end] for end in self.line_ends) or 'none'}"
            + (", all read as \\n." if set(self.line_ends) - {"\n"} else ".")
        ]
        if self.licences:
            said.append(f"Licence: {', '.join(dict.fromkeys(self.licences))}.")
        said += [f"{notice}. The model would learn it; cut it from the file to leave it out."
                 for notice in self.notices]  # fmt: skip
        if rare := self.rare:
            shown = ", ".join(f"{c!r} × {n}" for c, n in rare[:SHOWN])
            others = f" and {len(rare) - SHOWN} more" if len(rare) > SHOWN else ""
            said.append(f"Rare symbols, fewer than {RARE} times each: {shown}{others}.")
        if broken := dict(self.counts).get("\ufffd"):
            said.append(
                f"{broken:,} characters are U+FFFD, the mark of a wrong decoding: the text was "
                "damaged before it came here. Look for its original."
            )
        return said


class Surveyor:
    """Looks at a text while it is read."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._encodings: list[str] = []
        self._licences: list[str] = []
        self._ends: set[str] = set()
        self._counts = np.zeros(0x110000, dtype=np.int64)
        self._notices: list[Notice] = []
        self._tail = ""  # the end of what this file has shown
        self._before = 0  # line ends in this file before the tail

    def begin(self, file: str, encoding: str, licence: str = "") -> None:
        """A file begins."""
        self._files.append(file)
        self._encodings.append(encoding)
        self._licences += [licence] if licence else []
        self._tail, self._before = "", 0

    def see(self, text: str) -> None:
        """The next of its text, with \\n for every line end."""
        kind, width = ("ascii", np.uint8) if text.isascii() else ("utf-32-le", np.uint32)
        seen = np.bincount(np.frombuffer(text.encode(kind), dtype=width))
        self._counts[: len(seen)] += seen
        window = self._tail + text
        self._notices += self._found(window)
        self._tail = window[-OVERLAP:]
        self._before += window.count("\n") - self._tail.count("\n")

    def end(self, line_ends: str | tuple[str, ...] | None) -> None:
        """The file ends; these line ends were in it."""
        self._ends |= {line_ends} if isinstance(line_ends, str) else set(line_ends or ())

    def join(self) -> None:
        """A line end between two files, which is in neither."""
        self._counts[ord("\n")] += 1

    def survey(self) -> Survey:
        """What was found."""
        points = np.flatnonzero(self._counts)
        order = points[np.argsort(self._counts[points], kind="stable")]
        return Survey(
            files=tuple(self._files),
            encodings=tuple(self._encodings),
            licences=tuple(self._licences),
            line_ends=tuple(end for end in NAMES if end in self._ends),
            counts=tuple((chr(point), int(self._counts[point])) for point in order),
            lines=int(self._counts[ord("\n")]),
            notices=tuple(self._notices),
        )

    def _found(self, window: str) -> Iterator[Notice]:
        for literal, owner, kind, pattern in PATTERNS:
            if literal not in window:
                continue
            for match in pattern.finditer(window):
                if match.end() > len(self._tail):
                    line = self._before + window.count("\n", 0, match.start()) + 1
                    yield Notice(owner, kind, self._files[-1], line)
