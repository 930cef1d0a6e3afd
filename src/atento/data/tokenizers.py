"""Tokenizers: text to numbers and back, exactly.

tokenizer.json is in the format of the `tokenizers` library, so that other programs read it too.
Number 0 is `<PAD>` in all of them, and no text is encoded to it.
"""

import codecs
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from atento.data.config import VOCABULARY
from atento.data.text import Tokens
from atento.errors import UserError

__all__ = [
    "PAD",
    "Tokenizer",
    "Bytes",
    "Characters",
    "blocks",
    "load_tokenizer",
    "save_tokenizer",
    "said",
    "tokenizer_from_json",
    "trained",
]

PAD = "<PAD>"
BLOCK = 1 << 17  # characters encoded at a time: little memory, and several blocks run at once
# Before a blank after a printed character: here no tokenizer's piece, and no word, goes across.
BETWEEN_WORDS = re.compile(r"(?<=[\w!-~])(?=[ \n])")


class Tokenizer(Protocol):
    """What every tokenizer can do."""

    @property
    def kind(self) -> str: ...  # as data.tokenizer names it

    @property
    def pad(self) -> int: ...

    def __len__(self) -> int: ...  # the size of the vocabulary, <PAD> included

    def encode(self, text: str) -> Tokens: ...  # [N]

    def decode(self, numbers: Iterable[int]) -> str: ...

    def spell(self, number: int) -> bytes: ...  # of one token, in UTF-8; of <PAD> nothing

    def to_json(self) -> str: ...  # the file tokenizer.json


def trained(kind: str, texts: Iterable[str], vocabulary_size: int = VOCABULARY) -> Tokenizer:
    """The tokenizer that `data.tokenizer` names, fitted to the blocks of a text.

    The same blocks give the same tokenizer, to the last digit.
    Claim: test_subwords.py::test_training_twice_gives_the_same_file
    """
    match kind:
        case "characters":
            return Characters("".join(set().union(*texts)))
        case "bytes":
            return Bytes()
        case "bpe":
            from atento.data.subwords import bpe

            return bpe(texts, vocabulary_size)
        case "unigram":
            from atento.data.subwords import unigram

            return unigram(texts, vocabulary_size)
    raise UserError(f"data.tokenizer must be one of characters, bytes, bpe, unigram; got {kind!r}.")


def tokenizer_from_json(text: str, where: str) -> Tokenizer:
    """What any tokenizer's `to_json` wrote; another program's file is refused."""
    try:
        content = json.loads(text)
        kind = content["model"]["type"]
        plain = kind == "BPE" and not content["model"]["merges"]
    except (ValueError, KeyError, TypeError):
        kind, plain = "none", False
    if kind == "WordLevel":
        return Characters.from_json(text, where)
    if plain and content == json.loads(Bytes().to_json()):
        return Bytes()
    if kind in ("BPE", "Unigram"):
        from atento.data.subwords import Subwords

        return Subwords.from_json(text, where)
    raise not_ours(where)


def save_tokenizer(tokenizer: Tokenizer, file: Path) -> None:
    """Writes tokenizer.json, whole or not at all."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_bytes(tokenizer.to_json().encode())
    os.replace(part, file)


def load_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json that atento wrote."""
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file} must be a tokenizer's file; it cannot be read: {error}."
        ) from error
    return tokenizer_from_json(text, str(file))


def said(tokenizer: Tokenizer, numbers: Iterable[int]) -> Iterator[str]:
    """The text of numbers as they come: a character spread over several tokens waits for its last.

    Joined, it is `decode` of them all.
    Claim: test_tokenizers.py::test_what_is_said_piece_by_piece_is_what_is_decoded
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for number in numbers:
        yield decoder.decode(tokenizer.spell(number))
    if rest := decoder.decode(b"", final=True):
        yield rest


def blocks(texts: Iterable[str], size: int | None = None) -> Iterator[str]:
    """The same text cut anew, so that encoding block by block is encoding the whole.

    A block ends between two words, at the first such place after `size` characters; where the next
    `size` have none, there. However the texts were cut before makes no difference, and cutting a
    block leaves it whole.
    Claim: test_tokenizers.py::test_blocks_do_not_depend_on_how_the_text_came
    """
    size = size or BLOCK
    held = ""
    for text in texts:
        held += text
        while len(held) > 2 * size:
            end = _end(held, size)
            yield held[:end]
            held = held[end:]
    while held:
        end = _end(held, size)
        yield held[:end]
        held = held[end:]


def _end(text: str, size: int) -> int:
    found = BETWEEN_WORDS.search(text, size, 2 * size)
    return found.start() if found else min(2 * size, len(text))


def as_utf8(text: str) -> bytes:
    """The bytes of a text; half a surrogate pair, which no encoding has, is an error."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"the text must be Unicode; {text[error.start]!r} at position {error.start} is half a "
            "character. It comes from a wrong decoding: read the text as UTF-8."
        ) from error


