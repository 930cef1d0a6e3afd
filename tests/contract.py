"""The members that every contract is checked on, and the oracle, which uses no code of atento's.

To put a new mask, score or bias under the contract, add one line to `MASKS`, `SCORES` or `BIASES`:
the object, and the same thing said as a plain function.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from atento.core.biases import Alibi, Bias, DenseBias, EdgeBias, Shaw, T5Bias
from atento.core.compose import Mask
from atento.core.edges import Edges
from atento.core.graph_scores import GAT, EdgeFeatures, GATv2
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window, bigbird, longformer
from atento.core.random_blocks import RandomBlocks
from atento.core.scores import Additive, Bilinear, Cosine, Dot, Score
from atento.core.tables import Blocks, Dense, Documents, Padding, Where

B, H, N = 2, 3, 11  # batch, heads, queries and keys (square calls)
Pair = Callable[[int, int, int, int], bool]  # (b, h, i, j) → may i attend to j


@dataclass(frozen=True)
class Case:
    """A mask and the same mask in words."""

    mask: Mask | None
    says: Pair
    causal: bool = False  # whether it implies j ≤ i


def _random(seed: int, *shape: int, grad: bool = False) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=source).requires_grad_(grad)


IDS = [0, 0, 0, 1, 1, -1, 2, 2, 2, 2, 3]
TWO_IDS = [[0, 0, 1, 1, 1, 2, 2, -1, -1, 3, 3], [5, 4, 5, 4, 5, 4, 5, 4, -1, 5, 5]]
LENGTHS = [7, 0]
KEEP = (_random(1, B, N) > 0).tolist()
TABLE = [[True, False, True], [False, True, False], [True, True, False]]
MEMBERS = (_random(2, B, N) > 0.8).tolist()
EDGES = torch.randint(0, N, (2, 31), generator=torch.Generator().manual_seed(3))
PAIRS = {(int(q), int(k)) for k, q in EDGES.T.tolist()}
DENSE = (_random(4, B, H, N, N) > 0.3).tolist()
DRAWN = RandomBlocks(1, 3, seed=7)


def _drawn(i: int, j: int) -> bool:
    """Whether j's block is drawn for i's: Floyd's sampling by a 32-bit hash, in plain integers."""
    block, among, low = i // DRAWN.size, i // DRAWN.size + 1, 2**32 - 1
    drawn: list[int] = []
    for n in range(DRAWN.count):
        x = (block * 0x9E3779B1 + DRAWN.seed * 0x85EBCA6B + n * 0xC2B2AE35) & low
        for _ in range(2):
            x = ((x ^ (x >> 16)) * 0x045D9F3B) & low
        top = among - DRAWN.count + n
        pick = (x ^ (x >> 16)) % (max(top, 0) + 1)
        drawn.append(-9 if top < 0 else top if pick in drawn else pick)
    return j // DRAWN.size in drawn


def _same(ids: list[list[int]]) -> Pair:
    return lambda b, h, i, j: ids[b][i] == ids[b][j] and ids[b][i] >= 0


