"""Looking back: Luong's and Bahdanau's equations by hand, through the door."""

import pytest
import torch
from torch import Tensor, nn

from atento.core.attend import attend
from atento.core.scores import Additive, Bilinear, Dot
from atento.core.tables import Padding
from atento.core.tap import Site, Tap, tapped
from atento.layers.lookback import Bahdanau, FixedContext, Lookback, Luong, Reached, Source
from atento.layers.recurrent import gru, lstm
from atento.layers.scores import AdditiveScore, BilinearScore
from layers.twins import TOLERANCE, Seen

B, N, M, C = 3, 7, 5, 11
LENGTHS = torch.tensor([7, 2, 5])


def numbers(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def close(one: Tensor, other: Tensor) -> None:
    assert one.shape == other.shape
    assert (one - other).abs().max() <= TOLERANCE


S, H = numbers(1, B, M, C), numbers(2, B, N, C)


def by_hand(score, s: Tensor, h: Tensor, length: int) -> Tensor:
    """Σ_i α_i h_i for one state, with α = e^score / Σ e^score."""
    grades = [score(s, h[i]).exp() for i in range(length)]
    return sum(grade / sum(grades) * h[i] for i, grade in enumerate(grades))


def looked_up(lookback: Lookback, score) -> None:
    found = lookback(S, lookback.keys_values(H), Padding(LENGTHS))
    for b in range(B):
        for j in range(M):
            expected = by_hand(score, S[b, j], H[b], int(LENGTHS[b]))
            close(found[b, j], expected)


def test_dot_equals_the_hand_formula():
    looked_up(Lookback(Dot(scale=1.0)), lambda s, h: s @ h)


def test_attend_with_q_s_and_k_and_v_h_equals_the_hand_formula():
    found = attend(S[:, None], H[:, None], H[:, None], score=Dot(scale=1.0))[:, 0]
    for b in range(B):
        for j in range(M):
            close(found[b, j], by_hand(lambda s, h: s @ h, S[b, j], H[b], N))


def test_general_equals_the_hand_formula():
    torch.manual_seed(0)
    score = BilinearScore(1, C).double()
    looked_up(Lookback(score), lambda s, h: s @ score.weight[0] @ h)


def test_general_with_the_identity_is_dot_exactly():
    score = BilinearScore(1, C).double()
    with torch.no_grad():
        score.weight.copy_(torch.eye(C))
    general, dot = Lookback(score), Lookback(Dot(scale=1.0))
    assert torch.equal(general(S, general.keys_values(H)), dot(S, dot.keys_values(H)))


def test_concat_and_additive_equal_the_hand_formula():
    """vᵀ tanh(W [s; h]) is vᵀ tanh(W_s s + W_h h), W's columns cut in two."""
    torch.manual_seed(0)
    score = AdditiveScore(1, C, 13).double()
    whole = torch.cat([score.query, score.key])  # [2C, A]
    looked_up(Lookback(score), lambda s, h: score.v[0] @ (torch.cat([s, h]) @ whole).tanh())


def test_the_keys_of_an_additive_score_are_made_once():
    lookback = Lookback(AdditiveScore(1, C, 13).double())
    heard = lookback.keys_values(H)
    assert heard.k.shape == (B, 1, N, 13)
    close(heard.k[:, 0], H @ lookback.score.key)
    assert heard.v.data_ptr() == H.data_ptr()


def test_dot_rejects_unequal_widths_and_general_takes_them():
    wide = numbers(3, B, N, C + 2)
    dot = Lookback(Dot(scale=1.0))
    with pytest.raises(ValueError, match=f"{C + 2}"):
        dot(S, dot.keys_values(wide))
    score = BilinearScore(1, C, key_width=C + 2).double()
    general = Lookback(score)
    found = general(S, general.keys_values(wide))
    for b in range(B):
        for j in range(M):
            expected = by_hand(lambda s, h: s @ score.weight[0] @ h, S[b, j], wide[b], N)
            close(found[b, j], expected)


def test_without_scale_the_dot_is_luongs_not_the_transformers():
    assert Lookback(Dot(scale=1.0)).score().factor(C) == 1.0
    assert Bilinear(weight=torch.eye(C)).factor(C) == 1.0
    assert Additive(v=torch.ones(C)).factor(C) == 1.0


class Queries(Tap):
    def __init__(self) -> None:
        self.q: list[Tensor] = []

    def inputs(self, site: Site, q: Tensor, k: Tensor, v: Tensor) -> None:
        self.q.append(q[:, 0].detach())


def begun(lookback: Lookback, layers: int, parts: int) -> tuple[Source, Reached]:
    state = tuple(numbers(7 + n, layers, B, C) for n in range(parts))
    source = Source(state[0][-1], lookback.keys_values(H), Padding(LENGTHS))
    return source, Reached(state, None)


@pytest.mark.parametrize(("made", "parts"), [(lstm, 2), (gru, 1)])
def test_bahdanau_looks_back_with_the_state_before(made, parts):
    torch.manual_seed(0)
    decoder = Bahdanau(made(2 * C, C, 2), Lookback(AdditiveScore(1, C)), C).double()
    source, reached = begun(decoder.lookback, 2, parts)
    y, queries = numbers(5, B, M, C), Queries()
    with tapped(decoder, queries), torch.no_grad():
        said, _ = decoder(y, source, reached)
    state, lookback = reached.state, decoder.lookback
    for j in range(M):
        before = state[0][-1][:, None]
        assert torch.equal(queries.q[j], before)
        c = lookback(before, source.heard, source.mask)
        s, state = decoder.recurrent(torch.cat([y[:, j : j + 1], c], -1), state=state)
        joined = torch.cat([s, c, y[:, j : j + 1]], -1)
        close(said[:, j : j + 1], (joined @ decoder.out.weight.mT).tanh())
    assert not torch.allclose(queries.q[1], queries.q[0])


@pytest.mark.parametrize("fed", [False, True])
def test_luong_looks_back_with_the_state_itself(fed):
    torch.manual_seed(0)
    unit = lstm(2 * C if fed else C, C, 2)
    decoder = Luong(unit, Lookback(BilinearScore(1, C)), C, fed=fed).double()
    source, reached = begun(decoder.lookback, 2, 2)
    y, seen = numbers(5, B, M, C), Queries()
    with tapped(decoder, seen), torch.no_grad():
        said, _ = decoder(y, source, reached)
    state, told = reached.state, torch.zeros(B, 1, C, dtype=torch.float64)
    queries = torch.cat(seen.q, 1)
    for j in range(M):
        x = y[:, j : j + 1]
        s, state = decoder.recurrent(torch.cat([x, told], -1) if fed else x, state=state)
        close(queries[:, j : j + 1], s)
        c = decoder.lookback(s, source.heard, source.mask)
        told = (torch.cat([c, s], -1) @ decoder.out.weight.mT).tanh()
        close(said[:, j : j + 1], told)
    assert len(seen.q) == (M if fed else 1)  # without input feeding all steps look back at once


@pytest.mark.parametrize("fed", [False, True])
def test_the_fixed_context_is_where_the_encoder_ended(fed):
    torch.manual_seed(0)
    decoder = FixedContext(gru(2 * C if fed else C, C), fed=fed).double()
    state = numbers(7, 1, B, C)
    source, y = Source(state[-1], None), numbers(5, B, M, C)
    said, reached = decoder(y, source, Reached((state,), None))
    x = torch.cat([y, state[-1][:, None].expand(-1, M, -1)], -1) if fed else y
    expected, last = decoder.recurrent(x, state=(state,))
    assert torch.equal(said, expected)
    assert torch.equal(reached.state[0], last[0])


@pytest.mark.parametrize("score", [AdditiveScore(1, C), BilinearScore(1, C), Dot(scale=1.0)])
def test_the_weights_of_every_step_sum_to_one_over_the_source(score):
    lookback = Lookback(score).double()
    seen = Seen()
    with tapped(nn.ModuleDict({"lookback": lookback}), seen):
        lookback(S, lookback.keys_values(H), Padding(LENGTHS))
    (weights,), (name,) = seen.all_weights, seen.names
    assert name == "lookback"
    close(weights.sum(-1), torch.ones(B, 1, M, dtype=torch.float64))
    for b, length in enumerate(LENGTHS.tolist()):
        assert not weights[b, ..., length:].any()
        assert (weights[b, ..., :length] > 0).all()