def not_ours(where: str, kind: str = "") -> UserError:
    """What is said of a file that atento did not write."""
    return UserError(
        f"{where} must be a tokenizer {kind}that atento wrote; it is another. "
        "Train again, or use the library that made it."
    )


class Characters:
    """One token for each distinct character, in the order of their code points, after `<PAD>`.

    Claim: test_tokenizers.py::test_round_trip_is_exact
    """

    kind = "characters"
    pad = 0

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = "".join(sorted(set(characters)))
        points = np.array([ord(c) for c in self.characters], dtype=np.int64)
        self._number = np.zeros(int(points.max(initial=0)) + 1, dtype=np.int64)
        self._number[points] = np.arange(1, len(points) + 1)

    def __len__(self) -> int:
        return len(self.characters) + 1

    def encode(self, text: str) -> Tokens:  # [N]
        """The numbers of a text; a character that was never seen is an error that names it."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        if points.max(initial=0) < len(self._number):
            numbers = self._number[points]
        else:
            numbers = np.zeros(1, dtype=np.int64)
        if not numbers.all():
            strange = [chr(p) for p in np.unique(points) if chr(p) not in self.characters]
            raise UserError(
                f"the text must be written with the {len(self.characters)} characters the model "
                f"was trained on; got {', '.join(map(repr, strange[:5]))}"
                f"{' and others' if len(strange) > 5 else ''}. Known: {self.characters!r}."
            )
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers; `<PAD>` is nothing."""
        return "".join(self.characters[n - 1] for n in numbers if n)

    def spell(self, number: int) -> bytes:
        """One token in UTF-8."""
        return self.decode([number]).encode("utf-8", "surrogatepass")

    def to_json(self) -> str:
        """The file tokenizer.json."""
        vocabulary = {PAD: 0} | {c: n for n, c in enumerate(self.characters, 1)}
        every = {
            "type": "Split",
            "pattern": {"Regex": "[\\s\\S]"},
            "behavior": "Isolated",
            "invert": False,
        }
        model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<UNK>"}
        return as_json(every, {"type": "Fuse"}, model)

    @classmethod
    def from_json(cls, text: str, where: str) -> "Characters":
        """What `to_json` wrote."""
        try:
            vocabulary = json.loads(text)["model"]["vocab"]
            characters = [token for token in vocabulary if token != PAD]
            made = cls(characters)
            alike = made.characters == "".join(characters) and len(made) == len(vocabulary)
        except (ValueError, KeyError, TypeError):
            alike = False
        if not alike:
            raise not_ours(where, "of characters ")
        return made


class Bytes:
    """One token for each of the 256 bytes of UTF-8, byte b as number b + 1, after `<PAD>`.

    Claim: test_tokenizers.py::test_bytes_round_trip_any_text
    """

    kind = "bytes"
    pad = 0

    def __len__(self) -> int:
        return 257

    def encode(self, text: str) -> Tokens:  # [N]
        """The numbers of a text."""
        return np.frombuffer(as_utf8(text), dtype=np.uint8).astype(np.int64) + 1

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers; bytes that are no UTF-8 become U+FFFD."""
        return bytes(n - 1 for n in numbers if n).decode("utf-8", "replace")

    def spell(self, number: int) -> bytes:
        """One byte."""
        return bytes([number - 1]) if number else b""

    def to_json(self) -> str:
        """The file tokenizer.json."""
        vocabulary = {PAD: 0} | {BYTE_NAMES[b]: b + 1 for b in range(256)}
        return as_json(BYTE_LEVEL, BYTE_LEVEL, BPE_MODEL | {"vocab": vocabulary, "merges": []})


def _byte_names() -> list[str]:
    """How byte-level files write each byte: itself where it prints, else from U+0100 on.

    Ref: Radford et al. 2019, GPT-2's bytes_to_unicode.
    """
    printed = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printed else chr(next(others)) for b in range(256)]


BYTE_NAMES = _byte_names()
BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
BPE_MODEL: dict[str, Any] = {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}


def as_json(cutter: dict[str, Any], decoder: dict[str, Any], model: dict[str, Any]) -> str:
    """A tokenizer.json with nothing but these: no text is normalised, no token is special.

    `<PAD>` in a text is five characters: as a special token it would be cut out of it.
    """
    content: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": cutter,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
