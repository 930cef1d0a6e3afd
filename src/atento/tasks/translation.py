"""Translation: from a text and the beginning of its translation, the next token of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from atento.data.buckets import Numbers, Padded, buckets, padded
from atento.data.known import STRANGE, Known
from atento.data.pair_corpus import PairCorpus, TokenPairs, encoded
from atento.errors import UserError
from atento.models.beam import Beam
from atento.models.build import Model, build
from atento.models.config import ModelConfig
from atento.models.storage import save_model
from atento.tasks.translating import Sides, translated
from atento.training.config import Train
from atento.training.distributed import processes

__all__ = ["Translating", "pair_loss", "short_enough", "translating", "unsaid"]

PASSED_ON = 0.05  # share of pairs in which a shared word is hidden, so that passing on is learnt
EXACT = 200  # validation lines that are translated at each look
IGNORED = -100  # what cross_entropy leaves out


@dataclass(frozen=True)
class Translating:
    """A model, the pairs it learns from, and those it is judged by."""

    model: Model
    config: ModelConfig
    sides: Sides
    training: TokenPairs
    validation: TokenPairs
    tokens: int  # of a batch, padding included
    seed: int
    smoothing: float = 0.0
    left_out: int = 0  # training pairs longer than the context
    _epochs: dict[int, list[Numbers]] = field(default_factory=dict, compare=False, repr=False)

    def loss(self, step: int) -> Tensor:
        """The mean cross-entropy of a batch, in nats for each target token, its end included."""
        batch = self.drawn_pairs(step)
        total, count = _cross_entropy(self.model, _padded(batch), self.smoothing)
        return total / count

    def drawn_pairs(self, step: int) -> TokenPairs:
        """The pairs of a batch: they follow from the seed and the step alone.

        In a few of them a word that both sides have is a placeholder, so that the model learns to
        pass one on.
        """
        epoch, place = divmod(step, self.batches)
        if epoch not in self._epochs:
            self._epochs.clear()
            self._epochs[epoch] = buckets(self.training.lengths, self.tokens, self.seed, epoch)
        batch = self.training.some(self._epochs[epoch][place].tolist())
        draw = np.random.Generator(np.random.Philox(key=[self.seed, step]))
        for row in np.flatnonzero(draw.random(len(batch)) < PASSED_ON).tolist():
            self._hide(batch, row, draw)
        return batch

    @cached_property
    def batches(self) -> int:
        """Of an epoch: the same number in each, as lengths decide it."""
        return len(buckets(self.training.lengths, self.tokens, self.seed, 0))

    def _hide(self, batch: TokenPairs, row: int, draw: np.random.Generator) -> None:
        """Puts placeholders for a word that a pair has on both sides, once each."""
        source, target = batch.texts[row]
        both = [word for word in source.split() if source.count(word) == target.count(word) == 1]
        if not both:
            return
        word = both[int(draw.integers(len(both)))]
        hidden = (source.replace(word, STRANGE), target.replace(word, STRANGE))
        made = encoded([hidden], (self.sides.source, self.sides.target))
        if int(made.lengths.max()) <= self.config.context:
            batch.sources[row], batch.targets[row] = made.sources[0], made.targets[0]

    def evaluate(self) -> dict[str, float]:
        """`val_loss`, over the whole validation split, never smoothed, and `exact_match`.

        The latter is greedy, of the first lines of the split: it is what `atento eval` says of all.
        """
        held = self.validation.texts[:EXACT]
        lines = [source for source, _ in held]
        found = translated(self.model, self.sides, lines, Beam(size=1))
        same = sum(made[0].text == target for made, (_, target) in zip(found, held, strict=True))
        loss = pair_loss(self.model, self.validation, self.tokens)
        return {"val_loss": loss, "exact_match": same / len(held)}

    def say(self) -> str:
        """The first validation line, and what it becomes."""
        line = self.validation.texts[0][0]
        found = translated(self.model, self.sides, [line], Beam(size=1))
        return f"{line}\n{found[0][0].text}"

    def save(self, folder: Path) -> None:
        """model.safetensors and config.json."""
        save_model(self.model, self.config, folder)

    @property
    def tokens_each_step(self) -> float:
        """Real target tokens of a batch, on average."""
        return float(self.training.lengths[:, 1].sum()) / self.batches

    def judge_a_part(self) -> float:
        """Judges some of the validation split, and says which share of it that was."""
        part = self.validation.some(range(min(EXACT, len(self.validation))))
        replace(self, validation=part).evaluate()
        return len(part) / len(self.validation)

    def sizes(self) -> str:
        """How much is learned from."""
        without = f", {self.left_out:,} longer than the context left out" if self.left_out else ""
        return (
            f"vocabulary {len(self.sides.source)} and {len(self.sides.target)} · "
            f"{len(self.training):,} training{without} and {len(self.validation):,} validation "
            f"pairs · {self.batches:,} batches in all, of {self.tokens_each_step:,.0f} target "
            "tokens on average"
        )

    def stands_beside(self) -> str:
        """ln V: the loss of holding every token equally likely."""
        return f"validation loss of a uniform guess {math.log(len(self.sides.target)):.4f}"


def translating(
    corpus: PairCorpus, settings: ModelConfig, train: Train, device: torch.device
) -> Translating:
    """The task of pairs; weights are drawn from torch's generator."""
    if processes() > 1:
        raise UserError(
            f"task translation trains with one process; got {processes()}. Start it without "
            "torchrun."
        )
    source, target = corpus.sides
    apart = 0 if source.tokenizer is target.tokenizer else len(source)
    if apart and settings.shared:
        raise UserError(
            "model.shared must be false where source and target have tokenizers of their own; got "
            "true with data.joint false. Add --model.shared false."
        )
    config = replace(settings, vocabulary=len(target), source_vocabulary=apart)
    training = short_enough(corpus.training, config.context)
    model = build(config).to(device)
    _check_lengths(model, corpus.validation, train.tokens)
    return Translating(
        model=model,
        config=config,
        sides=Sides(source, target, unsaid(corpus.training, target)),
        training=training,
        validation=corpus.validation,
        tokens=train.tokens,
        seed=train.seed,
        smoothing=train.smoothing,
        left_out=len(corpus.training) - len(training),
    )


