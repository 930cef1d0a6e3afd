"""Layers of graphs: nodes attend to their neighbours, through the same door as tokens do."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from atento.core.attend import attend
from atento.core.biases import EdgeBias
from atento.core.compose import Mask
from atento.core.edges import Edges
from atento.core.graph_scores import GAT, EdgeFeatures, GATv2
from atento.core.scores import DOT, Score
from atento.core.tap import Slot, Tap
from atento.layers.attention import Attention
from atento.layers.block import Block
from atento.layers.feedforward import FeedForward
from atento.layers.norm import LayerNorm
from atento.layers.residual import PreNorm

__all__ = [
    "Compared",
    "DotCompare",
    "GATCompare",
    "GATv2Compare",
    "GraphAttention",
    "GraphTransformer",
]


class Compared(NamedTuple):
    """What `attend` is given for a graph's nodes."""

    q: Tensor  # [B, H, N, D]
    k: Tensor  # [B, H, N, D]
    v: Tensor  # [B, H, N, D]
    score: Score
    bias: EdgeBias | None


class GATCompare(nn.Module):
    """q = k = v = W h, compared by LeakyReLU(aᵀ[q_i ‖ k_j] + a_eᵀ W_e f), f the edge's features.

    Ref: Veličković et al. 2018, arXiv:1710.10903, section 2.1.
    """

    def __init__(
        self,
        width: int,
        head_width: int,
        heads: int,
        *,
        edge_width: int | None = None,
        slope: float = 0.2,
    ) -> None:
        super().__init__()
        self.width, self.head_width, self.heads, self.slope = width, head_width, heads, slope
        self.project = _glorot_linear(width, heads * head_width)
        self.query, self.key = _glorot(heads, head_width), _glorot(heads, head_width)
        self.edge_project = self.edge = None
        if edge_width is not None:
            self.edge_project = _glorot_linear(edge_width, heads * head_width)
            self.edge = _glorot(heads, head_width)

    def forward(self, x: Tensor, edges: Edges, features: Tensor | None) -> Compared:
        """x: [B, N, C], features: [E, F] in the order of the edges."""
        h = _split(self.project(x), self.heads)
        said = None
        if self.edge_project is not None and self.edge is not None:
            wide = self.edge_project(_given(features, edges)).unflatten(-1, (self.heads, -1))
            said = EdgeFeatures(edges, (wide * self.edge).sum(-1, keepdim=True))
        score = GAT(query=self.query, key=self.key, edge=said, slope=self.slope)
        return Compared(h, h, h, score, None)


class GATv2Compare(nn.Module):
    """q = W_q h, k = v = W_k h, compared by aᵀ LeakyReLU(q_i + k_j + W_e f).

    Ref: Brody et al. 2022, arXiv:2105.14491, equation 7.
    """

    def __init__(
        self,
        width: int,
        head_width: int,
        heads: int,
        *,
        edge_width: int | None = None,
        slope: float = 0.2,
    ) -> None:
        super().__init__()
        self.width, self.head_width, self.heads, self.slope = width, head_width, heads, slope
        self.query = _glorot_linear(width, heads * head_width, biased=True)
        self.key = _glorot_linear(width, heads * head_width, biased=True)
        self.a = _glorot(heads, head_width)
        self.edge_project = None
        if edge_width is not None:
            self.edge_project = _glorot_linear(edge_width, heads * head_width)

    def forward(self, x: Tensor, edges: Edges, features: Tensor | None) -> Compared:
        """x: [B, N, C], features: [E, F] in the order of the edges."""
        q, k = _split(self.query(x), self.heads), _split(self.key(x), self.heads)
        said = None
        if self.edge_project is not None:
            wide = self.edge_project(_given(features, edges)).unflatten(-1, (self.heads, -1))
            said = EdgeFeatures(edges, wide)
        return Compared(q, k, k, GATv2(a=self.a, edge=said, slope=self.slope), None)


class DotCompare(nn.Module):
    """q = W_q h, k = W_k h, v = W_v h, compared by q · k / √D; edge features are a bias, w_hᵀ f.

    Ref: Shi et al. 2021, arXiv:2009.03509, equations 3 and 4, but for the edge features, which
    there enter keys and values.
    """

    def __init__(
        self, width: int, head_width: int, heads: int, *, edge_width: int | None = None
    ) -> None:
        super().__init__()
        self.width, self.head_width, self.heads = width, head_width, heads
        inner = heads * head_width
        self.query, self.key, self.value = (nn.Linear(width, inner) for _ in range(3))
        self.edge_bias = None if edge_width is None else nn.Linear(edge_width, heads, bias=False)

    def forward(self, x: Tensor, edges: Edges, features: Tensor | None) -> Compared:
        """x: [B, N, C], features: [E, F] in the order of the edges."""
        q, k, v = (_split(f(x), self.heads) for f in (self.query, self.key, self.value))
        return Compared(q, k, v, DOT, _bias_of(self.edge_bias, edges, features))


