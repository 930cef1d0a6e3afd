"""Sources: what `data.source` names, opened and decoded in blocks, whatever its size."""

import atexit
import codecs
import difflib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from atento.data.sets import SETS, text_of
from atento.data.survey import Surveyor
from atento.errors import UserError

__all__ = ["IN_MEMORY", "Part", "absolute", "parts", "stream"]

IN_MEMORY = 1 << 25  # bytes: what is larger goes through a file of tokens
CHUNK = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class Part:
    """One text of a source: how it is called, how its bytes are opened, how many they are."""

    name: str
    size: int
    open: Callable[[], BinaryIO]
    licence: str = ""


def parts(source: str) -> list[Part]:
    """The texts that a source names, in order; one that is not there is an error."""
    if not source:
        raise UserError(
            "data.source must be a text to learn from: a named set "
            f"({', '.join(SETS)}), a file, a folder or -; got nothing. Add --data.source FILE."
        )
    names = _names(source)
    if names.count("-") > 1:
        raise UserError("data.source names standard input (-) twice. Name it once.")
    return [part for name in names for part in _parts(name)]


def absolute(source: str) -> str:
    """The source as a recipe can name it from any folder."""
    return ",".join(
        name if name in SETS or name == "-" else str(Path(name).expanduser().resolve())
        for name in _names(source)
    )


def stream(every: list[Part], surveyor: Surveyor | None = None) -> Iterator[str]:
    """The text of parts, block by block: line ends become \\n, byte order marks are dropped.

    Between two parts stands a line end.
    """
    looking = surveyor or Surveyor()
    for number, part in enumerate(every):
        if number:
            looking.join()
            yield "\n"
        yield from _decoded(part, looking)


def _names(source: str) -> list[str]:
    """The names between commas; a comma inside a path that exists belongs to it."""
    names: list[str] = []
    rest = source.split(",")
    while rest:
        joined = [",".join(rest[:n]) for n in range(len(rest), 0, -1)]
        spelt = [name for whole in joined for name in (whole, whole.strip())]
        name = next(filter(_exists, spelt), rest[0].strip())
        rest = rest[name.count(",") + 1 :]
        names.append(name)
    if not all(names):
        raise UserError(f"data.source has a comma with no name beside it: {source!r}. Remove it.")
    return names


def _exists(name: str) -> bool:
    return os.path.exists(os.path.expanduser(name))


def _parts(name: str) -> list[Part]:
    if name in SETS:
        content = text_of(name).encode()
        return [Part(name, len(content), lambda: io.BytesIO(content), SETS[name].licence)]
    if name == "-":
        return [_standard_input()]
    path = Path(name).expanduser()
    if os.path.isdir(path):  # False, not an error, where its name is too long
        files = sorted(file for file in path.rglob("*.txt") if file.is_file())
        if not files:
            raise UserError(
                f"data.source {str(path)!r} is a folder without .txt files. Name a file."
            )
        return [_file(file) for file in files]
    if not os.path.exists(path):
        near = difflib.get_close_matches(str(path), SETS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise UserError(
            f"data.source must be a named set ({', '.join(SETS)}), a file, a folder or -; "
            f"there is no {str(path)!r}. {hint}Check the path."
        )
    return [_file(path)]


def _file(path: Path) -> Part:
    if not path.is_file():  # a pipe, as in <(zcat book.gz): it can be read only once
        with _readable(path, lambda: path.open("rb")) as pipe:
            return _kept(str(path), pipe)
    return Part(str(path), path.stat().st_size, lambda: _readable(path, lambda: path.open("rb")))


def _readable(path: Path, opened: Callable[[], BinaryIO]) -> BinaryIO:
    try:
        return opened()
    except OSError as error:
        raise UserError(
            f"data.source {str(path)!r} cannot be read: {error.strerror}. Check its permissions."
        ) from error


def _standard_input() -> Part:
    return _kept("standard input", sys.stdin.buffer)


def _kept(name: str, pipe: BinaryIO) -> Part:
    """What can be read only once, kept: in memory, or where it is large in a temporary file."""
    content = pipe.read(IN_MEMORY + 1)
    if len(content) <= IN_MEMORY:
        return Part(name, len(content), lambda: io.BytesIO(content))
    handle, path = tempfile.mkstemp(prefix="atento-")
    atexit.register(Path(path).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        while content:
            file.write(content)
            content = pipe.read(CHUNK)
    return Part(name, os.path.getsize(path), lambda: Path(path).open("rb"))


def _decoded(part: Part, surveyor: Surveyor) -> Iterator[str]:
    with part.open() as file:
        chunk = file.read(CHUNK)
        marked = chunk[:2] in (b"\xff\xfe", b"\xfe\xff")
        encoding = "utf-16" if marked else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        lines = io.IncrementalNewlineDecoder(decoder, translate=True)
        surveyor.begin(part.name, "UTF-16" if marked else "UTF-8", part.licence)
        done = 0
        while True:
            held = len(decoder.getstate()[0])
            try:
                text = lines.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"data.source must be text in UTF-8; {part.name} is not, from byte "
                    f"{done - held + error.start} on. If it is an older text: "
                    "iconv -f LATIN1 -t UTF-8 FILE > NEW."
                ) from error
            if "\0" in text:
                raise UserError(
                    f"data.source must be text; {part.name} holds zero bytes, as binary files do."
                )
            if text:
                surveyor.see(text)
                yield text
            if not chunk:
                break
            done += len(chunk)
            chunk = file.read(CHUNK)
        surveyor.end(lines.newlines)
