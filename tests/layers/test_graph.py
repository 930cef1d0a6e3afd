"""Layers of graphs equal their papers' formulas, node by node, and PyG's with PyG's weights."""

import pytest
import torch
from torch import Tensor, nn

from atento.core.edges import Edges
from atento.core.masks import Causal
from atento.core.tables import Dense
from atento.core.tap import Tap, tapped
from atento.layers.graph import (
    DotCompare,
    GATCompare,
    GATv2Compare,
    GraphAttention,
    GraphTransformer,
)

N, C, D, H, F = 13, 7, 5, 3, 2
EXACT = 1e-12


def drawn(seed: int, *shape: int) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=source)


def graph() -> Edges:
    """No duplicates, some self-loops, in no order; the last two nodes hear nobody."""
    source = torch.Generator().manual_seed(5)
    pairs = torch.stack([torch.randint(n, (29,), generator=source) for n in (N, N - 2)])
    index = torch.cat([pairs, torch.arange(3).expand(2, -1)], 1).unique(dim=1)
    return Edges(index[:, torch.randperm(index.shape[1], generator=source)], (N, N))


EDGES = graph()
X, FEATURES = drawn(1, N, C), drawn(2, EDGES.index.shape[1], F)
KINDS = {"gat": GATCompare, "gatv2": GATv2Compare, "dot": DotCompare}


def leaky(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.2 * x)


def score(compare: nn.Module, h: int, i: int, j: int, f: Tensor | None) -> Tensor:
    """Equation by equation, for one head, one receiver and one sender."""
    part = slice(h * D, (h + 1) * D)
    if isinstance(compare, GATCompare):
        wi, wj = ((compare.project.weight @ X[n])[part] for n in (i, j))
        inner = torch.cat([compare.query[h], compare.key[h]]) @ torch.cat([wi, wj])
        if f is not None:
            inner = inner + compare.edge[h] @ (compare.edge_project.weight @ f)[part]
        return leaky(inner)
    if isinstance(compare, GATv2Compare):
        hidden = (compare.query(X[i]) + compare.key(X[j]))[part]
        if f is not None:
            hidden = hidden + (compare.edge_project.weight @ f)[part]
        return compare.a[h] @ leaky(hidden)
    made = compare.query(X[i])[part] @ compare.key(X[j])[part] / D**0.5
    return made if f is None else made + compare.edge_bias.weight[h] @ f


def value(compare: nn.Module, h: int, j: int) -> Tensor:
    part = slice(h * D, (h + 1) * D)
    if isinstance(compare, GATCompare):
        return (compare.project.weight @ X[j])[part]
    return (compare.key if isinstance(compare, GATv2Compare) else compare.value)(X[j])[part]


def by_hand(compare: nn.Module, features: Tensor | None) -> Tensor:  # [N, H, D]
    out = torch.zeros(N, H, D, dtype=torch.float64)
    for i in range(N):
        near = [(e, int(j)) for e, (j, to) in enumerate(EDGES.index.T.tolist()) if to == i]
        for h in range(H if near else 0):
            given = [None if features is None else features[e] for e, _ in near]
            said = [score(compare, h, i, j, f) for (_, j), f in zip(near, given, strict=True)]
            share = torch.stack(said).exp() / torch.stack(said).exp().sum()
            out[i, h] = sum(a * value(compare, h, j) for a, (_, j) in zip(share, near, strict=True))
    return out


@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_equal_the_papers_formulas_node_by_node(kind: str, featured: bool) -> None:
    torch.manual_seed(3)
    compare = KINDS[kind](C, D, H, edge_width=F if featured else None).double()
    features = FEATURES if featured else None
    with torch.no_grad():
        hand = by_hand(compare, features)
        for averaged in (False, True):
            layer = GraphAttention(compare, averaged=averaged, residual=True).double()
            nn.init.normal_(layer.bias)
            expected = hand.mean(1) if averaged else hand.flatten(1)
            expected = expected + layer.bias + X @ layer.residual.weight.T
            assert (layer(X, EDGES, features) - expected).abs().max() <= EXACT
            both = layer(torch.stack([X, 2 * X]), EDGES, features)
            assert (both[0] - expected).abs().max() <= EXACT
            assert (both[1] - layer(2 * X, EDGES, features)).abs().max() <= EXACT
        bare = GraphAttention(compare, biased=False)
        assert (bare(X, EDGES, features)[-2:] == 0).all()  # nobody to hear


