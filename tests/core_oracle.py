# long: the oracles of all of tests/core, in one module
"""Oracles for tests/core: each mask of the table as a rule in plain Python, and plain attention.

A rule is told b, h, row, column and the two positions, and answers True, False or None, "outside
of what the mask's table knows"; there nothing is attended, under `~` either.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.utils._python_dispatch import TorchDispatchMode

from atento.core.compose import Mask
from atento.core.edges import Edges
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window
from atento.core.positions import Positions
from atento.core.random_blocks import RandomBlocks
from atento.core.tables import Blocks, Dense, Documents, Padding, Where
from atento.core.tap import Tap

Rule = Callable[[int, int, int, int, int, int], bool | None]
EXACT = 1e-12  # float64, a few hundred additions of numbers near 1


@dataclass(frozen=True)
class Leaf:
    """A mask and what it should say."""

    mask: Mask
    rule: Rule


@dataclass(frozen=True)
class Place:
    """An `at`, and the positions that it names: queries i[b][row], keys j[b][column]."""

    at: Any
    i: list[list[int]]
    j: list[list[int]]


@cache
def places(B: int, Q: int, K: int, span: int, seed: int = 0) -> dict[str, Place]:
    """Every form of `at`, with positions below `span`."""
    draw = random.Random(seed)
    shift = span - Q if span < 2 * Q else 3
    firsts = [draw.randrange(span - Q + 1) for _ in range(B)]
    runs = [list(range(K))] * B

    def slots(count: int, empty: int) -> list[int]:
        taken = draw.sample(range(span), count)
        for spot in draw.sample(range(count), empty):
            taken[spot] = -1
        return taken

    one = slots(Q, 0), slots(K, 2)
    many = [slots(Q, 1) for _ in range(B)], [slots(K, 2 + b) for b in range(B)]
    return {
        "none": Place(None, [list(range(Q))] * B, runs),
        "int": Place(shift, [[shift + r for r in range(Q)]] * B, runs),
        "each": Place(torch.tensor(firsts), [[f + r for r in range(Q)] for f in firsts], runs),
        "shared": Place(
            Positions(torch.tensor(one[0]), torch.tensor(one[1])), [one[0]] * B, [one[1]] * B
        ),
        "permuted": Place(Positions(torch.tensor(many[0]), torch.tensor(many[1])), *many),
    }


def _read(table: list[list[Any]], b: int, index: int) -> Any:
    row = table[b if len(table) > 1 else 0]
    return row[index] if 0 <= index < len(row) else None


def _bool(draw: torch.Generator, *shape: int, part: float = 0.5) -> Tensor:
    return torch.rand(*shape, generator=draw) < part


def _rows(x: Tensor) -> list[list[Any]]:
    return x.tolist() if x.dim() == 2 else [x.tolist()]


def documents(mask_ids: Tensor, k_ids: Tensor | None = None, packed: bool = False) -> Leaf:
    mine = _rows(mask_ids)
    its = mine if k_ids is None else _rows(k_ids)

    def rule(b: int, h: int, r: int, c: int, i: int, j: int) -> bool | None:
        x, y = _read(mine, b, i), _read(its, b, j)
        if x is None or y is None or x < 0 or y < 0:
            return None
        return x == y

    return Leaf(Documents(mask_ids, k_ids, packed), rule)


def keep(table: Tensor) -> Leaf:
    known = _rows(table)
    return Leaf(Padding(table), lambda b, h, r, c, i, j: _read(known, b, j))


def global_table(table: Tensor) -> Leaf:
    """A key outside of the table is attended by nothing; a query outside of it is in no set."""
    known = _rows(table)

    def rule(b: int, h: int, r: int, c: int, i: int, j: int) -> bool | None:
        x, y = _read(known, b, i), _read(known, b, j)
        if y is None:
            return None
        return True if x or y else None if x is None else False

    return Leaf(Global(table), rule)


def blocks(table: Tensor, size: int) -> Leaf:
    known = table.tolist()

    def rule(b: int, h: int, r: int, c: int, i: int, j: int) -> bool | None:
        x, y = math.floor(i / size), math.floor(j / size)
        inside = 0 <= x < len(known) and 0 <= y < len(known[0])
        return known[x][y] if inside else None

    return Leaf(Blocks(table, size), rule)


def random_blocks(mask: RandomBlocks, span: int) -> Leaf:
    """What is drawn is a property of the seed; it is read once, on a plain run of positions."""
    count = -(-span // mask.size)
    far = count * mask.size
    table = mask.dense(far, far)[0, 0, :: mask.size, :: mask.size].tolist()

    def rule(b: int, h: int, r: int, c: int, i: int, j: int) -> bool:
        return i >= 0 and j >= 0 and table[i // mask.size][j // mask.size]

    return Leaf(mask, rule)


def _of_dense(table: Tensor) -> Leaf:
    x = table.tolist()
    if table.dim() == 2:
        return Leaf(Dense(table), lambda b, h, r, c, i, j: x[r][c])
    return Leaf(Dense(table), lambda b, h, r, c, i, j: x[b % len(x)][h % len(x[0])][r][c])


def _edges(index: Tensor, shape: tuple[int, int]) -> Leaf:
    pairs = {(k, q) for k, q in index.T.tolist()}
    return Leaf(Edges(index, shape), lambda b, h, r, c, i, j: (c, r) in pairs)


@cache
def leaves(  # long: one table
    B: int, H: int, Q: int, K: int, span: int, seed: int = 0
) -> dict[str, Leaf]:
    """Every mask of the table, its tables as long as the positions reach."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, span, (B,), generator=g)
    ids = torch.randint(-1, 3, (B, span), generator=g)
    other = torch.randint(-1, 3, (1, span), generator=g)
    packed = torch.randint(0, 4, (span,), generator=g).sort().values
    size = 3 if span < 100 else 47
    table = _bool(g, -(-span // size), -(-span // size))
    index = torch.stack(
        [torch.randint(0, n, (2 * Q,), generator=g) for n in (K, Q)]
    )  # duplicates merge
    reach, far = (2, 3) if span < 100 else (150, 90)
    offsets = torch.randint(0, span, (H,), generator=g)
    shifts = offsets.tolist()
    n = lengths.tolist()
    some = sorted({1, span // 3, span - 1})
    float_mask = torch.zeros(Q, K).masked_fill(~_bool(g, Q, K), -torch.inf)
    additive = float_mask.tolist()
    return {
        "Full": Leaf(Full(), lambda b, h, r, c, i, j: True),
        "Causal": Leaf(Causal(), lambda b, h, r, c, i, j: j <= i),
        "Window": Leaf(Window(reach), lambda b, h, r, c, i, j: i - reach <= j <= i),
        "Window both": Leaf(Window(1, far), lambda b, h, r, c, i, j: i - 1 <= j <= i + far),
        "Window self": Leaf(Window(0, 0), lambda b, h, r, c, i, j: j == i),
        "Window ahead": Leaf(Window(None, far), lambda b, h, r, c, i, j: j <= i + far),
        "Window behind": Leaf(Window(reach, None), lambda b, h, r, c, i, j: j >= i - reach),
        "Window open": Leaf(Window(None, None), lambda b, h, r, c, i, j: True),
        "Dilated": Leaf(Dilated(3), lambda b, h, r, c, i, j: (i - j) % 3 == 0),
        "Dilated 1": Leaf(Dilated(1), lambda b, h, r, c, i, j: True),
        "Global list": Leaf(Global(some), lambda b, h, r, c, i, j: i in some or j in some),
        "Global none": Leaf(Global([]), lambda b, h, r, c, i, j: False),
        "Global shared": global_table(torch.tensor([p in some for p in range(span)])),
        "Global": global_table(_bool(g, B, span, part=0.2)),
        "Prefix": Leaf(Prefix(span // 2), lambda b, h, r, c, i, j: j < span // 2),
        "Prefix 0": Leaf(Prefix(0), lambda b, h, r, c, i, j: j < 0),
        "Prefix each": Leaf(Prefix(lengths), lambda b, h, r, c, i, j: j < n[b]),
        "Documents": documents(ids),
        "Documents shared": documents(other[0]),
        "Documents across": documents(ids, other),
        "Documents packed": documents(packed, packed=True),
        "Padding lengths": Leaf(Padding(lengths), lambda b, h, r, c, i, j: j < n[b]),
        "Padding keep": keep(_bool(g, B, span)),
        "Padding shared": keep(_bool(g, span)),
        "Blocks": blocks(table, size),
        "RandomBlocks": random_blocks(RandomBlocks(2, size, seed=5), span),
        "RandomBlocks among": random_blocks(RandomBlocks(2, size, seed=7, blocks=5), span),
        "Edges": _edges(index, (Q, K)),
        "Dense": _of_dense(_bool(g, Q, K)),
        "Dense each": _of_dense(_bool(g, B, 1, Q, K)),
        "Dense heads": _of_dense(_bool(g, B, H, Q, K)),
        "Dense additive": Leaf(
            Dense.additive(float_mask)[0], lambda b, h, r, c, i, j: additive[r][c] == 0
        ),
        "Where": Leaf(
            Where(lambda b, h, i, j, t: j <= i + t[h], offsets),
            lambda b, h, r, c, i, j: j <= i + shifts[h],
        ),
        "Where heads": Leaf(
            Where(lambda b, h, i, j: (j <= i + 150 * h) & (j >= b)),
            lambda b, h, r, c, i, j: b <= j <= i + 150 * h,
        ),
    }


NAMES = list(leaves(1, 1, 5, 7, 17))


# Trees of masks: a Leaf, ("~", tree), ("&", tree, tree) or ("|", tree, tree).
Tree = Any


def mask_of(tree: Tree) -> Mask:
    if isinstance(tree, Leaf):
        return tree.mask
    kind, *parts = tree
    masks = [mask_of(p) for p in parts]
    if kind == "~":
        return ~masks[0]
    return masks[0] & masks[1] if kind == "&" else masks[0] | masks[1]


def says(tree: Tree, cell: tuple[int, ...], negated: bool = False) -> bool:
    """Whether the pair may attend; `~` stands on the leaves, and what is unknown stays False."""
    if isinstance(tree, Leaf):
        answer = tree.rule(*cell)
        return False if answer is None else bool(answer) is not negated
    kind, *parts = tree
    if kind == "~":
        return says(parts[0], cell, not negated)
    answers = [says(p, cell, negated) for p in parts]
    return all(answers) if (kind == "&") is not negated else any(answers)


def cells(B: int, H: int, Q: int, K: int) -> Iterator[tuple[int, int, int, int]]:
    for b in range(B):
        for h in range(H):
            for r in range(Q):
                for c in range(K):
                    yield b, h, r, c


def truth(tree: Tree, B: int, H: int, Q: int, K: int, place: Place) -> Tensor:
    """Bool[B, H, Q, K], cell by cell; a key at −1 is attended by nothing."""
    found = [
        place.j[b][c] != -1 and says(tree, (b, h, r, c, place.i[b][r], place.j[b][c]))
        for b, h, r, c in cells(B, H, Q, K)
    ]
    return torch.tensor(found, dtype=torch.bool).reshape(B, H, Q, K)


def of_edges(index: Tensor, Q: int, K: int) -> Tensor:
    """Bool[Q, K] of an edge list that names each pair once."""
    pairs = index.T.tolist()
    assert len({tuple(p) for p in pairs}) == len(pairs), "an edge stands in the list twice"
    out = torch.zeros(Q, K, dtype=torch.bool)
    for k, q in pairs:
        out[q, k] = True
    return out


def of_predicate(fn: Callable[..., Tensor], B: int, H: int, Q: int, K: int) -> Tensor:
    b, h, q, k = (torch.arange(n) for n in (B, H, Q, K))
    return fn(b[:, None, None, None], h[:, None, None], q[:, None], k).expand(B, H, Q, K)


def listed(numbers: Tensor, indices: Tensor) -> Tensor:
    """Bool[B, H, R, C] of a BlockMask's ordered lists; each block stands in its list once."""
    spot = torch.arange(indices.shape[-1]) < numbers[..., None]
    out = torch.zeros(*indices.shape[:-1], indices.shape[-1] + 1, dtype=torch.long)
    out.scatter_add_(-1, torch.where(spot, indices, indices.shape[-1]).long(), spot.long())
    assert out.max() <= 1, "a block stands in its list twice"
    return out[..., :-1].bool()


def of_block_mask(made: BlockMask, B: int, H: int, Q: int, K: int) -> Tensor:
    """What FlexAttention would compute with it: full blocks whole, partial ones by mask_mod."""
    partial = listed(made.kv_num_blocks, made.kv_indices)
    full = listed(made.full_kv_num_blocks, made.full_kv_indices)
    assert not (partial & full).any(), "a block is both partial and full"
    assert torch.equal(listed(made.q_num_blocks, made.q_indices), partial.mT)
    assert torch.equal(listed(made.full_q_num_blocks, made.full_q_indices), full.mT)
    rows, cols = made.BLOCK_SIZE
    assert not full[..., K // cols :].any(), "a full block reaches past the last key"

    def stretched(x: Tensor) -> Tensor:
        wide = x.repeat_interleave(rows, -2).repeat_interleave(cols, -1)
        return wide[..., :Q, :K].expand(B, H, Q, K)

    by_pair = of_predicate(made.mask_mod, B, H, Q, K)
    assert not (stretched(full) & ~by_pair).any(), "a block is listed as full but is not"
    assert not (by_pair & ~stretched(full | partial)).any(), "a block is not listed but not empty"
    return stretched(full) | (stretched(partial) & by_pair)


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operator returns."""

    def __init__(self) -> None:
        super().__init__()
        self.numel, self.names = 0, []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.names.append(str(func))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return out


def qkv(
    B: int = 2,
    H: int = 3,
    Q: int = 5,
    K: int = 7,
    D: int = 11,
    Dv: int = 13,
    seed: int = 0,
    **kw: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """float64 queries, keys and values; `kv` heads of keys where given."""
    g = torch.Generator().manual_seed(seed)
    heads = kw.pop("kv", H)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=g)

    return normal(B, H, Q, D), normal(B, heads, K, D), normal(B, heads, K, Dv)


def plain_weights(
    q: Tensor,
    k: Tensor,
    allow: Tensor | None = None,
    added: Tensor | None = None,
    sink: Tensor | None = None,
) -> Tensor:
    """softmax(q kᵀ / √D + added, over what is allowed and the sink), zeros in empty rows."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if added is not None:
        scores = scores + added
    shares = scores.exp()  # the tests' scores are small: nothing overflows
    if allow is not None:
        shares = torch.where(allow, shares, 0.0)
    total = shares.sum(-1, keepdim=True)
    if sink is not None:
        total = total + sink.exp()[:, None, None]
    return torch.where(total > 0, shares / torch.where(total > 0, total, 1.0), 0.0)


def plain(q: Tensor, k: Tensor, v: Tensor, **kw: Any) -> Tensor:
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    return plain_weights(q, k, **kw) @ v


def refused(call: Callable[[], object], *words: str) -> None:
    """The call raises one sentence in which each of the words (regular expressions) is found."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    sentence = str(caught.value)
    for word in words:
        assert re.search(word, sentence), f"{word!r} is not in: {sentence}"
    assert "\n" not in sentence
    assert sentence.endswith((".", ")", "?")), sentence


class Recorder(Tap):
    """Keeps everything, changes nothing."""

    def __init__(self, reads: frozenset[str] = frozenset()) -> None:
        self.reads, self.seen = reads, []

    def note(self, kind, site, *what):
        self.seen.append((kind, site, *what))

    def begin(self, site):
        self.note("begin", site)

    def inputs(self, site, q, k, v):
        self.note("inputs", site, q, k, v)

    def scores(self, site, scores):
        self.note("scores", site, scores)

    def weights(self, site, weights):
        self.note("weights", site, weights)

    def output(self, site, out):
        self.note("output", site, out)

    def lse(self, site, lse):
        self.note("lse", site, lse)

    def of(self, kind):
        return [x for x in self.seen if x[0] == kind]


class Change(Tap):
    """A tap made of functions."""

    def __init__(self, reads=frozenset(), **functions) -> None:
        self.reads = frozenset(reads)
        for name, fn in functions.items():
            setattr(self, name, fn)
