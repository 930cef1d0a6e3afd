"""Lines into another language: batches of like lengths, each line's answer in its own place."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from atento.data.buckets import padded
from atento.data.known import Known
from atento.data.text import Tokens
from atento.models.beam import Beam, Hypothesis, beam_search

__all__ = ["Sides", "Translation", "translated"]

AT_ONCE = 8192  # tokens of sources times hypotheses: enough to keep 2 cores busy, little memory


@dataclass(frozen=True)
class Sides:
    """How both sides are written: `unsaid` are numbers that no training target has."""

    source: Known
    target: Known
    unsaid: tuple[int, ...] = ()


@dataclass(frozen=True)
class Translation:
    """A text, its score (see `Beam`), and where each of its tokens looked."""

    text: str
    score: float
    # Float[M + 1, N + 1], rows of the target, its end last, over the source, its end last; None
    # where nothing was asked for or nothing looks.
    alignment: Tensor | None = field(default=None, compare=False)
    source_pieces: tuple[str, ...] = ()
    pieces: tuple[str, ...] = ()
    strange: int = 0  # runs of characters in the source that no training saw
    survived: int = 0  # of which so many stand in the text
    cut: int = 0  # tokens of the source beyond what the model can take in


@dataclass(frozen=True)
class _Read:
    """A line as the model takes it."""

    place: int
    tokens: Tokens
    strange: list[str]
    cut: int


def translated(
    model: nn.Module,
    sides: Sides,
    lines: Sequence[str],
    how: Beam,
    tell: Callable[[int], None] | None = None,
) -> list[list[Translation]]:
    """For each line its `how.nbest` translations, best first; an empty line has an empty one.

    Whatever the batches, the n-th answer is the n-th line's. A placeholder in an answer is replaced
    by the source's that it looked at most, or, where nothing looks, by the next one. `tell` hears
    how many lines are done.
    Claim: test_translating.py::test_no_line_is_lost_or_out_of_order
    """
    read = [_read(model, sides, place, line) for place, line in enumerate(lines) if line.strip()]
    found: list[list[Translation]] = [[Translation("", 0.0)] for _ in lines]
    if tell:
        tell(len(lines) - len(read))
    for batch in _batches(read, how.size):
        for one, answers in zip(batch, _answers(model, sides, batch, how), strict=True):
            found[one.place] = answers
        if tell:
            tell(len(batch))
    return found


def _read(model: nn.Module, sides: Sides, place: int, line: str) -> _Read:
    tokens, strange = sides.source.encode(line)
    limit = getattr(model, "limit", None)
    room = len(tokens) if limit is None else limit - 1  # the end is read too
    kept = tokens[:room]
    left = int((kept == sides.source.placeholder).sum())
    return _Read(place, kept, strange[:left], len(tokens) - len(kept))


def _batches(read: list[_Read], size: int) -> Iterator[list[_Read]]:
    """Lines of like lengths together; those with placeholders apart, as others may not say one."""
    for strange in (False, True):
        held: list[_Read] = []
        for one in sorted(
            (one for one in read if bool(one.strange) == strange), key=lambda one: len(one.tokens)
        ):
            if held and (len(held) + 1) * (len(one.tokens) + 1) * size > AT_ONCE:
                yield held
                held = []
            held.append(one)
        if held:
            yield held


def _answers(
    model: nn.Module, sides: Sides, batch: list[_Read], how: Beam
) -> list[list[Translation]]:
    strange = bool(batch[0].strange)
    never = (*how.never, *sides.unsaid, *(() if strange else (sides.target.placeholder,)))
    looks = getattr(model, "aligned", None) is not None
    how = replace(how, never=never, aligned=how.aligned or (strange and looks))
    sources = [one.tokens for one in batch]
    empty = [np.zeros(0, dtype=np.int64)] * len(batch)
    made = padded(sources, empty, pad=Known.end, end=Known.end)
    device = next(model.parameters()).device
    source, lengths = (torch.from_numpy(x).to(device) for x in (made.source, made.lengths))
    found = beam_search(model, source, lengths, how, end=Known.end)
    return [
        [_answer(sides, one, hypothesis) for hypothesis in hypotheses]
        for one, hypotheses in zip(batch, found, strict=True)
    ]


def _answer(sides: Sides, one: _Read, found: Hypothesis) -> Translation:
    source, target = sides.source, sides.target
    put_back = _put_back(one, found, source.placeholder, target.placeholder)
    text = target.decode(found.tokens, put_back)
    return Translation(
        text=text,
        score=found.score,
        alignment=found.alignment,
        source_pieces=_pieces(source, one.tokens.tolist(), one.strange),
        pieces=_pieces(target, found.tokens, put_back),
        strange=len(one.strange),
        survived=sum(run in text for run in one.strange),
        cut=one.cut,
    )


def _put_back(one: _Read, found: Hypothesis, asked: int, said: int) -> list[str]:
    """What each placeholder of an answer stands for."""
    places = np.flatnonzero(one.tokens == asked).tolist()
    rows = [row for row, token in enumerate(found.tokens) if token == said]
    if found.alignment is None:
        return one.strange[: len(rows)]
    looked = found.alignment[:, places]
    return [one.strange[int(looked[row].argmax())] for row in rows]


def _pieces(side: Known, numbers: Sequence[int], strange: Sequence[str]) -> tuple[str, ...]:
    following = iter(strange)
    return tuple(
        next(following, "") if n == side.placeholder else side.tokenizer.decode([n])
        for n in numbers
    )
