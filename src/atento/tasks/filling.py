"""Blanks of a text, filled in by an encoder that sees both sides of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from atento.data.questions import HIDDEN
from atento.data.tokenizers import Tokenizer
from atento.errors import UserError
from atento.models.encoder import Encoder

__all__ = ["BLANK", "Guess", "filled", "guesses"]

BLANK = "_"
AT_ONCE = 64  # blanks whose windows are read together


@dataclass(frozen=True)
class Guess:
    """What could stand in a blank, and how likely it is held to be."""

    text: str
    chance: float


def filled(model: Encoder, tokenizer: Tokenizer, text: str, blank: str = BLANK) -> str:
    """The text with one token for each blank: the surest first, then the others in sight of it.

    Claim: test_filling.py::test_the_surest_blank_is_filled_first
    """
    tokens, open_places = _read(tokenizer, text, blank)
    while open_places:
        chances = _chances(model, tokens, open_places)
        surest = int(chances.amax(-1).argmax())
        tokens[open_places.pop(surest)] = int(chances[surest].argmax())
    return tokenizer.decode(tokens.tolist())


def guesses(
    model: Encoder, tokenizer: Tokenizer, text: str, count: int = 5, blank: str = BLANK
) -> list[list[Guess]]:
    """For each blank, while all are open, the likeliest tokens, the likeliest first."""
    if count < 1:
        raise UserError(f"count must be at least 1; got {count}.")
    tokens, places = _read(tokenizer, text, blank)
    best = _chances(model, tokens, places).topk(min(count, len(tokenizer) - 1))
    return [
        [Guess(tokenizer.decode([n]), p) for n, p in zip(numbers, shares, strict=True)]
        for numbers, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _read(tokenizer: Tokenizer, text: str, blank: str) -> tuple[Tensor, list[int]]:
    """(tokens Int[N], those of blanks hidden; where the blanks are)."""
    if not blank:
        raise UserError("blank must be a sign that stands for one hidden token; got ''.")
    if blank not in text:
        raise UserError(
            f"the text must have a blank, {blank!r}, for each token to fill in; got {text!r}."
        )
    tokens: list[int] = []
    places: list[int] = []
    for number, part in enumerate(text.split(blank)):
        if number:
            places.append(len(tokens))
            tokens.append(HIDDEN)
        tokens += tokenizer.encode(part).tolist() if part else []
    return torch.tensor(tokens), places


@torch.inference_mode()
def _chances(model: Encoder, tokens: Tensor, places: Sequence[int]) -> Tensor:  # [M, V] float64
    """Of each token at each place, as read in the window of the trained context around it."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    found = []
    for windows, column in _windows(tokens, places, model.context):
        logits = model(windows.to(device), places=column.to(device))[:, 0].double().cpu()
        logits[:, HIDDEN] = -torch.inf
        found.append(torch.softmax(logits, -1))  # over vocabulary
    model.train(was_training)
    return torch.cat(found)


def _windows(
    tokens: Tensor, places: Sequence[int], context: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """(windows [B, N], where in each the place is [B, 1]): the place amid what is seen at once."""
    length = min(context, len(tokens))
    for first in range(0, len(places), AT_ONCE):
        where = torch.tensor(places[first : first + AT_ONCE])
        starts = (where - length // 2).clamp(0, len(tokens) - length)
        yield tokens[starts[:, None] + torch.arange(length)], (where - starts)[:, None]
