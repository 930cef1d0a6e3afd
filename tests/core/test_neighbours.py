"""The path `edges`: a graph is a mask, and what is not an edge is neither computed nor held."""

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from atento.core import edge_work, segments
from atento.core.attend import attend, attend_lse, explain
from atento.core.biases import Alibi, EdgeBias, Shaw
from atento.core.edges import Edges
from atento.core.graph_scores import GAT, EdgeFeatures, GATv2
from atento.core.maps import attention_map
from atento.core.masks import Causal, Window
from atento.core.positions import Positions
from atento.core.scores import Additive, Bilinear, Cosine, Dot, Score
from atento.core.tables import Dense, Padding
from core_oracle import EXACT, Largest

B, H, Q, K, D, DV, E = 2, 3, 13, 17, 5, 7, 41


def drawn(seed: int, *shape: int) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=source)


def graph(seed: int, distinct: bool = False) -> Tensor:
    """Int[2, E] with self-loops and duplicates, in no order; the last queries are isolated."""
    source = torch.Generator().manual_seed(seed)
    index = torch.stack([torch.randint(n, (E,), generator=source) for n in (K, Q - 2)])
    index = torch.cat([index, torch.arange(5).expand(2, -1), index[:, :3]], 1)
    if distinct:
        index = index.unique(dim=1)
        index = index[:, torch.randperm(index.shape[1], generator=source)]
    return index


def qkv(key_heads: int = H) -> tuple[Tensor, Tensor, Tensor]:
    made = drawn(1, B, H, Q, D), drawn(2, B, key_heads, K, D), drawn(3, B, key_heads, K, DV)
    return tuple(x.requires_grad_() for x in made)  # type: ignore[return-value]


def scores(index: Tensor, merge: str | None) -> dict[str, Score]:
    edges, count = Edges(index, (Q, K)), index.shape[1]
    return {
        "dot": Dot(sink=drawn(4, H)),
        "cosine": Cosine(scale=3.0),
        "bilinear": Bilinear(weight=drawn(5, H, D, D), softcap=1.5),
        "gat": GAT(query=drawn(6, H, D), key=drawn(7, D)),
        "gat of edges": GAT(
            query=drawn(6, D),
            key=drawn(7, H, D),
            edge=EdgeFeatures(edges, drawn(8, count, 1), merge),
            softcap=2.0,
        ),
        "gatv2": GATv2(a=drawn(9, D), slope=0.1),
        "gatv2 of edges": GATv2(
            a=drawn(9, H, D), edge=EdgeFeatures(edges, drawn(10, count, H, D), merge)
        ),
    }


def learned(score: Score) -> list[Tensor]:
    from atento.core.structure import leaves

    return [x.requires_grad_() for x in leaves(score) if x.is_floating_point()]


NAMES = list(scores(graph(0), "sum"))


@pytest.mark.parametrize("merge", [None, "sum", "max", "logsumexp"])
@pytest.mark.parametrize("name", NAMES)
def test_edges_equal_the_dense_reference(name: str, merge: str | None) -> None:
    index = graph(11, distinct=merge is None)
    edges, score = Edges(index, (Q, K)), scores(index, merge)[name]
    values = drawn(12, index.shape[1], H).requires_grad_()
    for bias in (None, EdgeBias(edges, values, merge), EdgeBias(edges, values, merge) + TWO_SIDED):
        given = {"mask": edges, "bias": bias, "score": score, "at": 0}
        inputs = qkv(1 if merge == "sum" else H)
        sources = [*inputs, *learned(score)]
        found = []
        for path in ("edges", "reference"):
            out, lse = attend_lse(*inputs, path=path, **given)  # type: ignore[arg-type]
            safe = lse.masked_fill(lse == -torch.inf, 0.0)
            pulled = (out * drawn(13, *out.shape)).sum() + (safe * drawn(14, *lse.shape)).sum()
            more = [] if bias is None else [values]
            found.append((out, lse, *torch.autograd.grad(pulled, [*sources, *more])))
        for x, y in zip(*found, strict=True):
            assert x.isnan().sum() == 0
            assert torch.where(x == y, 0.0, x - y).abs().max() <= 10 * EXACT
        assert (found[0][0] - found[1][0]).abs().max() <= EXACT
        if score.sink is None:
            assert (found[0][0][:, :, -2:] == 0).all()  # isolated


