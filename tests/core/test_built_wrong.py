"""An object that is built wrong says so at once: expected, got, remedy."""

import pytest
import torch

from atento.core.biases import DenseBias, EdgeBias
from atento.core.edges import Edges
from atento.core.masks import Dilated, Global, Prefix, Window
from atento.core.random_blocks import RandomBlocks
from atento.core.tables import Blocks, Dense, Documents, Padding, Where
from core_oracle import refused

B, Q, K = 2, 5, 7
EDGES = Edges(torch.tensor([[0, 6, 2], [4, 0, 1]]), (Q, K))

BUILT_WRONG = {
    "Window negative": (lambda: Window(-1), r"Window\(before=…\)", "≥ 0", "-1"),
    "Window float": (lambda: Window(3.0), r"Window\(before", "integer", "3.0"),
    "Window bool": (lambda: Window(3, True), r"Window\(after", "True"),
    "Dilated 0": (lambda: Dilated(0), r"Dilated\(step", "≥ 1"),
    "Global negative": (lambda: Global([0, -1]), "Global", "-1"),
    "Global of indices": (
        lambda: Global(torch.tensor([0, 3])),
        r"Global must be Bool\[N\]",
        "int64",
    ),
    "Global int": (lambda: Global(3), "Global", "3"),
    "Prefix negative": (lambda: Prefix(-2), r"Prefix\(n", "-2"),
    "Prefix float": (lambda: Prefix(torch.tensor([1.0])), r"Prefix\(n=…\) must be Int\[B\]"),
    "Prefix of two axes": (lambda: Prefix(torch.tensor([[1]])), "Prefix"),
    "Documents float": (lambda: Documents(torch.zeros(Q)), r"Documents\(q_ids\) must be Int"),
    "Documents list": (lambda: Documents([0, 0, 1]), r"Documents\(q_ids\)"),
    "Documents bool": (lambda: Documents(torch.ones(Q) > 0), r"Documents\(q_ids\)"),
    "Documents of three axes": (lambda: Documents(torch.zeros(1, 1, Q).long()), "Documents"),
    "Documents across": (lambda: Documents(torch.zeros(Q).long(), torch.zeros(K)), r"\(k_ids\)"),
    "Padding list": (lambda: Padding([3, 4]), r"Padding takes", r"Padding\(torch\.tensor"),
    "Padding float": (lambda: Padding(torch.ones(B)), "Padding"),
    "Padding of integers of two axes": (lambda: Padding(torch.ones(B, K).long()), "Padding"),
    "Blocks of floats": (lambda: Blocks(torch.ones(2, 2), 3), r"Blocks\(table=…\) must be Bool"),
    "Blocks size": (lambda: Blocks(torch.ones(2, 2) > 0, 0), r"Blocks\(size"),
    "RandomBlocks count": (lambda: RandomBlocks(0, 3, 1), r"RandomBlocks\(count"),
    "RandomBlocks size": (lambda: RandomBlocks(1, 0, 1), r"RandomBlocks\(size"),
    "RandomBlocks seed": (lambda: RandomBlocks(1, 3, -1), r"RandomBlocks\(seed"),
    "RandomBlocks blocks": (lambda: RandomBlocks(1, 3, 1, blocks=0), r"RandomBlocks\(blocks"),
    "Edges transposed": (lambda: Edges(torch.zeros(3, 2).long(), (Q, K)), r"Int\[2, E\]"),
    "Edges float": (lambda: Edges(torch.zeros(2, 3), (Q, K)), r"Int\[2, E\]"),
    "Edges bool": (lambda: Edges(torch.zeros(2, 3) > 0, (Q, K)), r"Int\[2, E\]"),
    "Edges out of range": (lambda: Edges(torch.tensor([[7], [0]]), (Q, K)), "key 7", r"\(5, 7\)"),
    "Edges of a far query": (lambda: Edges(torch.tensor([[0], [5]]), (Q, K)), "query 5"),
    "Edges negative": (lambda: Edges(torch.tensor([[-1], [0]]), (Q, K)), "-1"),
    "Edges shape": (lambda: Edges(torch.tensor([[0], [0]]), Q), "shape", "queries, keys"),
    "Edges shape of three": (lambda: Edges(torch.tensor([[0], [0]]), (Q, K, 2)), "shape"),
    "Dense float": (lambda: Dense(torch.ones(Q, K)), "Dense takes a boolean", r"Dense\.additive"),
    "Dense of three axes": (lambda: Dense(torch.ones(B, Q, K) > 0), "Dense must be", "Padding"),
    "Dense list": (lambda: Dense([[True]]), "Dense takes"),
    "additive of booleans": (lambda: Dense.additive(torch.ones(Q, K) > 0), r"Dense\.additive"),
    "additive of three axes": (lambda: Dense.additive(torch.ones(B, Q, K)), "Dense"),
    "Where of a table": (lambda: Where(torch.ones(Q, K) > 0), "Where takes a function"),
    "DenseBias of booleans": (
        lambda: DenseBias(torch.ones(Q, K) > 0),
        "DenseBias must be Float",
        "Dense",
    ),
    "DenseBias of three axes": (lambda: DenseBias(torch.ones(B, Q, K)), "DenseBias must be"),
    "EdgeBias of a tensor": (
        lambda: EdgeBias(EDGES.index, torch.zeros(3)),
        "EdgeBias takes an Edges",
    ),
    "EdgeBias of other edges": (lambda: EdgeBias(EDGES, torch.zeros(4)), r"\[E\].*E = 3", r"\[4\]"),
    "EdgeBias merge": (
        lambda: EdgeBias(EDGES, torch.zeros(3), merge="mean"),
        "merge must be",
        "'mean'",
    ),
    "EdgeBias of duplicates": (
        lambda: EdgeBias(Edges(torch.tensor([[1, 0, 1], [2, 0, 2]]), (Q, K)), torch.zeros(3)),
        r"edge 2 \(key 1 → query 2\)",
        "merge=",
    ),
}


@pytest.mark.parametrize("name", BUILT_WRONG)
def test_an_object_that_is_built_wrong_says_so_at_once(name):
    call, *words = BUILT_WRONG[name]
    refused(call, *words)
