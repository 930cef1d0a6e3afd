"""Recurrent layers against their gate equations, written out one number-vector at a time."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from atento.layers.recurrent import Recurrent, ResetFirst, gru, lecture_gru, lstm, rnn
from layers.twins import TOLERANCE

B, N, C, H = 5, 7, 3, 11
LENGTHS = torch.tensor([7, 1, 4, 2, 6])
Weights = dict[str, Tensor]
State = tuple[Tensor, ...]


def numbers(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def rnn_step(w: Weights, x: Tensor, state: State) -> State:
    return (torch.tanh(w["x"] @ x + w["bx"] + w["h"] @ state[0] + w["bh"]),)


def lstm_step(w: Weights, x: Tensor, state: State) -> State:
    h, c = state
    a = w["x"] @ x + w["bx"] + w["h"] @ h + w["bh"]
    i, f = torch.sigmoid(a[:H]), torch.sigmoid(a[H : 2 * H])
    g, o = torch.tanh(a[2 * H : 3 * H]), torch.sigmoid(a[3 * H :])
    c = f * c + i * g
    return o * torch.tanh(c), c


def gru_step(w: Weights, x: Tensor, state: State) -> State:
    (h,) = state
    from_x, from_h = w["x"] @ x + w["bx"], w["h"] @ h + w["bh"]
    r = torch.sigmoid(from_x[:H] + from_h[:H])
    z = torch.sigmoid(from_x[H : 2 * H] + from_h[H : 2 * H])
    n = torch.tanh(from_x[2 * H :] + r * from_h[2 * H :])
    return ((1 - z) * n + z * h,)


def lecture_step(w: Weights, x: Tensor, state: State) -> State:
    (h,) = state
    z = torch.sigmoid(w["inputs"][:H] @ x + w["gates"][:H] @ h)
    r = torch.sigmoid(w["inputs"][H : 2 * H] @ x + w["gates"][H:] @ h)
    new = torch.tanh(w["inputs"][2 * H :] @ x + w["state"] @ (r * h))
    return ((1 - z) * h + z * new,)


UNITS: dict[str, tuple[Callable[..., Recurrent], Callable[..., State], int]] = {
    "rnn": (rnn, rnn_step, 1),
    "lstm": (lstm, lstm_step, 2),
    "gru": (gru, gru_step, 1),
    "lecture_gru": (lecture_gru, lecture_step, 1),
}


def weights_of(model: Recurrent, layer: int, direction: int) -> Weights:
    kernel = model.kernel
    if isinstance(kernel, ResetFirst):
        return dict(kernel.cells[layer * model.directions + direction].named_parameters())
    end = f"l{layer}{'_reverse' * direction}"
    names = {"x": "weight_ih", "h": "weight_hh", "bx": "bias_ih", "bh": "bias_hh"}
    return {short: getattr(kernel, f"{name}_{end}") for short, name in names.items()}


def by_hand(
    model: Recurrent,
    step: Callable[..., State],
    x: Tensor,
    lengths: Tensor,
    state: State,
    layers: int,
) -> tuple[Tensor, State]:
    """Sequence by sequence, token by token, each layer and direction."""
    ends = tuple(torch.zeros_like(part) for part in state)
    out = torch.zeros(len(x), x.shape[1], model.width, dtype=torch.float64)
    for b, length in enumerate(lengths.tolist()):
        heard = x[b, :length]
        for layer in range(layers):
            told = torch.zeros(length, model.width, dtype=torch.float64)
            for direction in range(model.directions):
                row, w = layer * model.directions + direction, weights_of(model, layer, direction)
                now = tuple(part[row, b] for part in state)
                for n in reversed(range(length)) if direction else range(length):
                    now = step(w, heard[n], now)
                    told[n, direction * H : direction * H + H] = now[0]
                for end, part in zip(ends, now, strict=True):
                    end[row, b] = part
            heard = told
        out[b, :length] = heard
    return out, ends


def close(one: Tensor, other: Tensor) -> None:
    assert one.shape == other.shape
    assert (one - other).abs().max() <= TOLERANCE


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_equals_its_equations_on_ragged_lengths(unit, layers, bidirectional):
    made, step, parts = UNITS[unit]
    torch.manual_seed(0)
    model = made(C, H, layers, bidirectional=bidirectional).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = numbers(1, B, N, C)
    begin = tuple(numbers(2 + p, layers * model.directions, B, H) for p in range(parts))
    with torch.no_grad():
        out, last = model(x, LENGTHS, begin)
        expected, ends = by_hand(model, step, x, LENGTHS, begin, layers)
        close(out, expected)
        for one, other in zip(last, ends, strict=True):
            close(one, other)
        # From zeros, all of one length.
        nothing = tuple(torch.zeros_like(part) for part in begin)
        whole = torch.full((B,), N)
        close(model(x)[0], by_hand(model, step, x, whole, nothing, layers)[0])


@pytest.mark.parametrize(("made", "theirs"), [(rnn, nn.RNN), (lstm, nn.LSTM), (gru, nn.GRU)])
def test_with_the_same_weights_torchs_modules_say_the_same(made, theirs):
    torch.manual_seed(0)
    model = made(C, H, 2, bidirectional=True)
    peer = theirs(C, H, 2, batch_first=True, bidirectional=True)
    peer.load_state_dict(model.kernel.state_dict())
    x = numbers(1, B, N, C).float()
    out, state = peer(x)
    ours, last = model(x)
    assert torch.equal(ours, out)
    assert torch.equal(last[0], state[0] if isinstance(state, tuple) else state)


def test_the_lstm_equals_torchs_lstm_cell():
    torch.manual_seed(0)
    model, cell = lstm(C, H).double(), nn.LSTMCell(C, H).double()
    cell.load_state_dict({name[:-3]: x for name, x in model.kernel.state_dict().items()})
    x, now = numbers(1, B, N, C), (numbers(2, B, H), numbers(3, B, H))
    out, last = model(x, state=(now[0][None], now[1][None]))
    for n in range(N):
        now = cell(x[:, n], now)
        close(out[:, n], now[0])
    close(last[1][0], now[1])


@pytest.mark.parametrize("made", [rnn, lstm, gru, lecture_gru])
def test_both_directions_are_a_pass_and_a_flipped_pass_beside_it(made):
    torch.manual_seed(0)
    both = made(C, H, bidirectional=True).double()
    forward, backward = made(C, H).double(), made(C, H).double()
    for one, direction in ((forward, 0), (backward, 1)):
        mine = weights_of(one, 0, 0)
        for name, weight in weights_of(both, 0, direction).items():
            mine[name].data.copy_(weight)
    x = numbers(1, B, N, C)
    flipped = backward(x.flip(1))[0].flip(1)
    close(both(x)[0], torch.cat([forward(x)[0], flipped], -1))


def test_the_two_gru_conventions_differ():
    """The same weights, mapped to each other's names: z the other way round, no biases."""
    torch.manual_seed(0)
    theirs, ours = gru(C, H).double(), lecture_gru(C, H).double()
    cell = ours.kernel.cells[0]
    with torch.no_grad():
        for name, parameter in theirs.kernel.named_parameters():
            parameter.zero_() if "bias" in name else nn.init.normal_(parameter)
        (rx, zx, nx) = theirs.kernel.weight_ih_l0.chunk(3)
        (rh, zh, nh) = theirs.kernel.weight_hh_l0.chunk(3)
        # 1 − σ(a) = σ(−a): the lecture's z is the share of what is new.
        cell.inputs.copy_(torch.cat([-zx, rx, nx]))
        cell.gates.copy_(torch.cat([-zh, rh]))
        cell.state.copy_(nh)
        x = numbers(1, B, N, C)
        out, other = theirs(x)[0], ours(x)[0]
    # From a state of zeros there is nothing to reset: the first step is the same in both.
    close(out[:, 0], other[:, 0])
    assert (out - other).abs().max() > 0.01
    assert not [name for name, _ in ours.named_parameters() if "bias" in name]