def test_the_residual_is_the_input_itself_where_the_widths_agree() -> None:
    layer = GraphAttention(GATCompare(H * D, D, H), residual=True)
    plain = GraphAttention(layer.compare, biased=False)
    x = torch.randn(N, H * D)
    assert isinstance(layer.residual, nn.Identity)
    torch.testing.assert_close(layer(x, EDGES), plain(x, EDGES) + x)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_of_a_layer_is_learned(kind: str) -> None:
    compare = KINDS[kind](C, D, H, edge_width=F)
    layer = GraphAttention(compare, residual=True)
    layer(X.float(), EDGES, FEATURES.float()).sin().sum().backward()
    for name, p in layer.named_parameters():
        # b_k of the keys adds q · b_k to every score of a query, which the softmax does not see.
        still = kind == "dot" and name == "compare.key.bias"
        assert still or p.grad.abs().sum() > 0, name
        assert p.grad.isfinite().all()


def test_both_dropouts_work_in_training_alone() -> None:
    x = X.float()
    for given in ({"dropout": 0.5}, {"attention_dropout": 0.5}):
        layer = GraphAttention(GATCompare(C, D, H), **given)
        torch.manual_seed(1)
        one = layer(x, EDGES)
        torch.manual_seed(2)
        assert not torch.equal(one, layer(x, EDGES))
        layer.eval()
        assert torch.equal(layer(x, EDGES), layer(x, EDGES))


def test_nodes_may_be_renumbered() -> None:
    order = torch.randperm(N, generator=torch.Generator().manual_seed(7))
    place = torch.empty_like(order).scatter_(0, order, torch.arange(N))
    layer = GraphAttention(GATv2Compare(C, D, H)).double()
    turned = Edges(place[EDGES.index], (N, N))
    assert (layer(X[order], turned) - layer(X, EDGES)[order]).abs().max() <= EXACT


def test_a_further_mask_forbids_some_of_the_edges() -> None:
    layer = GraphAttention(GATCompare(C, D, H)).double()
    index = EDGES.index[:, EDGES.index[0] <= EDGES.index[1]]
    expected = layer(X, Edges(index, (N, N)))
    assert (layer(X, EDGES, mask=Causal()) - expected).abs().max() <= EXACT


def test_a_graph_transformer_is_a_block_whose_mask_is_the_edges() -> None:
    torch.manual_seed(4)
    layer = GraphTransformer(12, H, edge_width=F).double()
    x = drawn(8, N, 12)
    allowed = torch.zeros(N, N, dtype=torch.bool)
    allowed[EDGES.index[1], EDGES.index[0]] = True
    table = torch.zeros(H, N, N, dtype=torch.float64)
    table[:, EDGES.index[1], EDGES.index[0]] = (FEATURES @ layer.edge_bias.weight.T).T
    block = layer.block
    attention = block.attention
    h = block.attention_residual.norm(x)
    q, k, v = (
        f(h).unflatten(-1, (H, 4)).transpose(0, 1)
        for f in (attention.query, attention.key, attention.value)
    )
    logits = q @ k.mT / 2 + table
    shares = logits.exp() * allowed
    shares = shares / shares.sum(-1, keepdim=True).clamp(min=1e-300)
    x2 = x + attention.out((shares @ v).transpose(0, 1).flatten(1))
    expected = x2 + block.feedforward(block.feedforward_residual.norm(x2))
    assert (layer(x, EDGES, FEATURES) - expected).abs().max() <= EXACT
    plain = GraphTransformer(12, H).double()
    assert (plain(x, EDGES) - plain.block(x[None], mask=Dense(allowed))[0]).abs().max() <= EXACT


