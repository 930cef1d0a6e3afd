"""Batches of pairs by their number of tokens: pairs of like lengths together, little padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atento.data.text import Tokens
from atento.errors import UserError

__all__ = ["Padded", "buckets", "padded"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Padded:
    """A batch of pairs of tokens, each row as long as the longest."""

    source: Numbers  # [B, N]
    lengths: Numbers  # [B], the sources' own
    told: Numbers  # [B, M], the targets with the end before them: what a decoder reads
    asked: Numbers  # [B, M], the targets with the end after them: what it is to say
    real: NDArray[np.bool_]  # [B, M]: where `asked` counts


def buckets(lengths: Numbers, tokens: int, seed: int, epoch: int) -> list[Numbers]:
    """Which pairs each batch of an epoch holds, by number: each pair once, in one of the batches.

    lengths: [N, 2], of sources and targets. A batch times its longest row, padding included, is at
    most `tokens`. The order of batches, and of pairs of one length, follows from (seed, epoch)
    alone, so a run that resumes at an epoch needs to remember nothing.
    Claim: test_buckets.py::test_each_pair_is_in_one_batch_once
    """
    longest = lengths.max(1)
    if len(longest) and int(longest.max()) > tokens:
        worst = int(longest.argmax())
        raise UserError(
            f"a batch must have room for its longest pair; pair {worst + 1} has {longest[worst]} "
            f"tokens, a batch {tokens}. Leave the pair out, or allow a batch that many tokens."
        )
    draw = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    # By the longer side, which decides the padding, then by the other; chance decides the rest.
    order = np.lexsort((draw.random(len(lengths)), lengths.min(1), longest))
    batches, first = [], 0
    for place, pair in enumerate(order):
        if (place + 1 - first) * int(longest[pair]) > tokens:  # pairs only get longer
            batches.append(order[first:place])
            first = place
    if first < len(order):
        batches.append(order[first:])
    return [batches[n] for n in draw.permutation(len(batches))]


def padded(sources: Sequence[Tokens], targets: Sequence[Tokens], *, pad: int, end: int) -> Padded:
    """The pairs as one batch; sources end with `end` too, so that none of them is empty.

    A decoder is told that a text begins by the end of the one before, as fairseq does.
    """
    lengths = np.array([len(one) + 1 for one in sources], dtype=np.int64)
    wide = np.array([len(one) + 1 for one in targets], dtype=np.int64)
    source = np.full((len(sources), lengths.max()), pad, dtype=np.int64)
    told = np.full((len(targets), wide.max()), pad, dtype=np.int64)
    asked = told.copy()
    told[:, 0] = end
    for row, (one, other) in enumerate(zip(sources, targets, strict=True)):
        source[row, : len(one)], source[row, len(one)] = one, end
        told[row, 1 : len(other) + 1] = other
        asked[row, : len(other)], asked[row, len(other)] = other, end
    return Padded(source, lengths, told, asked, np.arange(wide.max()) < wide[:, None])
