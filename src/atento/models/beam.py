"""Beam search: the likeliest texts that a model makes of others, several kept at once."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from atento.core.tap import Site, Tap, tapped
from atento.errors import UserError
from atento.models.decoding import Decoding, Translator

__all__ = ["Beam", "Hypothesis", "beam_search"]


@dataclass(frozen=True, kw_only=True)
class Beam:
    """How hypotheses are sought and ranked, by the higher score:

    score(Y) = log P(Y) / |Y|^`length_penalty` + `coverage` · Σ_i log min(1, Σ_j α_ij),

    where |Y| counts the end too, and α_ij is the weight of source token i at step j. At every step
    the `size` likeliest goings-on are kept; of these, the ones that end are finished, and the next
    likeliest stand in for them. A search is over when `size` hypotheses are finished; at the
    longest length, `ratio` · |X| + `extra` tokens, all must end. `never` are not said, such as
    padding. With size 1 it is greedy decoding.
    Ref: Wu et al. 2016, arXiv:1609.08144, equation 14 (coverage; our length penalty is fairseq's).
    """

    size: int = 5
    length_penalty: float = 1.0
    coverage: float = 0.0
    nbest: int = 1
    ratio: float = 2.0
    extra: int = 10
    never: tuple[int, ...] = ()
    aligned: bool = False  # whether hypotheses say what was looked at

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"beam must be at least 1 (greedy); got {self.size}.")
        if not 1 <= self.nbest <= self.size:
            raise UserError(
                f"nbest must be at least 1 and at most the beam; got {self.nbest} of "
                f"{self.size}. Try --beam {max(self.nbest, 1)}."
            )
        for name in ("length_penalty", "coverage", "ratio"):
            if not (math.isfinite(value := getattr(self, name)) and value >= 0):
                raise UserError(f"{name} must be 0 or more; got {value}.")
        if self.extra < 1:
            raise UserError(f"extra must be at least 1, for a text to be longer; got {self.extra}.")


@dataclass(frozen=True)
class Hypothesis:
    """A text that was found: its tokens without the end, and how it was ranked."""

    tokens: list[int]
    score: float
    log_chance: float  # log P, the end's included
    # Float[M + 1, N]: the weights on the source at each token and the end.
    alignment: Tensor | None = field(default=None, compare=False)


@torch.inference_mode()
def beam_search(
    model: nn.Module,
    source: Tensor,
    lengths: Tensor,
    how: Beam,
    *,
    end: int,
    cached: bool = True,
) -> list[list[Hypothesis]]:
    """The `nbest` hypotheses of each source, best first: source Int[B, N], lengths Int[B].

    `end` is the token that ends a text, and the one that its beginning is told by. A batch gives
    what each source gives alone, up to rounding.
    Claim: test_beam.py::test_batched_and_cached_equals_a_plain_search
    """
    if not len(source):
        return []
    translator = cast(Translator, model)
    watches = how.aligned or how.coverage > 0
    if watches and translator.aligned is None:
        raise UserError(
            "coverage and alignment are of what is looked at, and this model has no attention. "
            'Leave them out, or train with another model.attention than "none".'
        )
    was_training = model.training
    model.eval()
    try:
        with _watched(model, translator.aligned if watches else None) as watch:
            search = _Search(translator, source, lengths, how, end, cached, watch)
            while len(search.rows):
                search.step()
    finally:
        model.train(was_training)
    best = [sorted(found, key=lambda one: -one.score)[: how.nbest] for found in search.found]
    return best


class _Watch(Tap):
    """Keeps the last weights on the source, averaged over heads: [R, N]."""

    reads = frozenset({"weights"})
    last: Tensor | None = None

    def weights(self, site: Site, weights: Tensor) -> None:
        self.last = weights[:, :, -1].mean(1)


@contextmanager
def _watched(model: nn.Module, name: str | None) -> Iterator[_Watch | None]:
    if name is None:
        yield None
    else:
        with tapped(model.get_submodule(name), _Watch()) as watch:
            yield cast(_Watch, watch)


class _Search:
    """The hypotheses of the sources that are not over yet: S sources, k hypotheses each."""

    def __init__(  # long: what a search is begun with
        self,
        model: Translator,
        source: Tensor,
        lengths: Tensor,
        how: Beam,
        end: int,
        cached: bool,
        watch: _Watch | None,
    ) -> None:
        self.how, self.end, self.watch = how, end, watch
        self.found: list[list[Hypothesis]] = [[] for _ in source]
        self.rows = torch.arange(len(source), device=source.device)  # which sources, Int[S]
        self.decoding = Decoding(model, source, lengths, cached=cached)
        self.decoding.select(self.rows.repeat_interleave(how.size))
        self.lengths = lengths.to(source.device)
        longest = (how.ratio * self.lengths + how.extra).long()
        # The end is told at the beginning too, so a model of n positions says n − 1 tokens.
        self.longest = longest if model.limit is None else longest.clamp(max=model.limit - 1)
        self.said = source.new_empty(len(source), how.size, 0)  # [S, k, M]
        self.last = source.new_full((len(source) * how.size,), end)
        self.chances: Tensor | None = None  # log P [S, k]; None: nothing is said yet
        self.seen: Tensor | None = None  # α [S, k, M, N]

    def step(self) -> None:
        """One more token for every hypothesis; those that end are taken out."""
        chances = self._chances()  # [S, k, V], of the hypothesis with the token
        size, tokens = chances.shape[1:]
        count = min(2 * size, size * tokens)  # even if `size` of them end, `size` go on
        best, where = chances.flatten(1).topk(count)
        parents, said = where // tokens, where % tokens
        ends = (said == self.end) & (best > -torch.inf)
        self._finish(best, parents, ends & (torch.arange(count, device=best.device) < size))
        # The first `size` that go on, in their order.
        order = (ends.long() * count + torch.arange(count, device=best.device)).argsort(1)[:, :size]
        parents, said = parents.gather(1, order), said.gather(1, order)
        done = torch.tensor([len(self.found[n]) >= size for n in self.rows.tolist()])
        done = done.to(best.device) | (self.said.shape[2] >= self.longest)
        self._go_on(best.gather(1, order), parents, said, (~done).nonzero()[:, 0])

    def _chances(self) -> Tensor:
        logits = self.decoding.logits(self.last)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_chances = logits.log_softmax(-1)  # over vocabulary
        log_chances[:, list(self.how.never)] = -torch.inf
        log_chances = log_chances.view(len(self.rows), self.how.size, -1)
        must_end = self.said.shape[2] >= self.longest
        others = torch.arange(log_chances.shape[-1], device=logits.device) != self.end
        log_chances = log_chances.masked_fill(must_end[:, None, None] & others, -torch.inf)
        if self.watch is not None and self.watch.last is not None:
            now = self.watch.last.view(*log_chances.shape[:2], 1, -1)
            self.seen = now if self.seen is None else torch.cat([self.seen, now], 2)
        if self.chances is None:
            self.chances = log_chances.new_full(log_chances.shape[:2], -torch.inf)
            self.chances[:, 0] = 0.0  # at first all hypotheses are one
        return self.chances[..., None] + log_chances

    def _finish(self, best: Tensor, parents: Tensor, ends: Tensor) -> None:
        """Keeps the hypotheses that end, where fewer than `size` are kept."""
        places = ends.nonzero()
        if not len(places):
            return
        at = (places[:, 0], parents[places[:, 0], places[:, 1]])
        seen = None if self.seen is None else self.seen[at]
        scores = best[ends] / (self.said.shape[2] + 1) ** self.how.length_penalty
        if seen is not None and self.how.coverage > 0:
            scores = scores + self.how.coverage * self._covered(seen, self.lengths[at[0]])
        columns: tuple[Any, ...] = (
            *(self.rows[at[0]].tolist(), self.said[at].tolist()),
            *(scores.tolist(), best[ends].tolist(), self.lengths[at[0]].tolist()),
        )
        for n, (row, tokens, score, chance, length) in enumerate(zip(*columns, strict=True)):
            if len(self.found[row]) < self.how.size:
                kept = seen is not None and self.how.aligned
                alignment = seen[n, :, :length].cpu() if kept and seen is not None else None
                self.found[row].append(Hypothesis(tokens, score, chance, alignment))

    @staticmethod
    def _covered(seen: Tensor, lengths: Tensor) -> Tensor:
        """Σ_i log min(1, Σ_j α_ij) over the tokens that a source has."""
        real = torch.arange(seen.shape[-1], device=seen.device) < lengths[:, None]
        covered = seen.sum(1).clamp(max=1.0)
        return covered.log().masked_fill(~real, 0.0).sum(-1)

    def _go_on(self, best: Tensor, parents: Tensor, said: Tensor, kept: Tensor) -> None:
        """Only the sources `kept`, with each hypothesis' parent followed by its token."""
        parents, said = parents[kept], said[kept]
        self.chances, self.rows = best[kept], self.rows[kept]
        self.lengths, self.longest = self.lengths[kept], self.longest[kept]
        at = (kept[:, None], parents)
        self.said = torch.cat([self.said[at], said[..., None]], -1)
        if self.seen is not None:
            self.seen = self.seen[at]
        self.decoding.select((kept[:, None] * self.how.size + parents).flatten())
        self.last = said.flatten()
