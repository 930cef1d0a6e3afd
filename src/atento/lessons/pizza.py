"""Lecture 001, "Exemplo": «Pizza é bom» step by step, and the matrix of CATs with its mask."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from atento.layers.positions import Sinusoidal
from atento.lessons.hull import nearest
from atento.lessons.lesson import Figure, Quote, Rows, Step, matrix, spelled
from atento.lessons.watched import rows_of, softmax_of, tensor, watched

__all__ = ["steps"]

TOKENS = ("Pizza", "é", "bom")
CATS = ("YOUR", "CAT", "IS", "A", "LOVELY", "CAT")
ROUNDING = 0.00005  # half a unit of the fourth decimal
ROUNDING_CAT = 0.0005

# ------------------------------------------------------------------ what the lecture prints

IE = matrix("0.3923 -0.2236; -0.3195 -1.2050; 1.443 -0.6332")
PE = matrix("0.3901 0.9088; 0.5334 0.7073; 0.7116 0.2050")
X = matrix("0.7824 0.6852; 0.2189 -0.4977; 1.7561 -0.4282")
Q = matrix("0.7197 0.3081; 0.3592 0.2259; 0.3430 0.3670")
K = matrix("0.7133 0.6944; 0.3993 0.7455; 0.7490 0.5221")
V = matrix("0.5530 0.5382; 0.7668 0.8359; 0.8591 0.7898")
QK = matrix("0.7730 0.6600 0.6730; 0.4300 0.4000 0.3950; 0.2701 0.2300 0.2633")
A = matrix("0.3902 0.2040 0.2098; 0.1869 0.7522 0.1341; 0.3103 0.1631 0.3633")
SA = matrix("0.5524 0.5462; 0.7957 0.8353; 0.6089 0.5903")
CAT = matrix(
    "0.268 0.119 0.134 0.148 0.179 0.152; 0.124 0.278 0.201 0.128 0.154 0.115;"
    "0.147 0.132 0.262 0.097 0.218 0.145; 0.210 0.128 0.206 0.212 0.119 0.125;"
    "0.146 0.158 0.152 0.143 0.227 0.174; 0.195 0.114 0.203 0.103 0.157 0.229"
)


def steps() -> Iterator[Step]:
    """The steps of the lecture; ours start from what it prints just before them."""
    yield from _embedding()
    yield from _projections()
    yield from _attention()
    yield from _output()
    yield from _cats()


# ------------------------------------------------------------------ N1, N2: X and PE


def _embedding() -> Iterator[Step]:
    sinusoidal = Sinusoidal(len(PE[0])).double()(len(TOKENS))
    lengths = tensor(PE).square().sum(1, keepdim=True)
    yield Step(
        text="position",
        items=(
            _figure("IE", printed=IE),
            _figure("PE", sinusoidal, PE, text="position.code"),
            _derived("‖PE‖²", TOKENS, lengths, text="position.length", slack=4 * ROUNDING),
        ),
    )
    yield Step(
        text="sum",
        items=(_figure("X = IE + PE", tensor(IE) + tensor(PE), X, text="sum.figure"),),
    )


# ------------------------------------------------------------------ N3 and exercise 7: Q, K and V


def _projections() -> Iterator[Step]:
    x, wanted = tensor(X), [tensor(rows) for rows in (Q, K, V)]
    affine = torch.cat([x, torch.ones(len(X), 1, dtype=x.dtype)], 1)
    left = torch.tensor(
        [
            [_left_over(x, y) for y in wanted],
            [_left_over(tensor(IE) + tensor(PE), y) for y in wanted],
            [_left_over(affine, y) for y in wanted],
        ],
        dtype=torch.float64,
    )
    yield Step(
        text="projections",
        items=(
            *(_figure(name, printed=rows) for name, rows in (("Q", Q), ("K", K), ("V", V))),
            *_quotes_of_projections(left[0].tolist()),
            Figure(
                symbol="‖X·W − Y‖",
                ours=rows_of(left),
                text="projections.left",
                rows=("X·W", "(IE + PE)·W", "X·W + b"),
                columns=("Q", "K", "V"),
                digits=3,
            ),
        ),
    )
    yield Step(
        text="answer",
        items=tuple(
            Figure(
                symbol=f"W_{name}, b_{name}",
                ours=rows_of(torch.linalg.lstsq(affine, y).solution),
                rows=("W[1]", "W[2]", "b"),
                text="answer.map",
            )
            for name, y in zip("QKV", wanted, strict=True)
        ),
    )


def _quotes_of_projections(left: list[float]) -> Iterator[Quote]:
    yield Quote(
        words="Q = W_q X",
        # X is N × d_model: a W of d_model columns meets its N rows only where N = d_model.
        holds=len(X) == len(X[0]),
        text="projections.order",
        values={"rows": str(len(X)), "width": str(len(X[0]))},
    )
    yield Quote(
        words="calculando os valores de W_Q, W_K e W_V, obtemos",
        # Rounded to four decimals, matrices that did fit would leave about 1e-4.
        holds=max(left) < 1e-3,
        text="projections.linear",
        values={"left": ", ".join(f"{value:.3f}" for value in left)},
    )


def _left_over(x: Tensor, y: Tensor) -> float:
    """‖x·W − y‖ for the best W."""
    return float((x @ torch.linalg.lstsq(x, y).solution - y).norm())


# ------------------------------------------------------------------ N4, N5: QKᵀ and the softmax


def _attention() -> Iterator[Step]:
    call = watched(tensor(Q), tensor(K), tensor(V), scale=1.0)
    scores, weights = call.scores[0, 0], call.weights[0, 0]
    sums = tensor(A).sum(1, keepdim=True)
    yield Step(
        text="scores", items=(_figure("Q·Kᵀ", scores, QK, text="scores.figure", pairs=True),)
    )
    yield Step(
        text="softmax",
        items=(
            replace(
                _figure("A = softmax(Q·Kᵀ)", weights, A, text="softmax.true", pairs=True),
                values={
                    "high": f"{A[1][1]:.4f}",
                    "low": f"{A[1][0]:.4f}",
                    "gap": f"{math.log(A[1][1] / A[1][0]):.2f}",
                },
            ),
            _figure("softmax(Q·Kᵀ)", softmax_of(tensor(QK)), A, text="softmax.printed", pairs=True),
            _derived("Σ A", TOKENS, sums, text="softmax.sums", slack=len(A[0]) * ROUNDING),
        ),
        values={"sums": " ".join(f"{value:.3f}" for value in sums[:, 0].tolist())},
    )


# ------------------------------------------------------------------ N6: the output, and the scale


def _output() -> Iterator[Step]:
    q, k, v = tensor(Q), tensor(K), tensor(V)
    product = watched(q, k, v, scale=1.0, weights=tensor(A)[None, None]).out[0, 0]
    within = tuple(nearest(point, V) for point in SA)
    yield Step(
        text="output",
        items=(
            _figure("A·V", product, SA, text="output.product"),
            _figure("Sa(X)", watched(q, k, v, scale=1.0).out[0, 0], SA, text="output.true"),
            Figure(
                symbol="Σ α·v",
                ours=within,
                printed=SA,
                text="output.hull",
                rows=TOKENS,
                values={"first": f"{SA[0][0]:.4f}", "least": f"{min(row[0] for row in V):.4f}"},
            ),
        ),
    )
    scaled = watched(q, k, v)
    plain = watched(q, k, v, scale=1.0)
    yield Step(
        text="scale",
        items=(
            _figure("softmax(Q·Kᵀ / √2)", scaled.weights[0, 0], pairs=True),
            _figure("softmax(Q·Kᵀ / √2)·V", scaled.out[0, 0]),
        ),
        values={
            "before": spelled(rows_of(plain.weights[0, 0, 0]), 4),
            "after": spelled(rows_of(scaled.weights[0, 0, 0]), 4),
        },
    )


# ------------------------------------------------------------------ N7: the matrix of CATs


def _cats() -> Iterator[Step]:
    a = tensor(CAT)
    sums = a.sum(1, keepdim=True)
    # Each of a row's entries may be off by half a unit.
    slack = len(CAT) * ROUNDING_CAT
    # Rows of probabilities: what a softmax gives, and what dot products have no reason to be.
    is_softmax = bool((a > 0).all() and ((sums - 1).abs() <= slack).all())
    yield Step(
        text="cats",
        items=(
            _cats_figure("A", printed=CAT),
            _derived("Σ A", CATS, sums, text="cats.sums", slack=slack),
            Quote(
                words="o resultado obtido é uma matriz de compatibilidade",
                holds=not is_softmax,
                text="cats.label",
            ),
            Figure(
                symbol="CAT₂ − CAT₆",
                ours=rows_of((a[1] - a[5]).abs()),
                text="cats.twins",
                columns=CATS,
                digits=3,
            ),
        ),
        values={"most": f"{float((a[1] - a[5]).abs().max()):.3f}"},
    )
    yield from _masked(a, slack)


def _masked(a: Tensor, slack: float) -> Iterator[Step]:
    late = a.tril()
    # log A as scores gives A back; masked within the softmax, the rest is renormalised.
    early = softmax_of(a.log(), causal=True)
    yield Step(
        text="masked",
        items=(
            _derived("Σ", CATS, late.sum(1, keepdim=True), text="masked.sums", slack=slack),
            _cats_figure("softmax(S + M)", early, rows_of(late), text="masked.true"),
        ),
        values={
            "sums": " ".join(f"{value:.3f}" for value in late.sum(1).tolist()),
            "second": spelled(rows_of(early[1, :2]), 4),
        },
    )


def _cats_figure(
    symbol: str, ours: Tensor | None = None, printed: Rows = (), *, text: str = ""
) -> Figure:
    return Figure(
        symbol=symbol,
        ours=() if ours is None else rows_of(ours),
        printed=printed,
        text=text,
        rows=CATS,
        columns=CATS,
        digits=3,
        heat=True,
    )


def _derived(
    symbol: str, rows: tuple[str, ...], found: Tensor, *, text: str, slack: float
) -> Figure:
    """A number [N, 1] that comes of each printed row, and has to be 1."""
    return Figure(
        symbol=symbol,
        ours=rows_of(torch.ones_like(found)),
        printed=rows_of(found),
        text=text,
        rows=rows,
        digits=3,
        tolerance=slack + 1e-9,
        derived=True,
    )


def _figure(
    symbol: str,
    ours: Tensor | None = None,
    printed: Rows = (),
    *,
    text: str = "",
    pairs: bool = False,
) -> Figure:
    """A figure whose rows are the tokens, and its columns too where it is about pairs of them."""
    return Figure(
        symbol=symbol,
        ours=() if ours is None else rows_of(ours),
        printed=printed,
        text=text,
        rows=TOKENS,
        columns=TOKENS if pairs else (),
        heat=pairs,
    )