TWO_SIDED = Alibi(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)) + Shaw(drawn(15, H, 5, D))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_edges_pass_gradcheck(name: str) -> None:
    index = graph(21)[:, :9]
    score = scores(index, "sum")[name]
    learned(score)
    small = tuple(x.detach()[:1].requires_grad_() for x in qkv(1))

    def call(*x: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = attend_lse(*x, mask=Edges(index, (Q, K)), score=score, path="edges")
        return out, lse.masked_fill(lse == -torch.inf, 0.0)

    assert torch.autograd.gradcheck(call, small)


def test_slabs_and_runs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    index = graph(31)
    for score in scores(index, "sum").values():
        given = {"mask": Edges(index, (Q, K)), "score": score, "path": "edges"}
        inputs = qkv(1)

        def both(inputs: tuple[Tensor, ...] = inputs, given: dict = given) -> list[Tensor]:
            out = attend(*inputs, **given)
            return [out, *torch.autograd.grad(out.sin().sum(), inputs)]

        whole = both()
        with monkeypatch.context() as patch:
            patch.setattr(edge_work, "AT_ONCE", 1)
            patch.setattr(segments, "AT_ONCE", 64)
            for x, y in zip(both(), whole, strict=True):
                assert (x - y).abs().max() <= EXACT


def test_machines_without_sparse_kernels_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, index = qkv(1), graph(41)
    found = []
    for has in (True, False):
        monkeypatch.setattr(segments, "_kernels", lambda device, dtype, has=has: has)
        out = attend(*inputs, mask=Edges(index, (Q, K)), path="edges")
        found.append((out, *torch.autograd.grad(out.sin().sum(), inputs)))
    for x, y in zip(*found, strict=True):
        assert (x - y).abs().max() <= EXACT


def test_other_masks_are_honoured_where_they_are_joined() -> None:
    q, k, v = qkv()
    edges = Edges(graph(51), (Q, K))
    also = Edges(graph(52), (Q, K))
    place = Positions(torch.arange(Q).flip(0), torch.arange(K).masked_fill(torch.arange(K) < 3, -1))
    dense = Dense(drawn(53, B, H, Q, K) > 0)
    for mask in (
        edges & Causal(),
        edges & ~Window(2, 1) & Padding(torch.tensor([9, 0])),
        edges & also,
        dense & edges,
    ):
        for at in (0, place):
            assert explain(q, k, v, mask=mask, at=at).path == "edges"
            found, exact = (
                attend_lse(q, k, v, mask=mask, at=at, path=p) for p in ("edges", "reference")
            )
            for x, y in zip(found, exact, strict=True):
                assert torch.where(x == y, 0.0, x - y).abs().max() <= EXACT


@pytest.mark.parametrize(
    ("mask", "score", "why"),
    [
        (Causal(), Dot(), "no list"),
        (None, Dot(), "no list"),
        (Edges(graph(0), (Q, K)) | Causal(), Dot(), "no list"),
        (~Edges(graph(0), (Q, K)), Dot(), "no list"),
        (Edges(graph(0), (Q, K)), Additive(v=torch.zeros(D).double()), "no form for edges"),
    ],
    ids=str,
)
def test_what_edges_cannot_honour_is_refused(mask, score, why) -> None:
    q, k, v = qkv()
    with pytest.raises(ValueError, match=why):
        attend(q, k, v, mask=mask, score=score, at=0, path="edges")
    told = explain(q, k, v, mask=mask, score=score, at=0)
    assert told.path != "edges"
    assert why in told.others["edges"]


def test_nodes_that_are_no_neighbours_get_exactly_nothing_on_a_ring() -> None:
    n = 11
    here = torch.arange(n)
    ring = Edges(
        torch.stack([torch.cat([here, here]), torch.cat([here - 1, here + 1]) % n]), (n, n)
    )
    q, k, v = (drawn(s, 1, H, n, D).requires_grad_() for s in (61, 62, 63))
    far = (here[:, None] - here).abs() % (n - 2) != 1
    for score in (Dot(), GAT(query=drawn(64, H, D), key=drawn(65, H, D)), GATv2(a=drawn(66, D))):
        dense_path = "sdpa" if score.is_dot else "reference"
        out, dense = (
            attend(q, k, v, mask=ring, score=score, path=p) for p in ("edges", dense_path)
        )
        assert (out - dense).abs().max() <= EXACT
        weights = attention_map(q, k, mask=ring, score=score)
        assert (weights[..., far] == 0).all()
        assert (weights[..., ~far] > 0).all()
        for receiver in (0, 4):
            dk, dv = torch.autograd.grad(out[:, :, receiver].sum(), (k, v), retain_graph=True)
            assert (dk[:, :, far[receiver]] == 0).all()
            assert (dv[:, :, far[receiver]] == 0).all()
            assert (dv[:, :, ~far[receiver]] != 0).all()


@pytest.mark.parametrize("name", ["dot", "gat", "gatv2"])
def test_memory_is_linear_in_the_edges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # No table of queries × keys, nor of edges × heads × width: the largest tensor says so.
    seen = Largest()

    def watched(method):  # a mode does not look into an operator of torch.library from outside
        def inside(*given):
            with seen:
                return method(*given)

        return inside

    for method in ("forward", "backward"):
        monkeypatch.setattr(edge_work.Work, method, watched(getattr(edge_work.Work, method)))

    def largest(nodes: int, count: int) -> int:
        index = torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(count))
        q, k, v = (torch.randn(1, 2, nodes, 16, requires_grad=True) for _ in range(3))
        a = torch.randn(2, 16)
        score = {"dot": Dot(), "gat": GAT(query=a, key=a), "gatv2": GATv2(a=a)}[name]
        edges = Edges(index, (nodes, nodes))
        seen.numel = 0
        with Largest() as outside:
            torch.autograd.grad(attend(q, k, v, mask=edges, score=score).sum(), (q, k, v))
        return max(seen.numel, outside.numel)

    for nodes, count in ((1000, 64_000), (1000, 128_000), (4000, 256_000)):
        held = largest(nodes, count)
        assert 2 * count <= held <= max(2 * count, 2 * 16 * nodes, segments.AT_ONCE)
        assert held < nodes * nodes
    assert any("sparse" in name or "addmm" in name or "index_select" in name for name in seen.names)


