"""Runs of queries with the keys near them: the work of the path `chunked`, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from atento.core import aten
from atento.core.biases import Bias
from atento.core.blocks import SIZE, three_valued
from atento.core.compose import Mask
from atento.core.lowering import allowed_if_asked
from atento.core.positions import Grid, Place
from atento.core.reference import joined_with_sink, logits_over, repeated, softmax_with_sink
from atento.core.scores import Score
from atento.core.structure import read

__all__: list[str] = []

AT_ONCE = 2**21  # scores of one run: what stays in a core's caches, within a factor of a few
LONGEST = 128  # queries of one run: best of 64…512 for a window of 256 (2026-11-19, 2 CPU cores)


@dataclass(frozen=True, eq=False)
class Work:
    """One call inside the operator."""

    q: Tensor
    k: Tensor
    v: Tensor
    tensors: list[Tensor]
    text: str
    place: Place
    dropout: float
    seed: int

    @staticmethod
    def read(  # long: an operator's arguments
        q: Tensor,
        k: Tensor,
        v: Tensor,
        tensors: list[Tensor],
        text: str,
        start: int,
        dropout: float,
        seed: Tensor | None,
    ) -> Work:
        _, _, _, rows, cols = read(text, tensors)
        place = Place(start, rows, cols)
        number = 0 if seed is None else int(seed)
        return Work(q, k, v, tensors, text, place, dropout, number)

    @property
    def accumulator(self) -> torch.dtype:
        return torch.promote_types(self.q.dtype, torch.float32)

    def parts(self, tensors: list[Tensor]) -> tuple[Mask | None, Bias | None, Score]:
        """Mask, bias and score, made of these tensors."""
        mask, bias, score, *_ = read(self.text, tensors)
        return mask, bias, score

    def grid(self, rows: tuple[int, int], cols: tuple[int, int]) -> Grid:
        return Grid(self.place, rows, cols, self.q.shape[0], self.q.shape[1], self.q.device)

    def pieces(self) -> Iterator[Piece]:
        """The runs of queries, each with the span of keys that any of them may attend to."""
        Q, K = self.q.shape[2], self.k.shape[2]
        mask, _, score = self.parts(self.tensors)
        reach = _reach(mask, K) if self.place.q is None and self.place.k is None else K
        pairs = self.q.shape[0] * self.q.shape[1] * reach * score.cost(self.q.shape[-1])
        step = max(1, min(LONGEST, AT_ONCE // max(pairs, 1)))
        spans = self._spans(mask) if Q and K else None
        for first in range(0, Q, step):
            last = min(first + step, Q)
            low, high = (0, K) if spans is None else spans(first, last)
            yield Piece(self, (first, last), (low, max(low, high)))

    def _spans(self, mask: Mask | None) -> Callable[[int, int], tuple[int, int]]:
        """(first, last) → the span of keys needed, read off the mask as cheaply as possible."""
        K = self.k.shape[2]
        runs = self.place.q is None and self.place.k is None
        before, after = (None, None) if mask is None else mask.span()
        if runs and (before, after) != (None, None):
            start = self.place.start

            def near(first: int, last: int) -> tuple[int, int]:
                low = 0 if before is None else min(max(first + start - before, 0), K)
                return low, K if after is None else max(min(last + start + after, K), 0)

            return near
        if mask is None or self.q.device.type != "cpu" or not mask.has_tiles:
            return lambda first, last: (0, K)  # reading a table would make the GPU wait
        some, _ = three_valued(mask, self.grid((0, self.q.shape[2]), (0, K)))
        table = some.any(0).any(0)

        def tabled(first: int, last: int) -> tuple[int, int]:
            columns = table[first // SIZE : (last - 1) // SIZE + 1].any(0).nonzero()[:, 0]
            if not len(columns):
                return 0, 0
            return int(columns[0]) * SIZE, min((int(columns[-1]) + 1) * SIZE, K)

        return tabled


def _reach(mask: Mask | None, keys: int) -> int:
    before, after = (None, None) if mask is None else mask.span()
    if before is None or after is None:
        return keys
    return min(keys, before + after + 1 + LONGEST)


@dataclass(frozen=True, eq=False)
class Piece:
    """A run of queries and the keys that it needs."""

    work: Work
    span: tuple[int, int]
    cols: tuple[int, int]

    @property
    def rows(self) -> slice:
        return slice(*self.span)

    @property
    def _keys(self) -> slice:
        return slice(*self.cols)

    @property
    def _grid(self) -> Grid:
        return self.work.grid(self.span, self.cols)

    def _mask(self, mask: Mask | None) -> Tensor | None:
        return allowed_if_asked(mask, self._grid)

    def _fused(self, bias: Bias | None, score: Score) -> bool:
        """Whether torch's tiled kernel computes this piece."""
        w = self.work
        return (
            w.q.device.type == "cpu"
            and score.is_dot
            and score.softcap is None
            and bias is None
            and not w.dropout
            and w.q.shape[-1] == w.v.shape[-1]
            and 0 not in (*w.q.shape, self.cols[1] - self.cols[0])
        )

    def _inputs(self, score: Score) -> tuple[Tensor, Tensor, Tensor]:
        w = self.work
        q, k = score.as_dot(w.q[:, :, self.rows], w.k[:, :, self._keys])
        return q, k, w.v[:, :, self._keys]

    def forward(self) -> tuple[Tensor, Tensor]:
        mask, bias, score = self.work.parts(self.work.tensors)
        if not self._fused(bias, score):
            return self._forward_plainly()
        allow = self._mask(mask)
        q, k, v = self._inputs(score)
        out, lse = aten.flash_cpu(q, k, v, _whole(allow, q, k), False, score.factor(q.shape[-1]))
        if allow is not None:
            lse = lse.masked_fill(~allow.any(-1).expand(lse.shape), -torch.inf)
        return (out, lse) if score.sink is None else joined_with_sink(out, lse, score.sink)

    def _forward_plainly(self) -> tuple[Tensor, Tensor]:
        logits, allow, score, v = self._logits(self._wide(), self.work.tensors)
        weights, lse = softmax_with_sink(logits, allow, score.sink)
        keep = self._kept(weights)
        return ((weights if keep is None else weights * keep) @ v).to(self.work.q.dtype), lse

    def _wide(self) -> tuple[Tensor, Tensor, Tensor]:
        w = self.work
        rows = (w.q[:, :, self.rows], w.k[:, :, self._keys], w.v[:, :, self._keys])
        q, k, v = (x.to(w.accumulator) for x in rows)
        return q, k, v

    def _logits(
        self, qkv: tuple[Tensor, Tensor, Tensor], tensors: list[Tensor]
    ) -> tuple[Tensor, Tensor | None, Score, Tensor]:
        """(logits before the mask, mask, score, v repeated for the query heads)."""
        q, k, v = qkv
        k, v = (repeated(x, q.shape[1] // x.shape[1]) for x in (k, v))
        mask, bias, score = self.work.parts(tensors)
        return logits_over(self._grid, q, k, score, bias), self._mask(mask), score, v

    def _kept(self, weights: Tensor) -> Tensor | None:
        """Dropout's factors 0 or 1/(1−p), the same whenever this piece is computed."""
        p = self.work.dropout
        if not p:
            return None
        source = torch.Generator(weights.device).manual_seed(self.work.seed + self.span[0])
        keep = torch.empty_like(weights).bernoulli_(1 - p, generator=source)
        return keep / (1 - p)

    def backward(
        self,
        grads: list[Tensor],
        wanted: list[bool],
        known: tuple[Tensor, Tensor | None, Tensor, Tensor],
    ) -> None:
        """Adds this piece's part to the gradients of q, k, v and of the wanted tensors."""
        grad, grad_lse, out, lse = (None if x is None else x[:, :, self.rows] for x in known)
        assert grad is not None
        assert out is not None
        assert lse is not None
        _, bias, score = self.work.parts(self.work.tensors)
        pairs = zip(self.work.tensors, wanted, strict=True)
        simple = not any(w and x is not score.sink for x, w in pairs) and score.as_is
        if simple and grad_lse is None and self._fused(bias, score):
            self._backward_fused(grads, score, grad, out, lse)
        else:
            self._backward_plainly(grads, wanted, grad, grad_lse, out, lse)
        for target, x, w in zip(grads[3:], self.work.tensors, wanted, strict=True):
            if w and x is score.sink:
                # A key whose value is zero: its slope is −weight · delta.
                delta = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)
                delta = delta if grad_lse is None else delta - grad_lse
                safe = lse.masked_fill(lse == -torch.inf, 0.0)
                slopes = -(x.to(lse.dtype)[:, None] - safe).exp() * delta
                target += slopes.sum((0, 2)).sum_to_size(x.shape)

    def _backward_fused(
        self, grads: list[Tensor], score: Score, grad: Tensor, out: Tensor, lse: Tensor
    ) -> None:
        mask, _, _ = self.work.parts(self.work.tensors)
        q, k, v = self._inputs(score)
        allow = _whole(self._mask(mask), q, k)
        # With a sink, (out, lse) are those of the joined softmax, and the formula stays the same:
        # the sink's weight falls on a value of zero.
        lse = lse.masked_fill(lse == -torch.inf, 0.0)
        dq, dk, dv = aten.flash_cpu_backward(
            grad, (q, k, v, out, lse), allow, score.factor(q.shape[-1])
        )
        grads[0][:, :, self.rows] += dq
        grads[1][:, :, self._keys] += dk
        grads[2][:, :, self._keys] += dv

    def _backward_plainly(  # long: what backward knows
        self,
        grads: list[Tensor],
        wanted: list[bool],
        grad: Tensor,
        grad_lse: Tensor | None,
        out: Tensor,
        lse: Tensor,
    ) -> None:
        acc = self.work.accumulator
        grad, out = grad.to(acc), out.to(acc)
        with aten.autograd_inside():
            q, k, v = (x.detach().requires_grad_() for x in self._wide())
            fresh = [
                x.detach().requires_grad_(w) for x, w in zip(self.work.tensors, wanted, strict=True)
            ]
            logits, allow, _, values = self._logits((q, k, v), fresh)
        filled = (
            logits.detach() if allow is None else logits.detach().masked_fill(~allow, -torch.inf)
        )
        weights = (filled - lse.masked_fill(lse == -torch.inf, 0.0)[..., None]).exp()
        keep = self._kept(weights)
        pulled = grad @ values.detach().mT
        pulled = pulled if keep is None else pulled * keep
        delta = (grad * out).sum(-1)
        delta = delta if grad_lse is None else delta - grad_lse
        slopes = weights * (pulled - delta[..., None])
        used = weights if keep is None else weights * keep
        sources = [q, k, *(x for x in fresh if x.requires_grad)]
        found = torch.autograd.grad(
            [logits, values], [*sources, v], [slopes, used.mT @ grad], allow_unused=True
        )
        targets = [grads[0][:, :, self.rows], grads[1][:, :, self._keys]]
        targets += [g for g, w in zip(grads[3:], wanted, strict=True) if w]
        for target, part in zip([*targets, grads[2][:, :, self._keys]], found, strict=True):
            if part is not None:
                target += part


def _whole(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    return None if mask is None else mask.expand(*mask.shape[:2], q.shape[2], k.shape[2])