def short_enough(pairs: TokenPairs, context: int) -> TokenPairs:
    """The pairs that fit into the context, their ends included; none at all is an error."""
    fits = np.flatnonzero(pairs.lengths.max(1) <= context).tolist()
    if not fits:
        raise UserError(
            f"model.context must have room for a pair; got {context}, and the shortest has "
            f"{int(pairs.lengths.max(1).min())} tokens. Try --model.context "
            f"{int(pairs.lengths.max())}."
        )
    return pairs if len(fits) == len(pairs) else pairs.some(fits)


def unsaid(pairs: TokenPairs, target: Known) -> tuple[int, ...]:
    """The numbers that no target has: nothing taught a model when to say them."""
    said = np.zeros(len(target), dtype=bool)
    said[[Known.end, target.placeholder]] = True
    for tokens in pairs.targets:
        said[tokens] = True
    return tuple(np.flatnonzero(~said).tolist())


@torch.inference_mode()
def pair_loss(model: nn.Module, pairs: TokenPairs, tokens: int) -> float:
    """Nats for each target token of all pairs, ends included, not smoothed.

    Claim: test_translation.py::test_the_loss_is_that_of_each_target_token_by_hand
    """
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for batch in _whole(pairs, tokens):
        loss, asked = _cross_entropy(model, _padded(batch), 0.0)
        total, count = total + float(loss.double()), count + asked
    model.train(was_training)
    return total / count


def _whole(pairs: TokenPairs, tokens: int) -> Iterator[TokenPairs]:
    """Every pair once; where one is longer than a batch may be, batches are longer."""
    room = max(tokens, int(pairs.lengths.max()))
    for numbers in buckets(pairs.lengths, room, 0, 0):
        yield pairs.some(numbers.tolist())


def _padded(pairs: TokenPairs) -> Padded:
    return padded(pairs.sources, pairs.targets, pad=Known.end, end=Known.end)


def _cross_entropy(model: nn.Module, batch: Padded, smoothing: float) -> tuple[Tensor, int]:
    """The sum over real target tokens, and how many there are.

    Each is −Σ_v q_v ln p_v with q = 1 − ε at the target and ε / V everywhere, added at the target
    too; V counts all tokens.
    Ref: Szegedy et al. 2016, arXiv:1512.00567, section 7.
    Claim: test_translation.py::test_smoothing_by_hand
    """
    device = next(model.parameters()).device
    source, told = (torch.from_numpy(x).to(device) for x in (batch.source, batch.told))
    logits = model(source, told, torch.from_numpy(batch.lengths).to(device))
    asked = torch.from_numpy(np.where(batch.real, batch.asked, IGNORED)).to(device)
    total = cross_entropy(
        logits.flatten(0, 1),
        asked.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )
    return total, int(batch.real.sum())


def _check_lengths(model: Model, held: TokenPairs, tokens: int) -> None:
    limit, longest = getattr(model, "limit", None), int(held.lengths.max())
    if limit is not None and longest > limit:
        raise UserError(
            f"model.context must have room for every validation pair, of up to {longest} tokens, "
            f"as positions are learned; got {limit}. Try --model.context {longest}, or "
            "--model.positions sinusoidal."
        )
