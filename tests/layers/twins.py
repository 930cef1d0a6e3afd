"""Our modules with the weights of torch's, the oracles of these tests."""

import torch
from torch import Tensor, nn

from atento.core.compose import Mask
from atento.core.tap import Site, Tap
from atento.layers.attention import Attention
from atento.layers.block import Block
from atento.layers.feedforward import FeedForward
from atento.layers.norm import LayerNorm

TOLERANCE = 1e-12  # float64, a few hundred additions of numbers near 1


def fill(ours: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    with torch.no_grad():
        ours.weight.copy_(weight)
        if bias is not None:
            ours.bias.copy_(bias)


def fill_attention(ours: Attention, theirs: nn.MultiheadAttention) -> Attention:
    weights = (
        theirs.in_proj_weight.chunk(3)
        if theirs.in_proj_weight is not None
        else (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    )
    biases = (None,) * 3 if theirs.in_proj_bias is None else theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip(
        (ours.query, ours.key, ours.value), weights, biases, strict=True
    ):
        fill(linear, weight, bias)
    fill(ours.out, theirs.out_proj.weight, theirs.out_proj.bias)
    return ours


def fill_block(
    ours: Block, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> Block:
    """Copies every parameter; norms of theirs are moved off 1 and 0, so that a mix-up shows."""
    norms = [(ours.attention_residual.norm, theirs.norm1)]
    fill_attention(ours.attention, theirs.self_attn)
    if isinstance(theirs, nn.TransformerDecoderLayer):
        fill_attention(ours.cross, theirs.multihead_attn)
        norms.append((ours.cross_residual.norm, theirs.norm2))
    last = theirs.norm3 if isinstance(theirs, nn.TransformerDecoderLayer) else theirs.norm2
    norms.append((ours.feedforward_residual.norm, last))
    for mine, its in norms:
        assert isinstance(mine, LayerNorm)
        nn.init.normal_(its.weight)
        nn.init.normal_(its.bias)
        mine.load_state_dict(its.state_dict())
    assert isinstance(ours.feedforward, FeedForward)
    fill(ours.feedforward.up, theirs.linear1.weight, theirs.linear1.bias)
    fill(ours.feedforward.down, theirs.linear2.weight, theirs.linear2.bias)
    return ours


class Seen(Tap):
    """Keeps what passes: names, masks, scores and weights."""

    reads = frozenset({"scores", "weights"})

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts: list[int] = []
        self.masks: list[Mask | None] = []
        self.all_scores: list[Tensor] = []
        self.all_weights: list[Tensor] = []

    def begin(self, site: Site) -> None:
        self.names.append(site.name)
        self.counts.append(site.count)
        self.masks.append(site.mask)

    def scores(self, site: Site, scores: Tensor) -> None:
        self.all_scores.append(scores.detach())

    def weights(self, site: Site, weights: Tensor) -> None:
        self.all_weights.append(weights.detach())
