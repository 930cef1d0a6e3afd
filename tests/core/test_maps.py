"""Maps of weights and gradients, exact in any window at any resolution, in linear memory."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from atento.core import maps
from atento.core.attend import attend
from atento.core.biases import Alibi, DenseBias, Shaw, T5Bias
from atento.core.edges import Edges
from atento.core.maps import Map, attention_map
from atento.core.masks import Causal, Full, Prefix, Window, longformer
from atento.core.positions import Positions
from atento.core.scores import Additive, Bilinear, Cosine, Dot
from atento.core.tables import Dense, Documents, Padding, Where
from atento.core.tap import Tap
from core_oracle import EXACT, Largest, plain, plain_weights, qkv

B, H, Q, K, D, DV = 2, 3, 5, 7, 11, 13


class Weights(Tap):
    reads = frozenset({"weights"})

    def weights(self, site, weights: Tensor) -> None:
        self.found = weights


def dense_weights(q: Tensor, k: Tensor, **kw) -> Tensor:
    tap = Weights()
    attend(q, k, k.new_zeros(*k.shape[:3], 1), tap=tap, **kw)
    return tap.found


def calls() -> dict[str, dict]:
    g = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=g)

    table = torch.rand(B, H, Q, K, generator=g) < 0.5
    slots = Positions(torch.tensor([3, 1, 4, 2, 6]), torch.tensor([5, -1, 0, 3, 2, -1, 4]))
    edges = Edges(torch.tensor([[0, 6, 2, 2], [4, 0, 1, 4]]), (Q, K))
    return {
        "plain": {},
        "causal": {"mask": Causal(), "at": 2},
        "longformer": {"mask": longformer(1, [0]), "at": torch.tensor([0, 2])},
        "padding": {"mask": Padding(torch.tensor([3, 5]))},
        "documents": {"mask": Documents(torch.tensor([0, 0, 1, -1, 1, 0, 0])), "at": 2},
        "dense": {"mask": Dense(table)},
        "edges": {"mask": edges},
        "where": {"mask": Where(lambda b, h, i, j: j <= i + h), "at": 0},
        "nothing": {"mask": Prefix(0)},
        "slots": {"at": slots},
        "slots causal": {"mask": Causal(), "at": slots},
        "alibi": {"bias": Alibi.standard(H), "mask": Window(2, 2), "at": 1},
        "t5": {"bias": T5Bias(normal(8, H)), "at": slots},
        "shaw": {"bias": Shaw(normal(5, D)), "at": slots},
        "dense bias": {"bias": DenseBias(normal(Q, K)) + Alibi.standard(H), "at": 2},
        "softcap": {"score": Dot(softcap=1.5, scale=0.7), "mask": Causal(), "at": 2},
        "sink": {"score": Dot(sink=normal(H)), "mask": Causal(), "at": 0},
        "sink and nothing": {"score": Dot(sink=normal(H)), "mask": Prefix(0)},
        "cosine": {"score": Cosine(scale=4.0)},
        "bilinear": {"score": Bilinear(weight=normal(H, D, D))},
        "additive": {
            "score": Additive(v=normal(13), query=normal(D, 13), key=normal(D, 13)),
            "mask": Causal(),
            "at": 1,
        },
    }


CALLS = calls()


@pytest.fixture(params=[None, 1, 100], ids=["whole", "1", "100"])
def at_once(request, monkeypatch):
    """Few scores at once, so that every loop is taken more than once."""
    if request.param is not None:
        monkeypatch.setattr(maps, "AT_ONCE", request.param)


@pytest.mark.parametrize("kv", [H, 1])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("at_once")
def test_a_map_equals_the_dense_weights(name, kv):
    q, k, _ = qkv(kv=kv)
    expected = dense_weights(q, k, **CALLS[name])
    made = attention_map(q, k, **CALLS[name])
    assert made.shape == (B, H, Q, K)
    assert (made - expected).abs().max() < EXACT


def test_weights_are_those_of_plain_attention():
    q, k, v = qkv(kv=1)
    allow = Causal().dense(Q, K, at=2)
    made = attention_map(q, k, mask=Causal(), at=2)
    assert (made - plain_weights(q, k, allow)).abs().max() < EXACT
    out = plain(q, k, v, allow=allow)
    assert (made @ v.expand(B, H, K, DV) - out).abs().max() < EXACT


def pooled(weights: Tensor, tile: tuple[int, int], reduce: str, rows_full: Tensor) -> Tensor:
    """Tiles by two plain loops; rows_full: whether a row may attend to anything."""
    rows, cols = weights.shape[-2:]
    out = weights.new_zeros(B, H, math.ceil(rows / tile[0]), math.ceil(cols / tile[1]))
    for b, h in itertools.product(range(B), range(H)):
        for r, c in itertools.product(range(out.shape[2]), range(out.shape[3])):
            down = slice(r * tile[0], (r + 1) * tile[0])
            part = weights[b, h, down, c * tile[1] : (c + 1) * tile[1]]
            if reduce == "max":
                out[b, h, r, c] = part.abs().max()
            else:
                out[b, h, r, c] = part.sum() / max(int(rows_full[b, h, down].sum()), 1)
    return out


@pytest.mark.parametrize(
    "pool", [(1, 1), (2, 3), (5, 7), (3, 2), (1, 7), (5, 1), (11, 13)], ids=str
)
@pytest.mark.parametrize("name", ["plain", "dense", "slots causal", "shaw", "nothing", "additive"])
@pytest.mark.usefixtures("at_once")
def test_tiles_equal_pooled_dense_weights(name, pool):
    q, k, _ = qkv()
    weights = dense_weights(q, k, **CALLS[name])
    full = weights.sum(-1) > 0
    mass, most = attention_map(q, k, pool=pool, reduce=("mass", "max"), **CALLS[name])
    assert (mass - pooled(weights, pool, "mass", full)).abs().max() < EXACT
    assert (most - pooled(weights, pool, "max", full)).abs().max() < EXACT


@pytest.mark.parametrize(
    ("rows", "cols"), [((1, 4), (2, 7)), ((0, 5), (3, 4)), ((4, 5), (0, 7)), ((2, 2), (0, 7))]
)
@pytest.mark.parametrize("pool", [None, 2, (3, 1)], ids=str)
@pytest.mark.parametrize("name", ["longformer", "dense", "slots causal", "t5", "sink"])
@pytest.mark.usefixtures("at_once")
def test_a_window_is_cut_from_the_whole_map(name, pool, rows, cols):
    q, k, _ = qkv()
    whole = dense_weights(q, k, **CALLS[name])
    full = (whole.sum(-1) > 0)[:, :, slice(*rows)]
    part = whole[:, :, slice(*rows), slice(*cols)]
    tile = (1, 1) if pool is None else (pool, pool) if isinstance(pool, int) else pool
    made = attention_map(q, k, rows=rows, cols=cols, pool=pool, **CALLS[name])
    assert made.shape[2] == math.ceil((rows[1] - rows[0]) / min(tile[0], max(rows[1] - rows[0], 1)))
    if made.numel():
        assert (made - pooled(part, tile, "mass", full)).abs().max() < EXACT


def test_spans_are_slices_ranges_or_pairs():
    q, k, _ = qkv()
    expected = attention_map(q, k)[:, :, 1:4, 2:]
    for rows, cols in (((1, 4), (2, 7)), (slice(1, 4), slice(2, None)), (range(1, 4), range(2, 7))):
        assert torch.equal(attention_map(q, k, rows=rows, cols=cols), expected)
    assert torch.equal(attention_map(q, k, rows=slice(-4, -1), cols=slice(-5, None)), expected)


@pytest.mark.parametrize("pool", [None, 2, (3, 4)], ids=str)
@pytest.mark.parametrize("name", [n for n in CALLS if "sink" not in n])
@pytest.mark.usefixtures("at_once")
def test_a_row_of_tiles_sums_to_one_or_is_empty(name, pool):
    q, k, _ = qkv()
    sums = attention_map(q, k, pool=pool, **CALLS[name]).sum(-1)
    assert ((sums - 1).abs().minimum(sums.abs()) < EXACT).all()
    if name in ("plain", "causal", "slots"):
        assert (sums > 0.5).all()


@pytest.mark.usefixtures("at_once")
def test_a_sink_takes_its_part_of_a_row_of_tiles():
    q, k, _ = qkv()
    sink = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    sums = attention_map(q, k, score=Dot(sink=sink), pool=(1, 3)).sum(-1)
    assert (sums - plain_weights(q, k, sink=sink).sum(-1)).abs().max() < EXACT
    assert (sums < 1).all()


def test_a_single_needle_shows_in_the_largest_weight():
    q, k = torch.zeros(1, 1, 64, 8), torch.zeros(1, 1, 64, 8)
    q[..., 37, 0], k[..., 21, 0] = 30.0, 30.0
    mass, most = attention_map(q, k, pool=16, reduce=("mass", "max"))
    assert most[0, 0, 2, 1] > 0.99
    assert mass[0, 0, 2, 1] < 0.4
    assert (most.flatten().sort().values[:-1] < 0.05).all()


# The gradient map


@pytest.mark.parametrize("kv", [H, 1])
@pytest.mark.parametrize(
    "name", ["plain", "causal", "dense", "slots causal", "shaw", "sink", "edges"]
)
@pytest.mark.usefixtures("at_once")
def test_the_gradient_map_equals_autograds_on_the_weights(name, kv):
    q, k, v = qkv(kv=kv)
    grad = torch.randn(B, H, Q, DV, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    class Leaf(Tap):
        reads = frozenset({"weights"})

        def weights(self, site, weights: Tensor) -> Tensor:
            self.found = weights.detach().requires_grad_()
            return self.found

    tap = Leaf()
    attend(q, k, v, tap=tap, **CALLS[name]).backward(grad)
    made = attention_map(q, k, v=v, grad=grad, **CALLS[name])
    assert isinstance(made, Map)
    allowed = tap.found > 0
    assert (made.weights - tap.found.detach()).abs().max() < EXACT
    assert (made.gradient - torch.where(allowed, tap.found.grad, 0.0)).abs().max() < EXACT


@pytest.mark.parametrize("pool", [2, (3, 4)], ids=str)
@pytest.mark.usefixtures("at_once")
def test_the_gradient_map_is_pooled_as_the_weights_are(pool):
    q, k, v = qkv()
    grad = torch.randn(B, H, Q, DV, dtype=torch.float64)
    kw = {"mask": Causal(), "at": 1, "v": v, "grad": grad}
    whole = attention_map(q, k, **kw)
    full = torch.ones(B, H, Q, dtype=torch.bool)
    tile = (pool, pool) if isinstance(pool, int) else pool
    made = attention_map(q, k, pool=pool, reduce=("mass", "max"), **kw)
    for n, reduce in enumerate(("mass", "max")):
        assert (made.weights[n] - pooled(whole.weights, tile, reduce, full)).abs().max() < EXACT
        assert (made.gradient[n] - pooled(whole.gradient, tile, reduce, full)).abs().max() < EXACT


# Forms and memory


def test_one_reduction_comes_alone_and_several_as_a_tuple():
    q, k, _v = qkv()
    assert isinstance(attention_map(q, k), Tensor)
    assert isinstance(attention_map(q, k, reduce="max"), Tensor)
    assert [type(x) for x in attention_map(q, k, reduce=("max",))] == [Tensor]
    mass, most = attention_map(q, k, pool=2, reduce=("mass", "max"))
    most_first = attention_map(q, k, pool=2, reduce=["max", "mass"])
    assert torch.equal(most_first[0], most)
    assert torch.equal(most_first[1], mass)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_maps_of_half_precision_are_made_in_float32(dtype):
    q, k, _ = (x.to(dtype) for x in qkv())
    made = attention_map(q, k, mask=Causal(), at=2)
    assert made.dtype == torch.float32
    expected = plain_weights(q.double(), k.double(), Causal().dense(Q, K, at=2))
    assert (made - expected).abs().max() < 1e-5


def test_maps_record_no_gradient():
    q, k, _ = (x.requires_grad_() for x in qkv())
    assert not attention_map(q, k).requires_grad


def test_a_map_of_no_query_or_no_key_is_empty():
    q, k, _ = qkv()
    assert attention_map(q[:, :, :0], k, pool=2).shape[2] == 0
    assert attention_map(q, k[:, :, :0], pool=2).shape[3] == 0


@pytest.mark.parametrize(
    "mask",
    [None, Full(), Causal(), Window(63), longformer(31, [0]), Documents(torch.arange(8192) // 100)],
    ids=str,
)
def test_memory_is_linear_in_the_length(mask, monkeypatch):
    monkeypatch.setattr(maps, "AT_ONCE", 2**15)
    largest = {}
    for length in (1024, 4096):
        x = torch.randn(1, 2, length, 4)
        with Largest() as seen:
            attention_map(x, x, mask=mask, pool=length // 8, rows=(64, 192))
        largest[length] = seen.numel
    assert largest[4096] <= max(4 * largest[1024], 2**15)
    assert largest[4096] <= 2**16  # 2 · 128 · 4096 weights would be 2²⁰


def test_a_window_of_a_long_sequence_costs_the_window():
    x = torch.randn(1, 1, 2**15, 4)
    with Largest() as seen:
        made = attention_map(x, x, mask=Causal(), rows=(2**15 - 8, 2**15), cols=(100, 130))
    assert made.shape == (1, 1, 8, 30)
    assert seen.numel <= 8 * 2**15


# Errors


@pytest.mark.parametrize(
    ("kw", "match"),
    [
        ({"pool": 0}, r"pool must be an int ≥ 1 or \(rows, cols\).*got 0"),
        ({"pool": (2, 3, 4)}, r"pool must be"),
        ({"pool": True}, r"pool must be"),
        ({"pool": 2.0}, r"pool must be"),
        ({"rows": (3, 9)}, r"rows must be a span.*0…5.*got \(3, 9\)"),
        ({"rows": (-1, 3)}, r"rows must be a span"),
        ({"cols": (5, 3)}, r"cols must be a span.*0…7"),
        ({"cols": range(0, 6, 2)}, r"cols must be a span.*step 1"),
        ({"rows": slice(None, None, -1)}, r"rows must be a span"),
        ({"rows": 3}, r"rows must be a span.*got 3"),
        ({"cols": (1, 2, 3)}, r"cols must be a span"),
        ({"reduce": "sum"}, r"reduce must be 'mass', 'max'.*sum"),
        ({"reduce": ()}, r"reduce must be"),
        ({"v": torch.zeros(B, H, K, DV).double()}, r"both v and grad"),
        ({"grad": torch.zeros(B, H, Q, DV).double()}, r"both v and grad"),
        (
            {"v": torch.zeros(B, H, K, DV).double(), "grad": torch.zeros(B, H, Q, 2).double()},
            r"grad must be the output's gradient.*\[2, 3, 5, 13\]; got \[2, 3, 5, 2\]",
        ),
        ({"mask": Causal()}, "at is needed"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(kw, match):
    q, k, _ = qkv()
    with pytest.raises((TypeError, ValueError), match=match):
        attention_map(q, k, **kw)