class GraphAttention(nn.Module):
    """x'_i = b + ‖_h Σ_j α_ij^h v_j^h over the neighbours j of i; the mean of heads if `averaged`.

    x: [N, C] or [B, N, C] of one graph. `compare` says what is attended and how (`GATCompare`,
    `GATv2Compare`, `DotCompare`). `residual` adds x, projected where widths differ. `dropout` is
    on the features that come in, `attention_dropout` on the weights. Edges are as they are given:
    for self-loops write edges.with_loops().
    Claim: test_graph.py::test_layers_equal_the_papers_formulas_node_by_node
    """

    tap: Slot | Tap | None = None

    def __init__(
        self,
        compare: GATCompare | GATv2Compare | DotCompare,
        *,
        averaged: bool = False,
        residual: bool = False,
        biased: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.compare, self.averaged = compare, averaged
        self.width = compare.head_width * (1 if averaged else compare.heads)
        self.drop, self.attention_dropout = nn.Dropout(dropout), attention_dropout
        self.bias = nn.Parameter(torch.zeros(self.width)) if biased else None
        self.residual: nn.Module | None = None
        if residual:
            same = compare.width == self.width
            self.residual = nn.Identity() if same else _glorot_linear(compare.width, self.width)

    def forward(
        self,
        x: Tensor,
        edges: Edges,
        features: Tensor | None = None,
        *,
        mask: Mask | None = None,
    ) -> Tensor:  # [N, C′] or [B, N, C′]
        """`features` [E, F] say something of each edge; `mask` forbids some of them."""
        alone = _check(x, self.compare.width, edges)
        _check_features(self.compare, features)
        x = self.drop(x[None] if alone else x)
        q, k, v, score, bias = self.compare(x, edges, features)
        seen = attend(
            q,
            k,
            v,
            mask=edges if mask is None else edges & mask,
            bias=bias,
            score=score,
            dropout=self.attention_dropout if self.training else 0.0,
            tap=self.tap,
        )
        out = seen.mean(1) if self.averaged else seen.transpose(1, 2).flatten(2)
        out = out if self.bias is None else out + self.bias
        out = out if self.residual is None else out + self.residual(x)
        return out[0] if alone else out


class GraphTransformer(nn.Module):
    """A Transformer's block whose mask is the edges: pre-norm attention, then feed-forward.

    x: [N, C] or [B, N, C] → the same shape. Features f of the edges are a bias w_hᵀ f of each head.
    Ref: Dwivedi and Bresson 2021, arXiv:2012.09699, section 2 (there with the norm after).
    Claim: test_graph.py::test_a_graph_transformer_is_a_block_whose_mask_is_the_edges
    """

    def __init__(
        self, width: int, heads: int, *, edge_width: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.width = width
        self.block = Block(
            Attention(width, heads, dropout=dropout),
            FeedForward(width),
            lambda: PreNorm(LayerNorm(width), dropout=dropout),
        )
        self.edge_bias = None if edge_width is None else nn.Linear(edge_width, heads, bias=False)

    def forward(
        self,
        x: Tensor,
        edges: Edges,
        features: Tensor | None = None,
        *,
        mask: Mask | None = None,
    ) -> Tensor:
        """`features` [E, F] say something of each edge; `mask` forbids some of them."""
        alone = _check(x, self.width, edges)
        _check_features(self, features)
        out: Tensor = self.block(
            x[None] if alone else x,
            mask=edges if mask is None else edges & mask,
            bias=_bias_of(self.edge_bias, edges, features),
        )
        return out[0] if alone else out


def _check(x: Tensor, width: int, edges: Edges) -> bool:
    """Whether x is [N, C] without a batch; what is no node's features is an error."""
    if not isinstance(edges, Edges):
        raise TypeError(
            f"edges must be an Edges; got {type(edges).__name__}. "
            "Write Edges(index, (nodes, nodes)), row 0 = sender, row 1 = receiver."
        )
    if x.dim() not in (2, 3) or x.shape[-1] != width:
        raise ValueError(
            f"x must be [N, C] or [B, N, C] with C = {width}; got {list(x.shape)}. "
            "The rows are the nodes of one graph."
        )
    if edges.shape != (x.shape[-2], x.shape[-2]):
        raise ValueError(
            f"edges must have shape (nodes, nodes) = {(x.shape[-2],) * 2}; got {edges.shape}. "
            "Every row of x is a node, also one without an edge."
        )
    return x.dim() == 2


def _check_features(module: nn.Module, features: Tensor | None) -> None:
    reads = any(getattr(module, name, None) is not None for name in ("edge_project", "edge_bias"))
    if reads is (features is None):
        raise ValueError(
            "features must be given where edge_width is, and nowhere else; got "
            f"{'None' if features is None else list(features.shape)} and edge_width "
            f"{'set' if reads else 'None'}."
        )


def _given(features: Tensor | None, edges: Edges) -> Tensor:
    assert features is not None
    if features.dim() != 2 or len(features) != edges.index.shape[1]:
        raise ValueError(
            f"features must be [E, F] with E = {edges.index.shape[1]}, in the order of the edges; "
            f"got {list(features.shape)}."
        )
    return features


def _bias_of(linear: nn.Linear | None, edges: Edges, features: Tensor | None) -> EdgeBias | None:
    return None if linear is None else EdgeBias(edges, linear(_given(features, edges)))


def _split(x: Tensor, heads: int) -> Tensor:
    """[B, N, H · D] as [B, H, N, D]."""
    made: Tensor = x.unflatten(-1, (heads, -1)).transpose(1, 2)  # type: ignore[no-untyped-call]
    return made


def _glorot(*shape: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(*shape)))


def _glorot_linear(width: int, out: int, *, biased: bool = False) -> nn.Linear:
    """As the paper initialises its projections."""
    made = nn.Linear(width, out, bias=biased)
    nn.init.xavier_uniform_(made.weight)
    if biased:
        nn.init.zeros_(made.bias)
    return made
