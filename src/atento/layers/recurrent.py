"""Recurrent networks: what a token hears of the others has passed through every one between them.

torch.nn's kernels compute what agrees with torch's equations; lectures 000's GRU does not, and is
written out here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from atento.layers.dropout import Dropout

__all__ = ["Recurrent", "ResetFirst", "State", "gru", "lecture_gru", "lstm", "rnn"]

State = tuple[Tensor, ...]  # h, of an LSTM also c; each [layers · directions, B, H]


class Recurrent(nn.Module):
    """h_1 … h_N with h_n = f(x_n, h_{n−1}), layer upon layer, for sequences of any lengths.

    `kernel` is f with its layers: nn.RNN, nn.LSTM or nn.GRU with batch_first, or `ResetFirst`;
    `rnn`, `lstm`, `gru` and `lecture_gru` make them. n tokens take n steps, one after another.
    Claim: test_recurrent.py::test_every_unit_equals_its_equations_on_ragged_lengths
    Claim: test_recurrent.py::test_a_token_takes_a_step_and_hears_of_those_before_only
    Claim: bench/records/recurrent_cpu.json
    """

    def __init__(self, kernel: nn.RNN | nn.LSTM | nn.GRU | ResetFirst) -> None:
        super().__init__()
        self.kernel = kernel
        self.directions = 2 if kernel.bidirectional else 1
        self.width = kernel.hidden_size * self.directions  # of what comes out

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: State | None = None
    ) -> tuple[Tensor, State]:
        """x [B, N, C], lengths Int[B] → (h [B, N, H · directions], the state after the last token).

        Beyond a sequence's length h is 0; its last state is that of its own last token, and
        backwards it begins there. `state` is what to begin with: zeros unless given.
        """
        if x.dim() != 3 or x.shape[-1] != self.kernel.input_size:
            raise ValueError(
                f"x must be [B, N, C] = [B, N, {self.kernel.input_size}]; got {list(x.shape)}. "
                "A single sequence is x[None]."
            )
        if lengths is not None:
            _check(lengths, x)
        if isinstance(self.kernel, ResetFirst):
            made: tuple[Tensor, State] = self.kernel(x, lengths, state)
            return made
        # torch takes and returns h itself where there is no c.
        given = state if state is None or len(state) > 1 else state[0]
        if lengths is None:
            out, last = self.kernel(x, given)
        else:
            packed = pack_padded_sequence(x, lengths.cpu(), True, enforce_sorted=False)
            out, last = self.kernel(packed, given)
            out, _ = pad_packed_sequence(out, True, total_length=x.shape[1])
        return out, last if isinstance(last, tuple) else (last,)


def rnn(
    width: int,
    hidden: int | None = None,
    layers: int = 1,
    *,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> Recurrent:
    """h = tanh(W x + b + U h' + b'), where h' is the state before.

    Ref: Elman 1990, Finding structure in time.
    """
    return Recurrent(nn.RNN(**_shape(width, hidden, layers, bidirectional, dropout)))


def lstm(
    width: int,
    hidden: int | None = None,
    layers: int = 1,
    *,
    bidirectional: bool = False,
    dropout: float = 0.0,
    forget_bias: float = 0.0,
) -> Recurrent:
    """c = σ(f) ⊙ c' + σ(i) ⊙ tanh(g) and h = σ(o) ⊙ tanh(c).

    Each of i, f, g and o is a map of its own, W x + b + U h' + b'. `forget_bias` is added to f's,
    so that what is in c stays there from the first step of training on.
    Ref: Hochreiter and Schmidhuber 1997; Gers et al. 2000 (the forget gate); Jozefowicz et al.
    2015, section 2.2 (its bias).
    """
    kernel = nn.LSTM(**_shape(width, hidden, layers, bidirectional, dropout))
    with torch.no_grad():
        for name, bias in kernel.named_parameters():
            if name.startswith("bias_hh"):  # in torch's order: i, f, g, o
                bias.chunk(4)[1].add_(forget_bias)
    return Recurrent(kernel)


def gru(
    width: int,
    hidden: int | None = None,
    layers: int = 1,
    *,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> Recurrent:
    """h = (1 − z) ⊙ n + z ⊙ h' with n = tanh(W x + b + r ⊙ (U h' + b')): torch's.

    r = σ(…) and z = σ(…), each with its own maps of x and h'. The reset comes after the product,
    so that the kernel makes all three of h' at once, and z is the share of what stays: in both the
    contrary of `lecture_gru`.
    """
    return Recurrent(nn.GRU(**_shape(width, hidden, layers, bidirectional, dropout)))


def lecture_gru(
    width: int,
    hidden: int | None = None,
    layers: int = 1,
    *,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> Recurrent:
    """The GRU as lecture 000 and its inventors write it: see `ResetFirst`."""
    return Recurrent(
        ResetFirst(
            width,
            width if hidden is None else hidden,
            layers,
            bidirectional=bidirectional,
            dropout=dropout,
        )
    )


class ResetFirst(nn.Module):
    """h = (1 − z) ⊙ h' + z ⊙ h̃ with h̃ = tanh(W x + U (r ⊙ h')), without biases.

    z = σ(W_z x + U_z h') and r = σ(W_r x + U_r h'). Called as torch's kernels are, but with lengths
    instead of packed sequences, and the state in a tuple.
    Ref: lecture 000; Cho et al. 2014, arXiv:1406.1078, equations 5 to 8 (whose z is 1 − z here).
    Claim: test_recurrent.py::test_the_two_gru_conventions_differ
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.bidirectional = num_layers, bidirectional
        self.dropout = Dropout(dropout)
        directions = 2 if bidirectional else 1
        widths = [input_size] + [hidden_size * directions] * (num_layers - 1)
        cells = [_ResetFirstCell(width, hidden_size) for width in widths for _ in range(directions)]
        self.cells = nn.ModuleList(cells)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: State | None = None
    ) -> tuple[Tensor, State]:
        """x [B, N, C] → (h [B, N, H · directions], (the last h [layers · directions, B, H],))."""
        zeros = x.new_zeros(len(self.cells), len(x), self.hidden_size)
        begin = zeros if state is None else state[0]
        real: Tensor | None = None
        if lengths is not None:
            real = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
        directions = 2 if self.bidirectional else 1
        last = []
        for first in range(0, len(self.cells), directions):
            if first:
                x = self.dropout(x)
            heard = []
            for n in range(first, first + directions):
                cell = cast(_ResetFirstCell, self.cells[n])
                out, end = _unrolled(cell, x, begin[n], real, backwards=n > first)
                heard.append(out)
                last.append(end)
            x = torch.cat(heard, -1)
        return x, (torch.stack(last),)


