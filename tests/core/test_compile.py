"""Compiled `attend`: one graph, few recompilations, the same numbers."""

import random

import pytest
import torch
import torch._dynamo as dynamo
from torch import nn

from atento.core.attend import attend
from atento.core.biases import Alibi, EdgeBias
from atento.core.cache import StaticCache
from atento.core.edges import Edges
from atento.core.masks import Causal, Window
from atento.core.positions import Positions
from atento.core.tables import Documents

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]


def inputs(length: int) -> list[torch.Tensor]:
    torch.manual_seed(length)
    return [torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3)]


def test_random_lengths_recompile_at_most_twice() -> None:
    dynamo.reset()
    dynamo.utils.counters.clear()
    window = Window(63)
    compiled = torch.compile(lambda q, k, v: attend(q, k, v, mask=window), fullgraph=True)
    chance = random.Random(0)
    for length in [3474, *(chance.randint(2, 4096) for _ in range(40))]:
        qkv = inputs(length)
        out = compiled(*qkv)
        exact = attend(*(x.detach().double() for x in qkv), mask=window)
        assert (out.detach().double() - exact).abs().max() < 1e-5
        assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), qkv))
    assert dynamo.utils.counters["stats"]["unique_graphs"] <= 3
    assert not dynamo.utils.counters["graph_break"]


@pytest.mark.parametrize("path", ["auto", "reference", "sdpa", "chunked"])
def test_every_path_compiles_into_one_graph(path: str) -> None:
    dynamo.reset()
    q, k, v = (x.detach() for x in inputs(131))
    ids, slopes = torch.arange(131) // 40, torch.tensor([0.5, 0.25])
    at = Positions(torch.arange(131), torch.arange(131).flip(0))

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = Causal() & Documents(ids)
        return attend(q, k, v, mask=mask, bias=Alibi(slopes), at=at, path=path)

    found = torch.compile(call, fullgraph=True)(q, k, v)
    torch.testing.assert_close(found, call(q, k, v), rtol=0, atol=1e-5)


def test_an_exported_window_takes_any_length() -> None:
    class Windowed(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return attend(q, k, v, mask=Window(3))

    length = torch.export.Dim("n", min=2, max=4096)
    given = tuple(x.detach() for x in inputs(64))
    program = torch.export.export(Windowed(), given, dynamic_shapes=({2: length},) * 3)
    for n in (5, 300, 2000):
        q, k, v = (x.detach() for x in inputs(n))
        found, exact = program.module()(q, k, v), attend(q, k, v, mask=Window(3))
        torch.testing.assert_close(found, exact, rtol=0, atol=1e-5)


def test_a_static_cache_decodes_in_compiled_code() -> None:
    dynamo.reset()
    cache, (q, k, v) = StaticCache(13), (x.detach() for x in inputs(11))

    def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys, values, at = cache.update(k, v)
        return attend(q, keys, values, mask=Causal(), at=at)

    compiled = torch.compile(step, fullgraph=True)
    with torch.no_grad():
        outs = [compiled(*(x[:, :, n : n + 1] for x in (q, k, v))) for n in range(11)]
    whole = attend(q, k, v, mask=Causal())
    torch.testing.assert_close(torch.cat(outs, 2), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked"])
def test_edges_with_values_compile(path: str) -> None:
    dynamo.reset()
    q, k, v = (x.detach() for x in inputs(23))
    edges = Edges(torch.randint(0, 23, (2, 50)), (23, 23))

    def call(q: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, bias=EdgeBias(edges, values, merge="sum"), path=path)

    found = torch.compile(call, fullgraph=True)(q, torch.ones(50))
    torch.testing.assert_close(found, call(q, torch.ones(50)), rtol=0, atol=1e-5)