@pytest.mark.parametrize("made", [rnn, lstm, gru, lecture_gru])
def test_a_token_takes_a_step_and_hears_of_those_before_only(made):
    torch.manual_seed(0)
    model = made(C, H).double()
    x = numbers(1, B, N, C)
    whole, last = model(x)
    state, pieces = None, []
    for n in range(N):  # the n-th needs the state that the one before it left
        out, state = model(x[:, n : n + 1], state=state)
        pieces.append(out)
    close(torch.cat(pieces, 1), whole)
    close(state[0], last[0])
    changed = x.clone()
    changed[:, 4] += 1
    assert torch.equal(model(changed)[0][:, :4], whole[:, :4])
    assert not torch.isclose(model(changed)[0][:, 4:], whole[:, 4:]).all(-1).any()


@pytest.mark.parametrize("made", [rnn, lstm, gru, lecture_gru])
def test_padding_changes_nothing_before_it(made):
    torch.manual_seed(0)
    model = made(C, H, 2, bidirectional=True).double()
    x = numbers(1, B, N, C)
    longer = torch.cat([x, numbers(9, B, 4, C)], 1)
    other = longer.clone()
    for b, length in enumerate(LENGTHS.tolist()):
        other[b, length:] = 1e3
    out, last = model(longer, LENGTHS)
    again, ends = model(other, LENGTHS)
    assert torch.equal(out, again)
    for one, two in zip(last, ends, strict=True):
        assert torch.equal(one, two)
    for b, length in enumerate(LENGTHS.tolist()):
        assert not out[b, length:].any()
        close(out[b, :length], model(x[b : b + 1, :length])[0][0])