MASKS: dict[str, Case] = {
    "none": Case(None, lambda b, h, i, j: True),
    "full": Case(Full(), lambda b, h, i, j: True),
    "causal": Case(Causal(), lambda b, h, i, j: j <= i, causal=True),
    "window": Case(Window(3), lambda b, h, i, j: i - 3 <= j <= i, causal=True),
    "both sides": Case(Window(2, 1), lambda b, h, i, j: i - 2 <= j <= i + 1),
    "ahead": Case(Window(0, None), lambda b, h, i, j: j >= i),
    "dilated": Case(Dilated(3), lambda b, h, i, j: (i - j) % 3 == 0),
    "dilated window": Case(
        Window(6) & Dilated(2), lambda b, h, i, j: 0 <= i - j <= 6 and (i - j) % 2 == 0, causal=True
    ),
    "global": Case(Global([0, 5]), lambda b, h, i, j: i in (0, 5) or j in (0, 5)),
    "global table": Case(
        Global(torch.tensor(MEMBERS)), lambda b, h, i, j: MEMBERS[b][i] or MEMBERS[b][j]
    ),
    "prefix": Case(Prefix(4), lambda b, h, i, j: j < 4),
    "prefix language model": Case(
        Causal() | Prefix(torch.tensor([4, 1])), lambda b, h, i, j: j <= i or j < (4, 1)[b]
    ),
    "documents": Case(Documents(torch.tensor(IDS)), _same([IDS] * B)),
    "packed": Case(
        Causal() & Documents(torch.tensor(IDS), packed=True),
        lambda b, h, i, j: j <= i and IDS[i] == IDS[j] >= 0,
        causal=True,
    ),
    "documents of two": Case(Documents(torch.tensor(TWO_IDS)), _same(TWO_IDS)),
    "lengths": Case(Padding(torch.tensor(LENGTHS)), lambda b, h, i, j: j < LENGTHS[b]),
    "keep": Case(Padding(torch.tensor(KEEP)), lambda b, h, i, j: KEEP[b][j]),
    "blocks": Case(Blocks(torch.tensor(TABLE), 4), lambda b, h, i, j: TABLE[i // 4][j // 4]),
    "random blocks": Case(DRAWN, lambda b, h, i, j: _drawn(i, j)),
    "edges": Case(Edges(EDGES, (N, N)), lambda b, h, i, j: (i, j) in PAIRS),
    "dense": Case(Dense(torch.tensor(DENSE)), lambda b, h, i, j: DENSE[b][h][i][j]),
    "where": Case(
        Where(lambda b, h, i, j: (i + j + h) % 3 != b), lambda b, h, i, j: (i + j + h) % 3 != b
    ),
    "not": Case(
        ~Window(2) & ~Padding(torch.tensor(KEEP)),
        lambda b, h, i, j: not (i - 2 <= j <= i) and not KEEP[b][j],
    ),
    "nothing": Case(Causal() & ~Causal(), lambda b, h, i, j: False, causal=True),
    "longformer": Case(longformer(1, [2]), lambda b, h, i, j: abs(i - j) <= 1 or i == 2 or j == 2),
    "bigbird": Case(
        bigbird(1, [2], 1, 3, seed=7),
        lambda b, h, i, j: abs(i - j) <= 1 or i == 2 or j == 2 or _drawn(i, j),
    ),
}

Added = Callable[[Tensor, float], Tensor | float]  # (q, scale) → [B, H, N, N], or a number


def _bucket(distance: int, buckets: int, farthest: int) -> int:
    """T5's bucket of j − i, both directions, in words: half exact, half logarithmic."""
    buckets //= 2
    first = buckets if distance > 0 else 0
    distance, exact = abs(distance), buckets // 2
    if distance < exact:
        return first + distance
    far = math.log(distance / exact) / math.log(farthest / exact) * (buckets - exact)
    return first + min(exact + int(far), buckets - 1)


SLOPES = _random(11, H, grad=True)
T5 = _random(12, 8, H, grad=True)
SHAW = _random(13, H, 5, 7, grad=True)
EDGE_VALUES = _random(14, EDGES.shape[1], H, grad=True)
BIAS_TABLE = _random(15, B, H, N, N, grad=True)


def _each(fn: Callable[[int, int], int]) -> Tensor:
    """Int[N, N], asked pair by pair (i, j)."""
    return torch.tensor([[fn(i, j) for j in range(N)] for i in range(N)])


FAR = _each(lambda i, j: abs(i - j))
BUCKETS = _each(lambda i, j: _bucket(j - i, 8, 16))
CLIPPED = _each(lambda i, j: min(max(j - i, -2), 2) + 2)


def _shaw(q: Tensor, scale: float) -> Tensor:
    """scale · q_i · r_clip(j − i), the relative embeddings laid out for every pair."""
    return scale * (q[:, :, :, None] * SHAW[:, CLIPPED]).sum(-1)


def _edges_joined(q: Tensor, scale: float) -> Tensor:
    """For each pair the logsumexp of the values of its edges, 0 where there is none."""
    rows = torch.zeros(N, N, H, dtype=torch.float64)
    for i, j in PAIRS:
        same = [e for e, (k, r) in enumerate(EDGES.T.tolist()) if (r, k) == (i, j)]
        spot = torch.zeros(N, N, 1, dtype=torch.float64)
        spot[i, j] = 1.0
        rows = rows + spot * EDGE_VALUES[same].logsumexp(0)
    return rows.permute(2, 0, 1)


BIASES: dict[str, tuple[Bias | None, Added]] = {
    "none": (None, lambda q, s: 0.0),
    "alibi": (Alibi(SLOPES), lambda q, s: -SLOPES[:, None, None] * FAR),
    "t5": (T5Bias(T5, farthest=16), lambda q, s: T5[BUCKETS].permute(2, 0, 1)),
    "shaw": (Shaw(SHAW), _shaw),
    "edge": (EdgeBias(Edges(EDGES, (N, N)), EDGE_VALUES, merge="logsumexp"), _edges_joined),
    "dense": (DenseBias(BIAS_TABLE), lambda q, s: BIAS_TABLE),
    "sum": (
        Alibi(SLOPES) + DenseBias(BIAS_TABLE),
        lambda q, s: BIAS_TABLE - SLOPES[:, None, None] * FAR,
    ),
}

D = 7
SINK = _random(21, H, grad=True)
W = _random(22, H, D, D, grad=True)
ADD_V = _random(23, 5, grad=True)
ADD_Q, ADD_K = _random(24, D, 5, grad=True), _random(25, D, 5, grad=True)
GAT_Q, GAT_K = _random(26, H, D, grad=True), _random(27, H, D, grad=True)
_GRAPH = Edges(EDGES, (N, N))
GAT_A = _random(28, H, D, grad=True)
GAT_EDGE = _random(29, EDGES.shape[1], H, 1, grad=True)
GAT_FEATURES = _random(30, EDGES.shape[1], H, D, grad=True)


Compared = Callable[[Tensor, Tensor], Tensor]  # q [B, H, N, 1, D], k [B, H, 1, N, D] → [B, H, N, N]


def _dot(q: Tensor, k: Tensor) -> Tensor:
    return (q * k).sum(-1)


def _cosine(q: Tensor, k: Tensor) -> Tensor:
    return (q * k).sum(-1) / (q.norm(dim=-1) * k.norm(dim=-1))


def _bilinear(q: Tensor, k: Tensor) -> Tensor:
    return (q[..., :, None] * W[:, None, None] * k[..., None, :]).sum((-1, -2))


def _additive(q: Tensor, k: Tensor) -> Tensor:
    return (ADD_V * (q @ ADD_Q + k @ ADD_K).tanh()).sum(-1)


def _leaky(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.2 * x)


def _features(values: Tensor) -> Tensor:
    """[H, N, N, A]: for each pair the sum of the values of its edges, 0 where there is none."""
    rows = torch.zeros(N, N, *values.shape[1:], dtype=torch.float64)
    for e, (k, r) in enumerate(EDGES.T.tolist()):
        spot = torch.zeros(N, N, 1, 1, dtype=torch.float64)
        spot[r, k] = 1.0
        rows = rows + spot * values[e]
    return rows.permute(2, 0, 1, 3)


def _gat(q: Tensor, k: Tensor) -> Tensor:
    a = torch.cat([GAT_Q, GAT_K], -1)[:, None, None]
    pairs = torch.cat([q.expand(-1, -1, -1, N, -1), k.expand(-1, -1, N, -1, -1)], -1)
    return _leaky((a * pairs).sum(-1) + _features(GAT_EDGE)[..., 0])


def _gatv2(q: Tensor, k: Tensor) -> Tensor:
    return (GAT_A[:, None, None] * _leaky(q + k + _features(GAT_FEATURES))).sum(-1)


SCORES: dict[str, tuple[Score, Compared, float]] = {
    "dot": (Dot(), _dot, D**-0.5),
    "capped": (Dot(scale=0.9, softcap=1.5), _dot, 0.9),
    "sink": (Dot(sink=SINK), _dot, D**-0.5),
    "cosine": (Cosine(scale=4.0), _cosine, 4.0),
    "bilinear": (Bilinear(weight=W), _bilinear, 1.0),
    "additive": (Additive(v=ADD_V, query=ADD_Q, key=ADD_K, sink=SINK), _additive, 1.0),
    "gat": (
        GAT(query=GAT_Q, key=GAT_K, edge=EdgeFeatures(_GRAPH, GAT_EDGE, merge="sum")),
        _gat,
        1.0,
    ),
    "gatv2": (
        GATv2(
            a=GAT_A, edge=EdgeFeatures(_GRAPH, GAT_FEATURES, merge="sum"), scale=0.7, softcap=2.0
        ),
        _gatv2,
        0.7,
    ),
}


@cache
def inputs(key_heads: int = H, values: int = D) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of a square call, float64, wanting gradients."""
    q = _random(31, B, H, N, D, grad=True)
    k = _random(32, B, key_heads, N, D, grad=True)
    return q, k, _random(33, B, key_heads, N, values, grad=True)


@cache
def allowed(mask: str) -> Tensor:
    """Bool[B, H, N, N], asked pair by pair."""
    says = MASKS[mask].says
    cells = [
        says(b, h, i, j) for b in range(B) for h in range(H) for i in range(N) for j in range(N)
    ]
    return torch.tensor(cells).view(B, H, N, N)


def logits(key_heads: int, bias: str, score: str) -> Tensor:
    """[B, H, N, N], by the formulas above, before any mask."""
    q, k, _ = inputs(key_heads)
    k = torch.stack([k[:, h // (H // key_heads)] for h in range(H)], 1)
    made, compare, scale = SCORES[score]
    x = scale * compare(q[:, :, :, None], k[:, :, None])
    x = x if made.softcap is None else made.softcap * torch.tanh(x / made.softcap)
    return x + BIASES[bias][1](q, scale)


def oracle(
    key_heads: int, mask: str, bias: str = "none", score: str = "dot"
) -> tuple[Tensor, Tensor]:
    """(out, lse) as the formula stands: exponentials of the allowed pairs over their sum."""
    v = inputs(key_heads)[2]
    v = torch.stack([v[:, h // (H // key_heads)] for h in range(H)], 1)
    sink = SCORES[score][0].sink
    shares = logits(key_heads, bias, score).exp() * allowed(mask)
    total = shares.sum(-1)
    total = total if sink is None else total + sink.exp()[:, None]
    safe = torch.where(total == 0, 1.0, total)
    return (shares / safe[..., None]) @ v, torch.where(total == 0, -torch.inf, safe.log())
