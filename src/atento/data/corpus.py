"""A text as tokens, whatever its size: in memory, or in a file that is mapped.

What is larger than `memory` is read twice, block by block: to know it (its SHA-256, its survey),
and to write its tokens, once, to a file in the user's cache, which the next run finds again.
"""

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from atento.data import sets
from atento.data.config import Data
from atento.data.sources import IN_MEMORY, Part, absolute, parts, stream
from atento.data.survey import Survey, Surveyor
from atento.data.text import Tokens, no_text
from atento.data.tokenizers import Characters, Tokenizer, blocks, trained
from atento.errors import UserError

__all__ = ["Corpus", "Progress", "corpus"]

Progress = Callable[[str, int, int], None]  # (what is done, how far, of how much)

LEARNT_FROM = 100_000_000  # characters that bpe and unigram are trained on, at most
WORKERS = max(1, min(8, os.cpu_count() or 1))
HEADER = 128  # bytes of a token file before its tokens: JSON, then blanks


@dataclass(frozen=True)
class Corpus:
    """A text's tokens, the tokenizer that made them, and what is known of the text."""

    source: str  # as a recipe can name it from any folder
    sha256: str  # of the text in UTF-8 with \n for line ends
    survey: Survey
    tokenizer: Tokenizer
    tokens: Tokens  # [N], int64 in memory; uint16 or uint32 where `file` is mapped
    file: Path | None = None


def corpus(
    data: Data,
    *,
    tokenizer: Tokenizer | None = None,
    memory: int = IN_MEMORY,
    progress: Progress | None = None,
) -> Corpus:
    """The tokens of `data.source`: by `tokenizer`, or by a new one as `data` asks.

    A tokenizer that learns its pieces learns them from the first nine tenths of the characters, so
    not from what is held out. Sources of more than `memory` bytes are never whole in memory, and
    their tokens are the same.
    Claim: test_corpus.py::test_a_mapped_text_is_the_same_token_by_token
    """
    every, tell = parts(data.source), progress or _silent
    held = _Held(every, sum(part.size for part in every) <= memory, tell)
    if not held.survey.alphabet.strip():
        raise no_text(data.source)
    made = tokenizer or _tokenizer(data, held)
    if held.text is not None:
        tokens, file = made.encode(held.text), None
    else:
        file = _token_file(held, made, tell)
        tokens = _mapped(file)
    return Corpus(absolute(data.source), held.sha256, held.survey, made, tokens, file)


class _Held:
    """A source that was read once: its text where that is small, and what is known of it."""

    def __init__(self, every: list[Part], small: bool, tell: Progress) -> None:
        self._every = every
        self.size = sum(part.size for part in every)
        surveyor, digest = Surveyor(), hashlib.sha256()
        kept, done = [], 0
        for block in stream(every, surveyor):
            encoded = block.encode()
            digest.update(encoded)
            done += len(encoded)
            if small:
                kept.append(block)
            else:
                tell("reading", min(done, self.size), self.size)
        self.text = "".join(kept) if small else None
        self.sha256, self.survey = digest.hexdigest(), surveyor.survey()

    def blocks(self) -> Iterator[str]:
        """The text, from its beginning."""
        yield from blocks(stream(self._every) if self.text is None else [self.text])


def _silent(what: str, done: int, whole: int) -> None:
    pass


def _tokenizer(data: Data, held: _Held) -> Tokenizer:
    if data.tokenizer == "characters":
        return Characters(held.survey.alphabet)
    texts = _learnt_from(held.blocks(), held.survey.characters)
    return trained(data.tokenizer, texts, data.vocabulary_size)


def _learnt_from(every: Iterable[str], characters: int) -> Iterator[str]:
    """The first nine tenths; of a very large text, one block in so many, evenly."""
    left = characters - characters // 10
    step = -(-left // LEARNT_FROM)
    for number, block in enumerate(every):
        if left <= 0:
            return
        if number % step == 0:
            yield block[:left]
        left -= len(block)


def _token_file(held: _Held, tokenizer: Tokenizer, tell: Progress) -> Path:
    """The file with these tokens, written now unless it is there whole.

    It is written under another name, and gets its own when all of it is on the disk.
    Claim: test_corpus.py::test_a_file_that_was_cut_off_is_never_used
    """
    key = hashlib.sha256(f"{held.sha256}\n{tokenizer.to_json()}".encode()).hexdigest()
    home = sets.cache_folder() / "tokens"
    file = home / f"{key}.tokens"
    if _whole(file):
        return file
    part = home / f".{key}.{os.getpid()}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as out:
            _write(out, held, tokenizer, tell)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
        _sync_folder(home)
    except OSError as error:
        raise UserError(
            f"a text of {held.size:,} bytes needs a file of its tokens in {str(home)!r}, which "
            f"cannot be written ({error.strerror}). Make room, or set XDG_CACHE_HOME (on Windows "
            "LOCALAPPDATA) to another folder."
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return file


def _write(out: BinaryIO, held: _Held, tokenizer: Tokenizer, tell: Progress) -> None:
    """The header, and the tokens of every block in order, encoded a few blocks ahead."""
    kind = np.dtype("<u2" if len(tokenizer) <= 1 << 16 else "<u4")
    out.write(b" " * HEADER)
    count = characters = 0
    for length, tokens in _ahead(held.blocks(), tokenizer):
        out.write(tokens.astype(kind).tobytes())
        count += len(tokens)
        characters += length
        tell("writing tokens", characters, held.survey.characters)
    if characters != held.survey.characters:
        raise UserError(
            f"data.source changed while it was read: {held.survey.characters:,} characters, then "
            f"{characters:,}. Wait until nothing writes to it."
        )
    out.seek(0)
    header = json.dumps({"format": "atento", "version": 1, "dtype": kind.str, "tokens": count})
    out.write(header.encode().ljust(HEADER))


def _ahead(every: Iterable[str], tokenizer: Tokenizer) -> Iterator[tuple[int, Tokens]]:
    """(characters, tokens) of each block in order; a bounded number is in work at a time."""
    waiting: deque[tuple[int, Future[Tokens]]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        for block in every:
            waiting.append((len(block), pool.submit(tokenizer.encode, block)))
            if len(waiting) > 2 * WORKERS:
                length, tokens = waiting.popleft()
                yield length, tokens.result()
        for length, tokens in waiting:
            yield length, tokens.result()


def _header(file: Path) -> tuple[np.dtype[np.generic], int] | None:
    """(the kind of number, how many) of a token file that is whole."""
    try:
        with file.open("rb") as opened:
            header = json.loads(opened.read(HEADER))
        kind, count = header["dtype"], header["tokens"]
        if (header["format"], header["version"]) != ("atento", 1) or kind not in ("<u2", "<u4"):
            return None
        size = HEADER + count * np.dtype(kind).itemsize
        return (np.dtype(kind), count) if file.stat().st_size == size else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _whole(file: Path) -> bool:
    return _header(file) is not None


def _mapped(file: Path) -> Tokens:
    header = _header(file)
    assert header is not None, file
    kind, count = header
    mapped: Tokens = np.memmap(file, dtype=kind, mode="r", offset=HEADER, shape=(count,))
    return mapped.view(np.ndarray)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last, where a folder can be synced; Windows has no such call."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