def test_every_call_of_a_graph_layer_has_a_named_slot() -> None:
    class Names(Tap):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def begin(self, site) -> None:
            self.seen.append(site.name)

    layers = nn.ModuleList([GraphAttention(GATCompare(C, D, H)), GraphTransformer(H * D, H)])
    with tapped(layers, Names()) as tap:
        layers[1](layers[0](X.float(), EDGES), EDGES)
    assert tap.seen == ["0", "1.block.attention"]


def test_loops_are_added_once() -> None:
    looped = EDGES.with_loops()
    pairs = looped.index.T.tolist()
    assert torch.equal(looped.index[:, : EDGES.index.shape[1]], EDGES.index)
    assert all(pairs.count([n, n]) == 1 for n in range(N))
    assert torch.equal(looped.with_loops().index, looped.index)
    with pytest.raises(ValueError, match=r"as many keys as queries; got \(3, 2\)"):
        Edges(torch.zeros(2, 0).long(), (3, 2)).with_loops()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((X, EDGES.index), "edges must be an Edges; got Tensor"),
        ((X[:, :3], EDGES), r"x must be \[N, C\] or \[B, N, C\] with C = 7; got \[13, 3\]"),
        ((X[:4], EDGES), r"\(nodes, nodes\) = \(4, 4\); got \(13, 13\)"),
        ((X, EDGES, FEATURES), r"features must be given where edge_width is.*got \[\d+, 2\]"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(given: tuple, says: str) -> None:
    layer = GraphAttention(GATCompare(C, D, H)).double()
    with pytest.raises((TypeError, ValueError), match=says):
        layer(*given)
    featured = GraphAttention(DotCompare(C, D, H, edge_width=F)).double()
    with pytest.raises(ValueError, match=r"features must be given.*got None and edge_width set"):
        featured(X, EDGES)
    with pytest.raises(ValueError, match=r"\[E, F\] with E = \d+.*got \[3, 2\]"):
        featured(X, EDGES, FEATURES[:3])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize("averaged", [False, True])
def test_layers_equal_pygs_with_pygs_weights(averaged: bool, featured: bool) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(9)
    x, features = X.float(), FEATURES.float() if featured else None
    shared = {"heads": H, "concat": not averaged, "add_self_loops": False}
    shared["edge_dim"] = F if featured else None
    width = F if featured else None
    with torch.no_grad():
        theirs = pyg.GATConv(C, D, **shared)
        ours = GATCompare(C, D, H, edge_width=width)
        pairs = [(ours.project.weight, theirs.lin.weight), (ours.query, theirs.att_dst[0])]
        pairs += [(ours.key, theirs.att_src[0])]
        if featured:
            pairs += [(ours.edge_project.weight, theirs.lin_edge.weight)]
            pairs += [(ours.edge, theirs.att_edge[0])]
        check(theirs, ours, pairs, x, features, averaged)

        theirs = pyg.GATv2Conv(C, D, **shared)
        ours = GATv2Compare(C, D, H, edge_width=width)
        pairs = [(ours.a, theirs.att[0])]
        for mine, its in ((ours.query, theirs.lin_r), (ours.key, theirs.lin_l)):
            pairs += [(mine.weight, its.weight), (mine.bias, its.bias)]
        if featured:
            pairs += [(ours.edge_project.weight, theirs.lin_edge.weight)]
        check(theirs, ours, pairs, x, features, averaged)

        if not featured:  # with edge features PyG's has them in keys and values
            theirs = pyg.TransformerConv(C, D, heads=H, concat=not averaged, root_weight=False)
            ours = DotCompare(C, D, H)
            pairs = []
            for name in ("query", "key", "value"):
                mine, its = getattr(ours, name), getattr(theirs, f"lin_{name}")
                pairs += [(mine.weight, its.weight), (mine.bias, its.bias)]
            check(theirs, ours, pairs, x, None, averaged)


def check(theirs, ours, pairs, x, features, averaged) -> None:
    for mine, its in pairs:
        mine.copy_(its)
    layer = GraphAttention(ours, averaged=averaged)
    if getattr(theirs, "bias", None) is not None:
        nn.init.normal_(theirs.bias)
        layer.bias.copy_(theirs.bias)
    expected = theirs(x, EDGES.index, features)
    assert (layer(x, EDGES, features) - expected).abs().max() <= 1e-5
