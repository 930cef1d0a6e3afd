"""What a model says next, token by token."""

from collections.abc import Collection, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from atento.errors import UserError
from atento.models.choose import LARGEST_SEED, Sampling, chances, chosen

__all__ = ["Reader", "generate", "generate_several"]


class Reader:
    """The logits after all that was read, for S sequences of the same length.

    The model looks at the last `context` tokens, as if they were all there is: once there are
    more, the window slides and is read anew at each token, because what a cache holds was made in
    sight of tokens that are no longer seen, at positions that are no longer theirs. Keeping such a
    cache, without sinks, ruins what is said.
    Ref: Xiao et al. 2023, arXiv:2309.17453, figure 1 (d).
    Claim: test_generate.py::test_cached_logits_equal_uncached_in_float64
    """

    def __init__(self, model: nn.Module, prompt: Tensor, cached: bool = True) -> None:
        self.model = cast(Any, model)
        self.seen = prompt  # [S, N], or its end
        self._caches = self.model.caches() if cached else None
        self._held = 0  # how many tokens the caches hold

    def logits(self) -> Tensor:  # [S, V]
        """Of the token that comes next; without caches, by reading the whole window."""
        length = self.seen.shape[1]
        if self._caches is None or length > self.model.context:
            self._caches = None
            logits: Tensor = self.model(self.seen[:, -self.model.context :])
        else:
            logits = self.model(self.seen[:, self._held :], self._caches)
            self._held = length
        return logits[:, -1]

    def read(self, tokens: list[int]) -> None:
        """One more token for each sequence."""
        new = torch.tensor(tokens, device=self.seen.device)[:, None]
        # One more than the model looks at, so that it shows that the window has begun to slide.
        self.seen = torch.cat([self.seen, new], 1)[:, -self.model.context - 1 :]


def generate(
    model: nn.Module,
    prompt: Tensor,
    tokens: int,
    how: Sampling | None = None,
    *,
    ends: Collection[int] = (),
    cached: bool = True,
    slide: bool = True,
) -> Iterator[int]:
    """At most `tokens` tokens that follow a prompt Int[N]; a token of `ends` stops, unsaid.

    Claim: test_generate.py::test_greedy_append_decoding_stops_at_the_end_token
    """
    several = generate_several(
        model, prompt, tokens, how, ends=ends, cached=cached, slide=slide, samples=1
    )
    return (token for (token,) in several if token is not None)


def generate_several(
    model: nn.Module,
    prompt: Tensor,
    tokens: int,
    how: Sampling | None = None,
    *,
    samples: int = 1,
    ends: Collection[int] = (),
    cached: bool = True,
    slide: bool = True,
) -> Iterator[list[int | None]]:
    """The next token of each of several samples, as one batch; None for one that has ended.

    Sample n, from 0, is the one that seed + n gives alone. Draws are made on the CPU, so that a
    seed repeats on any device up to rounding. With `slide=False` it is an error to go beyond what
    the model was trained to see at once, rather than to forget what was said first.
    Claim: test_generate.py::test_several_samples_are_those_of_the_seeds_that_follow
    """
    how = how or Sampling()
    _check(model, prompt, tokens, samples)
    length, context = len(prompt), int(model.context)  # type: ignore[arg-type]
    if not slide and length + tokens > context + 1:  # the last token is said, not read
        raise UserError(
            f"prompt and tokens must fit the {context} tokens that the model was trained to see at "
            f"once; got {length} + {tokens}. Say at most {max(0, context + 1 - length)}, or let "
            "the window slide."
        )
    return _said(Reader(model, prompt.expand(samples, -1), cached), tokens, how, ends)


@torch.inference_mode()
def _said(
    reader: Reader, tokens: int, how: Sampling, ends: Collection[int]
) -> Iterator[list[int | None]]:
    device = next(reader.model.parameters()).device
    reader.seen = reader.seen.to(device)
    samples = len(reader.seen)
    generators = [_generator(how.seed, n) for n in range(samples)]
    over = [False] * samples
    seen: Tensor | None = None  # Bool[S, V]
    was_training = reader.model.training
    reader.model.eval()
    try:
        for _ in range(tokens):
            logits = reader.logits().double().cpu()
            if seen is None:
                seen = torch.zeros_like(logits, dtype=torch.bool)
                seen.scatter_(1, reader.seen.cpu(), True)
            said = chosen(chances(logits, seen, how), generators)
            over = [gone or token in ends for gone, token in zip(over, said, strict=True)]
            if all(over):
                return
            yield [None if gone else token for gone, token in zip(over, said, strict=True)]
            reader.read(said)
            seen.scatter_(1, torch.tensor(said)[:, None], True)
    finally:
        reader.model.train(was_training)


def _generator(seed: int | None, sample: int) -> torch.Generator | None:
    if seed is None:
        return None
    return torch.Generator().manual_seed((seed + sample) % (LARGEST_SEED + 1))


def _check(model: nn.Module, prompt: Tensor, tokens: int, samples: int) -> None:
    if not (hasattr(model, "context") and hasattr(model, "caches")):
        raise UserError(
            f"model must foretell the next token, as a decoder does; got {type(model).__name__}."
        )
    if prompt.dim() != 1 or not len(prompt):
        raise UserError(f"prompt must be at least one token, Int[N]; got {list(prompt.shape)}.")
    if tokens < 0:
        raise UserError(f"tokens must be 0 or more; got {tokens}.")
    if samples < 1:
        raise UserError(f"samples must be at least 1; got {samples}.")