class _ResetFirstCell(nn.Module):
    """One layer in one direction: W_z, W_r and W stacked, U_z and U_r stacked, and U."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        reach = hidden**-0.5  # torch's own range for recurrent weights
        self.inputs = nn.Parameter(torch.empty(3 * hidden, width).uniform_(-reach, reach))
        self.gates = nn.Parameter(torch.empty(2 * hidden, hidden).uniform_(-reach, reach))
        self.state = nn.Parameter(torch.empty(hidden, hidden).uniform_(-reach, reach))

    def forward(self, mapped: Tensor, h: Tensor) -> Tensor:
        """The next h [B, H], from (W_z x, W_r x, W x) [B, 3H] and h [B, H]."""
        for_gates, for_new = mapped.tensor_split([2 * h.shape[-1]], -1)
        z, r = (for_gates + h @ self.gates.mT).sigmoid().chunk(2, -1)
        new = (for_new + (r * h) @ self.state.mT).tanh()
        return h + z * (new - h)


def _unrolled(
    cell: _ResetFirstCell, x: Tensor, h: Tensor, real: Tensor | None, *, backwards: bool
) -> tuple[Tensor, Tensor]:  # [B, N, H], [B, H]
    """Every state and the last one; where a token is not real, the state stays as it was."""
    mapped = x @ cell.inputs.mT  # of all tokens at once: it needs no state
    out: list[Tensor] = [h] * x.shape[1]
    for n in _order(x.shape[1], backwards):
        new = cell(mapped[:, n], h)
        if real is None:
            h = out[n] = new
        else:
            h = torch.where(real[:, n, None], new, h)
            out[n] = new * real[:, n, None]
    return torch.stack(out, 1), h


def _order(length: int, backwards: bool) -> Iterator[int]:
    return reversed(range(length)) if backwards else iter(range(length))


def _shape(
    width: int, hidden: int | None, layers: int, bidirectional: bool, dropout: float
) -> dict[str, int | bool | float]:
    """The arguments of torch's kernels, which warn of dropout where no layer follows."""
    return {
        "input_size": width,
        "hidden_size": width if hidden is None else hidden,
        "num_layers": layers,
        "batch_first": True,
        "bidirectional": bidirectional,
        "dropout": dropout if layers > 1 else 0.0,
    }


def _check(lengths: Tensor, x: Tensor) -> None:
    if lengths.shape != x.shape[:1] or lengths.is_floating_point():
        raise ValueError(
            f"lengths must be Int[B] = [{len(x)}], one for each sequence; got {lengths.dtype} "
            f"{list(lengths.shape)}."
        )
    least, most = int(lengths.min()), int(lengths.max())
    if least < 1 or most > x.shape[1]:
        raise ValueError(
            f"lengths must be 1 … N = {x.shape[1]}; got {least} … {most}. A sequence has a token "
            "at least: leave empty ones out."
        )
