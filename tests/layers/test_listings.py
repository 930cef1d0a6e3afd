"""Lecture 003's listings, R-torch line by line, beside atento: what TRUE means is the opposite."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from atento.core.masks import Causal
from atento.core.tables import Dense
from atento.layers.attention import Attention
from atento.layers.block import Block
from atento.layers.feedforward import FeedForward
from atento.layers.norm import LayerNorm
from atento.layers.residual import PreNorm
from layers.twins import TOLERANCE, fill, fill_attention

T, C, HEADS, LAYERS = 7, 22, 2, 3
X = torch.randn(5, T, C, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
# Listing 2: torch_triu(torch_ones(T, T), diagonal = 1)$to(dtype = torch_bool())
WEI = torch.triu(torch.ones(T, T), diagonal=1).to(torch.bool)


def listing_1() -> nn.MultiheadAttention:
    torch.manual_seed(0)
    return nn.MultiheadAttention(C, HEADS, dropout=0.0, batch_first=True).double()


def close(a, b) -> None:
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


def test_true_is_masked_in_the_listings_and_may_attend_in_atento():
    theirs = listing_1()
    ours = fill_attention(Attention(C, HEADS).double(), theirs)
    expected = theirs(query=X, key=X, value=X, attn_mask=WEI, need_weights=False)[0]
    close(ours(X, mask=Dense(~WEI)), expected)
    close(ours(X, mask=Causal()), expected)
    # The listing's mask, not inverted, would show each token its future and nothing else.
    assert not torch.allclose(ours(X, mask=Dense(WEI))[:, 0], expected[:, 0])
    assert torch.equal(Causal().dense(T, T)[0, 0], ~WEI)


def test_scaled_dot_product_attention_means_the_opposite_of_multi_head_attention():
    theirs = listing_1()
    q, k, v = (
        x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for x in (X @ theirs.in_proj_weight.T + theirs.in_proj_bias).chunk(3, -1)
    )
    expected = theirs(X, X, X, attn_mask=WEI, need_weights=False)[0]
    out = scaled_dot_product_attention(q, k, v, attn_mask=~WEI).transpose(1, 2).flatten(2)
    close(theirs.out_proj(out), expected)


def test_listing_3_is_a_stack_of_pre_norm_blocks():
    torch.manual_seed(1)
    scale1, scale2 = ([LayerNorm(C).double() for _ in range(LAYERS)] for _ in range(2))
    heads = [listing_1() for _ in range(LAYERS)]
    nets = [
        nn.Sequential(nn.Linear(C, 4 * C), nn.ReLU(), nn.Linear(4 * C, C)).double()
        for _ in range(LAYERS)
    ]
    for norm in (*scale1, *scale2):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)

    output = X
    for j in range(LAYERS):  # the listing, line by line
        qkv = scale1[j](output)
        attn_out = heads[j](query=qkv, key=qkv, value=qkv, attn_mask=WEI, need_weights=False)[0]
        output = output + attn_out
        output = output + nets[j](scale2[j](output))

    ours = X
    for j in range(LAYERS):
        norms = iter((scale1[j], scale2[j]))
        block = Block(
            fill_attention(Attention(C, HEADS).double(), heads[j]),
            FeedForward(C, activation=nn.ReLU()).double(),
            lambda norms=norms: PreNorm(next(norms)),
        )
        fill(block.feedforward.up, nets[j][0].weight, nets[j][0].bias)
        fill(block.feedforward.down, nets[j][2].weight, nets[j][2].bias)
        ours = block(ours, mask=Causal())
    torch.testing.assert_close(ours, output, atol=LAYERS * 10 * TOLERANCE, rtol=0)