def test_dropout_of_edges_keeps_the_mean_repeats_with_the_seed_and_has_its_gradients() -> None:
    q, k, _ = (x.detach() for x in qkv())
    edges, ones = Edges(graph(71), (Q, K)), torch.ones(B, H, K, 1, dtype=torch.float64)

    def dropped(v: Tensor, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return attend(q, k, v, mask=edges, dropout=0.25, path="edges")

    assert torch.equal(dropped(ones, 3), dropped(ones, 3))
    sums = torch.stack([dropped(ones, seed) for seed in range(400)])[:, :, :, edges.index[1]]
    assert ((sums - 1).abs() > 1e-3).any()
    assert (sums.mean(0) - 1).abs().max() < 0.15

    def call(*x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend(*x, mask=edges, dropout=0.25, path="edges")

    assert torch.autograd.gradcheck(call, tuple(x.detach()[:1].requires_grad_() for x in qkv(1)))


def test_checkpointed_graphs_have_the_same_gradients() -> None:
    inputs, edges = qkv(), Edges(graph(81), (Q, K))
    score = GAT(query=drawn(82, H, D), key=drawn(83, H, D))

    def call(*x: Tensor) -> Tensor:
        return attend(*x, mask=edges, score=score, dropout=0.25)

    found = []
    for run in (call, lambda *x: checkpoint(call, *x, use_reentrant=False)):
        torch.manual_seed(3)
        found.append(torch.autograd.grad(run(*inputs).sin().sum(), inputs))
    for x, y in zip(*found, strict=True):
        assert torch.equal(x, y)


def test_graphs_without_edges_nodes_or_duplicates_are_empty_not_wrong() -> None:
    q, k, v = qkv()
    none = Edges(torch.zeros(2, 0, dtype=torch.long), (Q, K))
    out, lse = attend_lse(q, k, v, mask=none)
    assert explain(q, k, v, mask=none).path == "edges"
    assert (out == 0).all()
    assert (lse == -torch.inf).all()
    assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), (q, k, v)))
    empty = torch.zeros(1, 2, 0, 3)
    nobody = Edges(torch.zeros(2, 0, dtype=torch.long), (0, 0))
    assert attend(empty, empty, empty, mask=nobody).shape == (1, 2, 0, 3)


