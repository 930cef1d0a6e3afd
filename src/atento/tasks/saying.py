"""A few words of a model, always asked in the same way, so that it can be seen to learn."""

import torch

from atento.data.tokenizers import Tokenizer
from atento.models.choose import Sampling
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from atento.models.generate import generate
from atento.tasks.filling import filled
from atento.tasks.speech import WARMTH, beginning

__all__ = ["words_of"]

SAID = 60  # tokens or characters, at most
HOLES = 7  # every so-many-th character of a sentence is hidden from an encoder
HOLE = "▁"


def words_of(model: Decoder | Encoder, tokenizer: Tokenizer, sentence: str) -> str:
    """What a decoder says after a new line, always by the same draws; what an encoder fills in.

    For an encoder: a validation sentence with holes, and below it the same with what it put there.
    No generator is touched.
    Claim: tasks/test_report.py::test_what_it_says_is_kept_and_touches_no_generator
    """
    if isinstance(model, Encoder):
        return _filled(model, tokenizer, sentence)
    how = Sampling(temperature=WARMTH, never=(tokenizer.pad,), seed=0)
    start = torch.tensor([beginning(tokenizer)])
    return tokenizer.decode(list(generate(model, start, SAID, how)))


def _filled(model: Encoder, tokenizer: Tokenizer, sentence: str) -> str:
    shown = sentence[:SAID]
    if len(shown) < HOLES or HOLE in shown:
        return ""
    holed = "".join(HOLE if n % HOLES == HOLES - 2 else mark for n, mark in enumerate(shown))
    return f"{holed}\n{filled(model, tokenizer, holed, HOLE)}"
