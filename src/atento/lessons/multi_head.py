"""Lecture 003, question 01: multi-head attention on «Life is awesome», every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from atento.lessons.lesson import Figure, Rows, Step, matrix, spelled
from atento.lessons.watched import masked, rows_of, tensor, watched

__all__ = ["steps"]

TOKENS = ("Life", "is", "awesome")
HEAD = ("⁽¹⁾", "⁽²⁾")
TOLERANCE = 0.0005 + 1e-9  # three decimals are printed

# ------------------------------------------------------------------ what the lecture gives

X = matrix("1 0 1 0; 0 1 1 0; 1 1 0 1")
W_Q = matrix("1 0; 0 1; 1 0; 0 1"), matrix("0 1; 1 0; 0 1; 1 0")
W_K = matrix("1 1; 0 1; 1 0; 0 1"), matrix("1 0; 1 1; 0 1; 1 0")
W_V = matrix("1 0; 0 1; 1 1; 0 1"), matrix("0 1; 1 0; 1 0; 0 1")
W_O = matrix("1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1")

# ------------------------------------------------------------------ what the lecture prints

Q = matrix("2 0; 1 1; 1 2"), matrix("0 2; 1 1; 2 1")
K = matrix("2 1; 1 1; 1 3"), matrix("1 1; 1 2; 3 1")
V = matrix("2 1; 1 2; 1 2"), matrix("1 1; 2 0; 1 2")
QK = matrix("4 2 2; 3 2 4; 4 3 7"), matrix("2 4 2; 2 3 4; 3 4 7")
MASK = matrix("0 -inf -inf; 0 0 -inf; 0 0 0")
A = (
    matrix("1.000 0.000 0.000; 0.670 0.330 0.000; 0.102 0.050 0.848"),
    matrix("1.000 0.000 0.000; 0.330 0.670 0.000; 0.050 0.102 0.848"),
)
HEADS = (
    matrix("2.000 1.000; 1.670 1.330; 1.102 1.898"),
    matrix("1.000 1.000; 1.670 0.330; 1.102 1.747"),
)
CONCATENATION = matrix("2.000 1.000 1.000 1.000; 1.670 1.330 1.670 0.330; 1.102 1.898 1.102 1.747")
RESULT = CONCATENATION


# A figure of the tokens, and one of pairs of them; the steps below fill them in.
OF_TOKENS = Figure(symbol="", rows=TOKENS, digits=3, tolerance=TOLERANCE)
OF_PAIRS = replace(OF_TOKENS, columns=TOKENS)


def steps() -> Iterator[Step]:
    """The steps of the lecture, each through `attend`, both heads at once."""
    x = tensor(X)
    q, k, v = (torch.stack([x @ tensor(w) for w in both]) for both in (W_Q, W_K, W_V))  # [H, N, D]
    given = Figure(symbol="", digits=0)
    yield Step(
        text="inputs",
        items=(
            replace(given, symbol="X", printed=X, rows=TOKENS),
            replace(given, symbol="W_O", printed=W_O),
        ),
    )
    parameters = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V}
    yield Step(
        text="weights",
        items=tuple(
            replace(given, symbol=f"{name}{mark}", printed=both[h])
            for h, mark in enumerate(HEAD)
            for name, both in parameters.items()
        ),
    )
    projected = {"Q": (q, Q), "K": (k, K), "V": (v, V)}
    yield Step(
        text="projections",
        items=tuple(
            figure
            for name, (ours, printed) in projected.items()
            for figure in _of_heads(
                replace(OF_TOKENS, symbol=f"{name}{{h}}", digits=0), ours, printed
            )
        ),
    )
    yield from _inside(q, k, v)
    yield from _joined(q, k, v)


def _inside(q: Tensor, k: Tensor, v: Tensor) -> Iterator[Step]:
    """Scores, scaled, masked, weights: `attend` without its scale, with it, and with 1/√d_model."""
    scores = watched(q, k, v, causal=True, scale=1.0).scores[0]
    scaled, weights, _ = (x[0] for x in watched(q, k, v, causal=True))
    wider = watched(q, k, v, causal=True, scale=len(X[0]) ** -0.5).weights[0]
    figure = replace(OF_PAIRS, symbol="Q{h}·K{h}ᵀ", digits=0)
    yield Step(text="scores", items=_of_heads(figure, scores, QK))
    # The lecture prints S as 1/√2 times whole numbers: compared are the products.
    printed = [tuple(tuple(value / 2**0.5 for value in row) for row in rows) for rows in QK]
    yield Step(text="scaled", items=_of_heads(replace(OF_PAIRS, symbol="S{h}"), scaled, printed))
    mask = rows_of(masked(torch.zeros(len(X), len(X))))
    yield Step(
        text="mask",
        items=(
            replace(OF_PAIRS, symbol="M", ours=mask, printed=MASK, digits=0),
            *_of_heads(replace(OF_PAIRS, symbol="S{h} + M"), masked(scaled)),
        ),
    )
    figure = replace(OF_PAIRS, symbol="A{h}", heat=True)
    yield Step(
        text="softmax",
        items=_of_heads(figure, weights, A),
        values={
            "second": spelled(rows_of(weights[0, 1, :2]), 6),
            "third": spelled(rows_of(weights[0, 2]), 6),
        },
    )
    yield Step(
        text="d_model",
        items=_of_heads(replace(figure, text="d_model.figure", digits=4), wider),
        values={
            "right": spelled(rows_of(weights[0, 1, :2]), 4),
            "wrong": spelled(rows_of(wider[0, 1, :2]), 4),
        },
    )


def _joined(q: Tensor, k: Tensor, v: Tensor) -> Iterator[Step]:
    """The heads, side by side, times W_O."""
    heads = watched(q, k, v, causal=True).out[0]  # [H, N, D]
    yield Step(text="heads", items=_of_heads(replace(OF_TOKENS, symbol="A{h}·V{h}"), heads, HEADS))
    beside = heads.transpose(0, 1).flatten(1)  # [N, H·D]
    figure = replace(OF_TOKENS, heat=True)
    ours = replace(figure, symbol="Concat", ours=rows_of(beside), printed=CONCATENATION)
    yield Step(text="concatenation", items=(ours,))
    out = beside @ tensor(W_O)
    ours = replace(figure, symbol="Concat·W_O", ours=rows_of(out), printed=RESULT)
    yield Step(text="result", items=(ours,), values={"last": f"{out[-1, -1].item():.6f}"})


def _of_heads(like: Figure, ours: Tensor, printed: Sequence[Rows] = ((), ())) -> tuple[Figure, ...]:
    """One figure for each head, with its number where the symbol has {h}."""
    return tuple(
        replace(like, symbol=like.symbol.format(h=mark), ours=rows_of(ours[h]), printed=printed[h])
        for h, mark in enumerate(HEAD)
    )