def test_half_precision_is_computed_in_float32() -> None:
    q, k, v = (x.detach().bfloat16() for x in qkv())
    edges = Edges(graph(91), (Q, K))
    out, lse = attend_lse(q, k, v, mask=edges)
    exact, exact_lse = attend_lse(q.double(), k.double(), v.double(), mask=edges)
    assert out.dtype == torch.bfloat16
    assert lse.dtype == torch.float32
    assert (out.double() - exact).abs().max() < 2e-2
    assert torch.where(lse == exact_lse, 0.0, lse - exact_lse).abs().max() < 1e-5


def test_great_logits_do_not_overflow() -> None:
    q, k, v = (x.detach() for x in qkv())
    edges = Edges(graph(95), (Q, K))
    found, exact = (attend_lse(1e3 * q, k, v, mask=edges, path=p) for p in ("edges", "reference"))
    for x, y in zip(found, exact, strict=True):
        assert torch.where(x == y, 0.0, x - y).abs().max() <= 1e-9


def test_what_is_wrong_with_features_of_edges_is_said() -> None:
    q, k, v = qkv()
    edges = Edges(graph(97), (Q, K))
    count = edges.index.shape[1]
    a = drawn(1, D)
    wide = EdgeFeatures(edges, drawn(1, count, D + 1), merge="sum")
    with pytest.raises(ValueError, match=rf"GATv2\(edge\) must have values \[E, {D}\]"):
        attend(q, k, v, mask=edges, score=GATv2(a=a, edge=wide))
    with pytest.raises(ValueError, match=r"twice.*merge="):
        EdgeFeatures(edges, drawn(1, count, D))
    with pytest.raises(
        ValueError, match=rf"\[E, A\] or \[E, H, A\] with E = {count}; got \[3, 5\]"
    ):
        EdgeFeatures(edges, drawn(1, 3, D))
    with pytest.raises(TypeError, match="takes an Edges; got Tensor"):
        EdgeFeatures(graph(0), drawn(1, count, D))
    with pytest.raises(ValueError, match=r"GAT\(key\) must be Float\[D\].*D = 5, H = 3; got None"):
        attend(q, k, v, mask=edges, score=GAT(query=a))
    with pytest.raises(ValueError, match=r"GATv2\(a\).*got \[4\]"):
        attend(q, k, v, mask=edges, score=GATv2(a=drawn(1, 4)))
    with pytest.raises(ValueError, match="edge must be EdgeFeatures"):
        attend(q, k, v, mask=edges, score=GATv2(a=a, edge=a))  # type: ignore[arg-type]
    turned = EdgeFeatures(Edges(graph(97).flip(0), (K, Q)), drawn(1, count, D), merge="sum")
    with pytest.raises(ValueError, match=r"edge has shape \(queries, keys\) = \(17, 13\)"):
        attend(q, k, v, mask=edges, score=GATv2(a=a, edge=turned))


def test_the_operator_is_a_proper_one() -> None:
    q, k, v = (x.float().detach().requires_grad_() for x in qkv())
    edges = Edges(graph(99), (Q, K))
    a = torch.randn(H, D, requires_grad=True)
    bias = torch.randn(edges.index.shape[1], 1, H, requires_grad=True)
    torch.library.opcheck(
        torch.ops.atento.neighbours.default,
        ([q, k, v], a, None, bias, [*edges.adjacency[2:7]], 1.0, 0.2, None, 0.0, None),
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_graphs_compile_into_one_graph_and_are_exported() -> None:
    edges = Edges(graph(101), (Q, K))
    features = EdgeFeatures(edges, torch.randn(edges.index.shape[1], D), merge="sum")
    q, k, v = (x.float().detach().requires_grad_() for x in qkv())

    class Graph(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
            return attend(q, k, v, mask=edges, score=GATv2(a=a, edge=features), path="edges")

    a = torch.randn(H, D, requires_grad=True)
    module = Graph()
    compiled = torch.compile(module, fullgraph=True)
    found, exact = (
        (x, *torch.autograd.grad(x.sin().sum(), (q, k, v, a)))
        for x in (compiled(q, k, v, a), module(q, k, v, a))
    )
    for x, y in zip(found, exact, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-5)
    plain = tuple(x.detach() for x in (q, k, v, a))
    program = torch.export.export(module, plain)
    torch.testing.assert_close(program.module()(*plain), exact[0].detach(), rtol=0, atol=1e-5)
