"""The heads of a run on a sentence: what each looks at, and what is lost without it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from atento.cli.wording import Wording
from atento.data.text import Tokens
from atento.inspection.ablation import head_losses
from atento.inspection.heads import HeadLook, head_looks
from atento.tasks.language import validation_loss
from atento.tasks.run import Run

__all__ = ["Head", "head_table", "heads_of"]


@dataclass(frozen=True)
class Head:
    """One head: its look in a sentence, and what is lost without it there and in a longer text."""

    seen: HeadLook
    here: float  # nats for each character of the sentence
    text: float  # and of the text

    @property
    def name(self) -> str:
        """As in L0H1: layer 0, head 1."""
        return f"L{self.layer}H{self.seen.head}"

    @property
    def layer(self) -> int:
        """The number of the layer, from 0, out of blocks.N.attention."""
        return int(self.seen.layer.split(".")[1])

    def numbers(self) -> dict[str, Any]:
        """One flat object of it."""
        seen = self.seen
        named = {"head": self.name, "kind": seen.kind, **asdict(seen.look)}
        return named | {"lost_here": self.here, "lost": self.text}


def heads_of(run: Run, sentence: str, text: Tokens) -> list[Head]:
    """Each head's look at all characters of the sentence but the last, which is to be foretold."""
    looks = head_looks(run.model, lambda: run.model(run.encode(sentence[:-1])))
    here = _lost(run, run.tokenizer.encode(sentence))
    longer = _lost(run, text)
    keys = [(one.layer, one.head) for one in looks]
    return [Head(one, here[key], longer[key]) for one, key in zip(looks, keys, strict=True)]


def _lost(run: Run, tokens: Tokens) -> dict[tuple[str, int], float]:
    def loss() -> float:
        return validation_loss(run.model, tokens, run.config.context)

    return {(row.layer, row.head): row.difference for row in head_losses(run.model, loss)}


def head_table(heads: list[Head], words: Wording) -> Iterator[str]:
    """A line for each head, and one for an even look."""
    columns = ("head", "itself", "before", "distance", "words", "here", "text")
    yield _line([words("heads", column) for column in columns])
    for head in heads:
        seen = head.seen
        place, half = words.number(seen.look.favourite + 1), words.number(seen.look.half)
        kind = words("kind", seen.kind, place=place, half=half)
        lost = [words.number(x, 3, "+") for x in (head.here, head.text)]
        yield _line([head.name, *_shares(seen, words), kind, *lost])
    if heads:
        even = words("heads", "even")
        yield _line([even, *_shares(heads[0].seen, words, even=True), "", "", ""])


def _shares(seen: HeadLook, words: Wording, even: bool = False) -> list[str]:
    look = seen.even if even else seen.look
    shares = [f"{words.number(100 * share)}%" for share in (look.itself, look.before)]
    return [*shares, words.number(look.distance, 1)]


def _line(cells: list[str]) -> str:
    head, itself, before, away, kind, here, text = cells
    return f"  {head:6} {itself:>6} {before:>8} {away:>5}  {kind:32} {here:>6} {text:>6}"
