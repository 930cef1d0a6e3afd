"""Decoders that look back at the source: the fixed context, Bahdanau's and Luong's."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from atento.core.attend import attend
from atento.core.compose import Mask
from atento.core.scores import Additive, Score
from atento.core.tap import Slot, Tap
from atento.layers.attention import KeysValues
from atento.layers.fixed import owned
from atento.layers.recurrent import Recurrent, State

__all__ = ["Bahdanau", "FixedContext", "Lookback", "Luong", "Reached", "Source"]


class Source(NamedTuple):
    """What a decoder hears of a batch of sources."""

    whole: Tensor  # c = h_N [B, C], the encoder's last state
    heard: KeysValues | None  # its states, [B, 1, N, C] and as keys [B, 1, N, A]
    mask: Mask | None = None


class Reached(NamedTuple):
    """Where a decoder is after a token."""

    state: State
    told: Tensor | None  # [B, 1, C], what enters the next step beside its token


class Lookback(nn.Module):
    """c = Σ_i α_i h_i with α = softmax over i of score(s, h_i): the alignment of a state s.

    Keys and values are the encoder's states themselves, and there is one head. `score` is the
    door's, or a module whose call returns one: `AdditiveScore` (Bahdanau; Luong's concat),
    `BilinearScore` (Luong's general), Dot(scale=1) (Luong's dot).
    Claim: test_lookback.py::test_dot_equals_the_hand_formula
    """

    tap: Slot | Tap | None = None

    def __init__(self, score: Score | nn.Module) -> None:
        super().__init__()
        self.score = owned(score)

    def keys_values(self, states: Tensor) -> KeysValues:
        """What `forward` takes of states h [B, N, C]; of an additive score W_k h is made here."""
        score, h = self.score(), states[:, None]
        if isinstance(score, Additive) and score.key is not None:
            return KeysValues((h @ score.key).to(h.dtype), h)  # autocast makes the product narrower
        return KeysValues(h, h)

    def forward(self, s: Tensor, heard: KeysValues, mask: Mask | None = None) -> Tensor:
        """s [B, M, C] → c [B, M, C]."""
        score: Score = self.score()
        if isinstance(score, Additive):
            score = replace(score, key=None)
        q = s[:, None].to(heard.v.dtype)
        return attend(q, *heard, mask=mask, score=score, tap=self.tap)[:, 0]


class FixedContext(nn.Module):
    """s_j = f(y_{j−1}, s_{j−1}) with s_0 = c = h_N: all that is known of the source is c.

    With `fed` every step is told c again: s_j = f([y_{j−1}; c], s_{j−1}).
    Ref: Sutskever et al. 2014, arXiv:1409.3215; Cho et al. 2014, arXiv:1406.1078 (fed).
    """

    lookback: Lookback | None = None

    def __init__(self, recurrent: Recurrent, *, fed: bool = False) -> None:
        super().__init__()
        self.recurrent, self.fed = recurrent, fed

    def forward(self, y: Tensor, source: Source, reached: Reached) -> tuple[Tensor, Reached]:
        """y [B, M, C] → (s [B, M, C], where the decoder is now)."""
        if self.fed:
            y = torch.cat([y, source.whole[:, None].expand(-1, y.shape[1], -1)], -1)
        s, state = self.recurrent(y, state=reached.state)
        return s, Reached(state, None)


class Luong(nn.Module):
    """o_j = tanh(W [c_j; s_j]) with s_j = f(y_{j−1}, s_{j−1}) and c_j looked up by s_j.

    With `fed` (input feeding) s_j = f([y_{j−1}; o_{j−1}], s_{j−1}), so that a step knows what was
    looked at before it; without it all steps look back at once.
    Ref: Luong et al. 2015, arXiv:1508.04025, sections 3.1 and 3.3, equation 5.
    """

    def __init__(
        self, recurrent: Recurrent, lookback: Lookback, width: int, *, fed: bool = False
    ) -> None:
        super().__init__()
        self.recurrent, self.lookback, self.fed = recurrent, lookback, fed
        self.out = nn.Linear(2 * width, width, bias=False)

    def forward(self, y: Tensor, source: Source, reached: Reached) -> tuple[Tensor, Reached]:
        """y [B, M, C] → (o [B, M, C], where the decoder is now)."""
        assert source.heard is not None
        said = []
        state, told = reached
        for piece in y.chunk(y.shape[1], 1) if self.fed else (y,):
            if self.fed:
                before = torch.zeros_like(piece) if told is None else told
                piece = torch.cat([piece, before], -1)
            s, state = self.recurrent(piece, state=state)
            c = self.lookback(s, source.heard, source.mask)
            told = self.out(torch.cat([c, s], -1)).tanh()
            said.append(told)
        return torch.cat(said, 1), Reached(state, told if self.fed else None)


class Bahdanau(nn.Module):
    """o_j = tanh(W [s_j; c_j; y_{j−1}]) with s_j = f([y_{j−1}; c_j], s_{j−1}), c_j from s_{j−1}.

    It must be s_{j−1} that looks back: s_j is made from c_j, so a score of s_j, as lecture 000
    writes it, would need what it is to make. The first step looks back with s_0, which is the
    encoder's last state. The paper's o_j has a maxout of s_{j−1} in place of this tanh of s_j.
    Ref: Bahdanau et al. 2015, arXiv:1409.0473, section 3.1 and appendix A.2.2.
    Claim: test_lookback.py::test_bahdanau_looks_back_with_the_state_before
    """

    def __init__(self, recurrent: Recurrent, lookback: Lookback, width: int) -> None:
        super().__init__()
        self.recurrent, self.lookback = recurrent, lookback
        self.out = nn.Linear(3 * width, width, bias=False)

    def forward(self, y: Tensor, source: Source, reached: Reached) -> tuple[Tensor, Reached]:
        """y [B, M, C] → (o [B, M, C], where the decoder is now)."""
        assert source.heard is not None
        state, told = reached.state, []
        for piece in y.chunk(y.shape[1], 1):
            before = state[0][-1][:, None]  # the last layer's h
            c = self.lookback(before, source.heard, source.mask)
            s, state = self.recurrent(torch.cat([piece, c], -1), state=state)
            told.append(torch.cat([s, c, piece], -1))
        return self.out(torch.cat(told, 1)).tanh(), Reached(state, None)