@pytest.mark.parametrize("made", [rnn, lstm, gru, lecture_gru])
def test_dropout_falls_between_layers_in_training_only(made):
    torch.manual_seed(0)
    model = made(C, H, 2, dropout=0.5)
    x = numbers(1, B, N, C).float()
    assert not torch.equal(model(x)[0], model(x)[0])
    model.eval()
    assert torch.equal(model(x)[0], model(x)[0])
    single = made(C, H, dropout=0.5)  # no layer follows, so there is nothing to drop
    assert torch.equal(single(x)[0], single(x)[0])


def test_the_forget_bias_is_added_to_the_forget_gates_alone():
    torch.manual_seed(0)
    plain = lstm(C, H, 2, bidirectional=True)
    torch.manual_seed(0)
    open_wide = lstm(C, H, 2, bidirectional=True, forget_bias=3.0)
    for (name, one), (_, two) in zip(
        plain.named_parameters(), open_wide.named_parameters(), strict=True
    ):
        expected = torch.zeros_like(one)
        if "bias_hh" in name:
            expected[H : 2 * H] = 3.0
        torch.testing.assert_close(two - one, expected)


@pytest.mark.parametrize("made", [rnn, lecture_gru])
def test_gradients_reach_every_parameter_and_the_first_state(made):
    torch.manual_seed(0)
    model = made(C, 2, 2, bidirectional=True).double()
    x, begin = numbers(1, 2, 3, C).requires_grad_(), numbers(2, 4, 2, 2).requires_grad_()
    lengths = torch.tensor([3, 2])
    assert torch.autograd.gradcheck(lambda x, h: model(x, lengths, (h,))[0], (x, begin))
    model(x, lengths)[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        (torch.tensor([7, 1, 4, 2]), r"Int\[B\] = \[5\]"),
        (torch.tensor([7.0, 1, 4, 2, 6]), "float32"),
        (torch.tensor([7, 0, 4, 2, 6]), "leave empty ones out"),
        (torch.tensor([7, 8, 4, 2, 6]), "1 … N = 7; got 2 … 8"),
    ],
)
def test_lengths_that_cannot_be_are_named(lengths, said):
    with pytest.raises(ValueError, match=said):
        rnn(C, H)(torch.zeros(B, N, C), lengths)


def test_a_single_sequence_is_told_how_to_come():
    with pytest.raises(ValueError, match=r"x\[None\]"):
        lstm(C, H)(torch.zeros(N, C))
