"""Sums, products and maxima over the edges of a graph, without a number for each edge and width.

The graph is an `Adjacency`'s CSR; values of edges are [E, g] for g heads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

__all__: list[str] = []

AT_ONCE = 2**18  # numbers of a run of edges: they stay in a core's caches


class Rows(NamedTuple):
    """A CSR matrix of ones: `starts` of each row's places, `rows` and `cols` of each place."""

    starts: Tensor
    rows: Tensor
    cols: Tensor
    width: int  # columns

    @property
    def height(self) -> int:
        return len(self.starts) - 1


def products(rows: Rows, a: Tensor, b: Tensor) -> Tensor:  # [E, g]
    """a_i · b_j at each place (i, j): a [g, rows, D], b [g′, cols, D]; g′ divides g."""
    group = len(a) // len(b)
    if not _kernels(a.device.type, a.dtype):
        return _products_in_runs(rows, a, b.repeat_interleave(group, 0))
    out = a.new_empty(len(a), len(rows.cols))
    ones = _matrix(rows, out.new_zeros(len(rows.cols)))
    for n, x in enumerate(a):
        y = b[n // group].contiguous()
        out[n] = torch.sparse.sampled_addmm(ones, x.contiguous(), y.T, beta=0.0).values()
    return out.T.contiguous()


def _products_in_runs(rows: Rows, a: Tensor, b: Tensor) -> Tensor:
    a, b = a.transpose(0, 1), b.transpose(0, 1)
    out = a.new_empty(len(rows.cols), a.shape[1])
    for run in runs(len(rows.cols), a[0].numel()):
        left, right = a.index_select(0, rows.rows[run]), b.index_select(0, rows.cols[run])
        out[run] = (left * right).sum(-1)
    return out


def sums(rows: Rows, weights: Tensor, x: Tensor) -> Tensor:  # [g, rows, D]
    """Σ_j w_ij x_j: weights [E, g], x [g′, cols, D]; g′ divides g."""
    group = weights.shape[1] // len(x)
    by_head = weights.T.contiguous()
    out = x.new_empty(len(by_head), rows.height, x.shape[-1])
    sparse = _kernels(x.device.type, x.dtype)
    for n, w in enumerate(by_head):
        table = x[n // group].contiguous()
        if sparse:
            out[n] = _matrix(rows, w) @ table
        else:
            out[n] = embedding_bag(
                rows.cols,
                table,
                rows.starts,
                mode="sum",
                per_sample_weights=w,
                include_last_offset=True,
            )
    return out


def totals(starts: Tensor, places: Tensor, x: Tensor) -> Tensor:  # [rows, g]
    """The sum of x [E, g] over each row's places."""
    return embedding_bag(places, x, starts, mode="sum", include_last_offset=True)


def greatest(starts: Tensor, x: Tensor) -> Tensor:  # [rows, g]
    """The maximum of x [E, g] over each row; −inf where it has no place."""
    return torch.segment_reduce(x, "max", offsets=starts, axis=0, unsafe=True)


def runs(count: int, width: int) -> Iterator[slice]:
    """The places in runs of at most AT_ONCE numbers, `width` for each place."""
    step = max(1, AT_ONCE // max(width, 1))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def _matrix(rows: Rows, values: Tensor) -> Tensor:
    size = (rows.height, rows.width)
    return torch.sparse_csr_tensor(rows.starts, rows.cols, values, size, check_invariants=False)


@cache
def _kernels(device: str, dtype: torch.dtype) -> bool:
    """Whether torch has its sparse CSR kernels here."""
    # 400k edges, 8 heads, 32 wide: 25 ms for all products, 238 ms by gathering (2026-11, 2 cores).
    if device != "cpu":
        return False
    one = torch.ones(1, 1, dtype=dtype)
    starts = torch.tensor([0, 1], dtype=torch.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that CSR tensors are in beta is said once
        try:
            made = _matrix(Rows(starts, starts[:1], starts[:1], 1), one[0])
            torch.sparse.sampled_addmm(made, one, one, beta=0.0)
            return bool((made @ one == 1).all())
        except RuntimeError:  # a build of torch without them
            return False
