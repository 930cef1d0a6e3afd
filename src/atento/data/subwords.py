"""Pieces of words, learnt from a text by the `tokenizers` library: BPE and Unigram.

Both work on the bytes of UTF-8 and know all 256, so that any text can be written with them. The
library is imported when the first of them is made.
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from atento.data.text import Tokens
from atento.data.tokenizers import (
    BPE_MODEL,
    BYTE_LEVEL,
    BYTE_NAMES,
    PAD,
    as_json,
    as_utf8,
    blocks,
    not_ours,
)

__all__ = ["Subwords", "bpe", "unigram"]

AT_ONCE = 8  # blocks handed to the library together, which spreads them over the cores
DIGITS = 6  # of a Unigram score; the last of a float64 differ from one training to the next
NEVER_SEEN = 0.0257  # the library scores unseen bytes least, least + 0.0001, … in a random order
UNIGRAM_MODEL: dict[str, Any] = {"type": "Unigram", "unk_id": None, "byte_fallback": False}
BYTE_OF = {name: byte for byte, name in enumerate(BYTE_NAMES)}


class Subwords:
    """A tokenizer of the `tokenizers` library over bytes; made by `bpe`, `unigram`, `from_json`.

    Claim: test_subwords.py::test_any_text_never_seen_round_trips
    """

    pad = 0

    def __init__(self, model: dict[str, Any]) -> None:
        from tokenizers import Tokenizer

        self.kind = {"BPE": "bpe", "Unigram": "unigram"}[model["type"]]
        self._json = as_json(BYTE_LEVEL, BYTE_LEVEL, model)
        self._library = Tokenizer.from_str(self._json)
        self._spelt = [b"", *(bytes(BYTE_OF[c] for c in piece) for piece in _pieces(model)[1:])]

    def __len__(self) -> int:
        return len(self._spelt)

    def encode(self, text: str) -> Tokens:  # [N]
        """The numbers of a text."""
        as_utf8(text)
        every = list(blocks([text]))
        found: list[Tokens] = [np.zeros(0, dtype=np.int64)]
        for first in range(0, len(every), AT_ONCE):
            encoded = self._library.encode_batch_fast(every[first : first + AT_ONCE])
            found += [np.array(one.ids, dtype=np.int64) for one in encoded]
        return np.concatenate(found)

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers; bytes that are no UTF-8 become U+FFFD, `<PAD>` is nothing."""
        return b"".join(self._spelt[n] for n in numbers).decode("utf-8", "replace")

    def spell(self, number: int) -> bytes:
        """One token's bytes."""
        return self._spelt[number]

    def to_json(self) -> str:
        """The file tokenizer.json."""
        return self._json

    @classmethod
    def from_json(cls, text: str, where: str) -> "Subwords":
        """What `to_json` wrote."""
        try:
            model = json.loads(text)["model"]
            alike = json.loads(as_json(BYTE_LEVEL, BYTE_LEVEL, model)) == json.loads(text)
            rest = {k: v for k, v in model.items() if k not in ("vocab", "merges")}
            pieces = _pieces(model)
            alike = alike and rest in (BPE_MODEL, UNIGRAM_MODEL) and pieces[0] == PAD
            alike = alike and set(BYTE_NAMES) <= set(pieces)
            made = cls(model)
        except Exception as error:  # the library raises Exception itself, for all that is wrong
            raise not_ours(where) from error
        if not alike:
            raise not_ours(where)
        return made


def bpe(texts: Iterable[str], size: int) -> Subwords:
    """Byte-pair encoding: the most frequent neighbours are joined, until `size` pieces are known.

    Ref: Sennrich et al. 2016, arXiv:1508.07909; over bytes, as in Radford et al. 2019.
    """
    from tokenizers import models, trainers

    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD],
        initial_alphabet=sorted(BYTE_NAMES),
        show_progress=False,
    )
    return Subwords(_learnt(models.BPE(), trainer, texts))


def unigram(texts: Iterable[str], size: int) -> Subwords:
    """Pieces with probabilities; a word is cut where their product is greatest (Viterbi).

    Ref: Kudo 2018, arXiv:1804.10959. Scores are rounded, and the bytes that were never seen score
    alike, a nat below all others, so that the same text gives the same file.
    """
    from tokenizers import models, trainers

    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=[PAD],
        initial_alphabet=sorted(BYTE_NAMES),
        show_progress=False,
    )
    learnt = _learnt(models.Unigram(), trainer, texts)
    scores = {piece: round(score, DIGITS) for piece, score in learnt["vocab"] if piece != PAD}
    least = min(scores.values())
    for name in BYTE_NAMES:
        if scores.get(name, least) < least + NEVER_SEEN:
            scores[name] = round(least - 1.0, DIGITS)
    order = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return Subwords(UNIGRAM_MODEL | {"vocab": [[PAD, 0.0], *map(list, order)]})


def _learnt(model: Any, trainer: Any, texts: Iterable[str]) -> dict[str, Any]:
    """The model part of tokenizer.json after training."""
    from tokenizers import Tokenizer, pre_tokenizers

    library = Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.train_from_iterator(blocks(texts), trainer)
    learnt: dict[str, Any] = json.loads(library.to_str())["model"]
    return learnt


def _pieces(model: dict[str, Any]) -> list[str]:
    """Each number's piece, in byte names."""
    if model["type"] == "Unigram":
        return [piece for piece, _ in model["vocab"]]
    order = sorted(model["vocab"].items(), key=lambda one: one[1])
    if [number for _, number in order] != list(range(len(order))):
        raise ValueError("the numbers have gaps")
    return [piece for piece, _ in order]
