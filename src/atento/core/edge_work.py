"""The work of the path `edges`, forward and backward: slabs of heads over a graph's edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from atento.core.segments import Rows, greatest, products, runs, sums, totals

__all__: list[str] = []

AT_ONCE = 2**24  # numbers of edges and heads held at once


@dataclass(frozen=True, eq=False)
class Work:
    """One call inside the operator; batch and heads are one axis G, g of it a slab."""

    q: Tensor  # [G, Q, A]
    k: Tensor  # [Gk, K, A]
    v: Tensor  # [Gv, K, Dv]
    weight: Tensor | None  # [H, A] of hidden units; None: a dot product
    edge: Tensor | None  # [E, H|1, A]
    bias: Tensor | None  # [E, B|1, H|1]
    graph: list[Tensor]  # starts, receivers, senders, sender_starts, by_sender
    sizes: tuple[int, int]  # B, H
    scale: float
    slope: float
    softcap: float | None
    dropout: float
    seed: int

    @staticmethod
    def read(
        qkv: list[Tensor],
        weight: Tensor | None,
        edge: Tensor | None,
        bias: Tensor | None,
        graph: list[Tensor],
        plain: tuple[float, float | None, float | None, float],
        seed: Tensor | None,
    ) -> Work:
        q, k, v = (x.flatten(0, 1) for x in qkv)
        B, H = qkv[0].shape[:2]
        scale, slope, softcap, dropout = plain
        number = 0 if seed is None else int(seed)
        slope = 0.0 if slope is None else slope
        return Work(
            *(q, k, v, weight, edge, bias, graph, (B, H), scale, slope, softcap, dropout, number)
        )

    @property
    def rows(self) -> Rows:
        """Receivers × senders."""
        starts, receivers, senders = self.graph[:3]
        return Rows(starts, receivers, senders, self.k.shape[1])

    @property
    def turned(self) -> Rows:
        """Senders × receivers, the places in order of sender."""
        _, receivers, senders, starts, order = self.graph
        cols = receivers.index_select(0, order)
        return Rows(starts, senders.index_select(0, order), cols, self.q.shape[1])

    @property
    def by_sender(self) -> Tensor:
        return self.graph[4]

    @property
    def every(self) -> Tensor:
        return torch.arange(len(self.by_sender), device=self.q.device, dtype=self.by_sender.dtype)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to compute."""
        return 0 in (len(self.by_sender), *self.q.shape, *self.v.shape)

    def slabs(self) -> Iterator[slice]:
        """Runs of G, whole groups of query heads each."""
        group = max(len(self.q) // max(len(self.v), 1), 1)
        each = max(1, AT_ONCE // max(len(self.by_sender) * group, 1)) * group
        for first in range(0, len(self.q), each):
            yield slice(first, min(first + each, len(self.q)))

    def forward(self) -> tuple[Tensor, Tensor]:
        """(out [B, H, Q, Dv], lse [B, H, Q])."""
        G, Q, _ = self.q.shape
        out = self.q.new_zeros(G, Q, self.v.shape[-1])
        lse = self.q.new_full((G, Q), -torch.inf)
        rows, least = self.rows, torch.finfo(self.q.dtype).min
        for slab in self.slabs() if not self.idle else ():
            logits, _ = self._logits(slab)
            top = greatest(rows.starts, logits).clamp_(min=least)
            weights = (logits - top.index_select(0, rows.rows)).exp_()
            total = totals(rows.starts, self.every, weights)
            kept = self._kept(weights, slab)
            weights = weights if kept is None else weights * kept
            empty = total == 0  # nothing to attend to: zeros
            safe = total.masked_fill(empty, 1.0)
            made = sums(rows, weights, self._served(self.v, slab))
            out[slab] = made.div_(safe.T[..., None])
            lse[slab] = (top + safe.log()).masked_fill(empty, -torch.inf).T
        return out.view(*self.sizes, Q, -1), lse.view(*self.sizes, Q)

    def backward(
        self, grad: Tensor, grad_lse: Tensor | None, out: Tensor, lse: Tensor
    ) -> list[Tensor]:
        """The gradients of q, k, v and of weight, edge and bias, as far as they are given."""
        given = (self.q, self.k, self.v, self.weight, self.edge, self.bias)
        grads = [
            None if x is None else torch.zeros_like(x, memory_format=torch.contiguous_format)
            for x in given
        ]
        dv, dbias = grads[2], grads[5]
        assert dv is not None
        delta = (grad * out).sum(-1)
        delta = (delta if grad_lse is None else delta - grad_lse).flatten(0, 1)
        grad, lse = grad.flatten(0, 1), lse.flatten(0, 1)
        for slab in self.slabs() if not self.idle else ():
            logits, capped = self._logits(slab)
            rows = self.rows
            safe = lse[slab].masked_fill(lse[slab] == -torch.inf, 0.0)
            weights = (logits - safe.T.index_select(0, rows.rows)).exp_()
            pulled = products(rows, grad[slab], self._served(self.v, slab))
            kept = self._kept(weights, slab)
            used = weights if kept is None else weights * kept
            pulled = pulled if kept is None else pulled * kept
            slopes = weights * (pulled - delta[slab].T.index_select(0, rows.rows))
            used = used.index_select(0, self.by_sender)
            self._add(dv, slab, sums(self.turned, used, grad[slab]))
            if dbias is not None:
                dbias.flatten(1).index_add_(1, self._bias_columns(slab), slopes)
            if self.softcap is not None:
                slopes = slopes * (1 - (capped / self.softcap).square())
            self._back_through_scores(slopes * self.scale, slab, grads)
        shaped = [
            x.view(self.sizes[0], -1, *x.shape[1:]) if n < 3 and x is not None else x
            for n, x in enumerate(grads)
        ]
        return [x for x in shaped if x is not None]

    def _logits(self, slab: slice) -> tuple[Tensor, Tensor]:
        """(logits [E, g], the same before the bias)."""
        if self.weight is None:
            raw = products(self.rows, self.q[slab], self._served(self.k, slab))
        else:
            raw = self._unit_scores(slab, self.weight)
        capped = raw * self.scale
        if self.softcap is not None:
            capped = self.softcap * (capped / self.softcap).tanh()
        if self.bias is None:
            return capped, capped
        return capped + self.bias.flatten(1).index_select(1, self._bias_columns(slab)), capped

    def _back_through_scores(self, slopes: Tensor, slab: slice, grads: list[Tensor | None]) -> None:
        """Adds what the slopes [E, g] of the raw scores bring to q, k, weight and edge."""
        dq, dk = grads[:2]
        assert dq is not None
        assert dk is not None
        if self.weight is not None:
            self._back_through_units(slopes, slab, self.weight, grads)
            return
        dq[slab] = sums(self.rows, slopes, self._served(self.k, slab))
        turned = slopes.index_select(0, self.by_sender)
        self._add(dk, slab, sums(self.turned, turned, self.q[slab]))

    def _unit_scores(self, slab: slice, weight: Tensor) -> Tensor:  # [E, g]
        tables, heads = self._unit_tables(slab), self._heads(slab)
        a = weight.index_select(0, heads)
        E = len(self.by_sender)
        if a.shape[-1] == 1 and self.edge is None:
            return self._hidden(tables, slice(0, E), heads)[1][..., 0] * a[:, 0]
        out = a.new_empty(E, len(heads))
        for run in runs(E, a.numel()):
            torch.sum(self._hidden(tables, run, heads)[1] * a, -1, out=out[run])
        return out

    def _hidden(
        self, tables: tuple[Tensor, Tensor], run: slice | Tensor, heads: Tensor
    ) -> tuple[Tensor, Tensor]:  # [e, g, A] twice
        """(LeakyReLU's slope, its value) for a run of places."""
        _, receivers, senders, _, _ = self.graph
        x = tables[0].index_select(0, receivers[run])
        x = x.add_(tables[1].index_select(0, senders[run]))
        x = x.view(len(x), len(heads), -1)
        if self.edge is not None:
            # One for all heads broadcasts; others are picked for the slab.
            edge = self.edge[run]
            x = x + (edge if edge.shape[1] == 1 else edge.index_select(1, heads))
        steep = torch.where(x > 0, x.new_ones(()), x.new_full((), self.slope))
        return steep, x * steep

    def _unit_tables(self, slab: slice) -> tuple[Tensor, Tensor]:
        """q and k as [N, g · A]: a node's row is one piece of memory."""
        k = self._served(self.k, slab)
        k = k.repeat_interleave((slab.stop - slab.start) // len(k), 0)
        q = self.q[slab].transpose(0, 1).flatten(1)
        return q, k.transpose(0, 1).flatten(1)

    def _back_through_units(
        self, slopes: Tensor, slab: slice, weight: Tensor, grads: list[Tensor | None]
    ) -> None:
        dq, dk, _, dweight, dedge, _ = grads
        assert dq is not None
        assert dk is not None
        assert dweight is not None
        tables, heads = self._unit_tables(slab), self._heads(slab)
        a = weight.index_select(0, heads)
        mine, its = (torch.zeros_like(x) for x in tables)
        starts, receivers, senders, sender_starts, order = self.graph
        for run in runs(len(order), a.numel()):
            steep, value = self._hidden(tables, run, heads)
            pull = slopes[run, :, None]
            dweight.index_add_(0, heads, (value * pull).sum(0))
            inner = steep.mul_(pull).mul_(a)
            if dedge is not None and dedge.shape[1] == 1:
                dedge[run] += inner.sum(1, keepdim=True)
            elif dedge is not None:
                dedge[run] = dedge[run].index_add(1, heads, inner)
            _add_totals(mine, starts, receivers, run, inner.flatten(1))
        # Once more in order of sender: a sum over neighbours in memory costs less than scattering.
        ordered = senders.index_select(0, order)
        for run in runs(len(order), a.numel()):
            places = order[run]
            steep, _ = self._hidden(tables, places.long(), heads)
            inner = steep.mul_(slopes.index_select(0, places)[..., None]).mul_(a)
            _add_totals(its, sender_starts, ordered, run, inner.flatten(1))
        dq[slab] = mine.view(len(mine), len(heads), -1).transpose(0, 1)
        self._add(dk, slab, its.view(len(its), len(heads), -1).transpose(0, 1))

    def _served(self, x: Tensor, slab: slice) -> Tensor:
        """The heads of k or v that serve a slab."""
        group = len(self.q) // len(x)
        return x[slab.start // group : slab.stop // group]

    def _add(self, target: Tensor, slab: slice, part: Tensor) -> None:
        """Adds what each query head [g, K, D] found to the key head that served it."""
        kept = self._served(target, slab)
        kept += part.reshape(len(kept), -1, *kept.shape[1:]).sum(1)

    def _heads(self, slab: slice) -> Tensor:
        return torch.arange(slab.start, slab.stop, device=self.q.device) % self.sizes[1]

    def _bias_columns(self, slab: slice) -> Tensor:
        """Where a slab's batch and heads stand in the bias [E, B|1 · H|1]."""
        assert self.bias is not None
        _, batch, heads = self.bias.shape
        g = torch.arange(slab.start, slab.stop, device=self.q.device)
        b, h = g // self.sizes[1], g % self.sizes[1]
        return (b if batch > 1 else b * 0) * heads + (h if heads > 1 else h * 0)

    def _kept(self, weights: Tensor, slab: slice) -> Tensor | None:
        """Dropout's factors 0 or 1/(1−p), the same whenever this slab is computed."""
        if not self.dropout:
            return None
        source = torch.Generator(weights.device).manual_seed(self.seed + slab.start)
        keep = torch.empty_like(weights).bernoulli_(1 - self.dropout, generator=source)
        return keep.div_(1 - self.dropout)


def _add_totals(target: Tensor, starts: Tensor, owners: Tensor, run: slice, x: Tensor) -> None:
    """Adds x [e, …], of a run of sorted places, to the rows of target that own them."""
    first, last = int(owners[run.start]), int(owners[run.stop - 1]) + 1
    bounds = starts[first : last + 1].clamp(run.start, run.stop) - run.start
    every = torch.arange(len(x), device=x.device, dtype=starts.dtype)
    target[first:last] += totals(bounds, every, x)
