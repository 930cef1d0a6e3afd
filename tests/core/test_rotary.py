"""Rotary positions against complex numbers and against the papers' formulas, written out here."""

import cmath
import math

import pytest
import torch

from atento.core.attend import attend
from atento.core.masks import Causal
from atento.core.positions import Positions
from atento.core.rotary import Rotary
from core_oracle import EXACT, qkv

B, H, N, D = 2, 3, 5, 22


def turned(x, position, frequencies, interleaved=False, amplitude=1.0):
    """One vector of plain numbers: each pair is a complex number times e^(i·position·θ)."""
    out, half = list(x), len(frequencies)
    for n, theta in enumerate(frequencies):
        a, b = (2 * n, 2 * n + 1) if interleaved else (n, n + half)
        z = complex(x[a], x[b]) * cmath.exp(1j * max(position, 0) * theta) * amplitude
        out[a], out[b] = z.real, z.imag
    return out


def all_turned(x, positions, frequencies, **kw):
    rows = [
        [
            [
                turned(x[b, h, n].tolist(), positions[b][n], frequencies, **kw)
                for n in range(x.shape[2])
            ]
            for h in range(x.shape[1])
        ]
        for b in range(x.shape[0])
    ]
    return torch.tensor(rows, dtype=torch.float64)


def standard(width, base=10_000.0):
    return [base ** (-2 * n / width) for n in range(width // 2)]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [22, 14, 2])
def test_pairs_are_turned_by_position_times_frequency_and_the_rest_is_kept(width, interleaved):
    q, k, _ = qkv(B, H, N, 7, D)
    got_q, got_k = Rotary.standard(width, interleaved=interleaved).rotate(q, k, 3)
    kw = {"interleaved": interleaved}
    assert (got_q - all_turned(q, [range(3, 8)] * B, standard(width), **kw)).abs().max() < EXACT
    assert (got_k - all_turned(k, [range(7)] * B, standard(width), **kw)).abs().max() < EXACT
    assert torch.equal(got_q[..., width:], q[..., width:])


@pytest.mark.parametrize("base", [100.0, 10_000.0, 500_000.0])
def test_standard_frequencies(base):
    made = Rotary.standard(16, base).frequencies.tolist()
    assert made == pytest.approx(standard(16, base), rel=1e-14)


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_linear_scaling_divides_the_positions(factor):
    q, k, _ = qkv(B, H, N, N, D)
    # Positions 0, f, 2f … in a context stretched by f are 0, 1, 2 … in the plain one.
    at = Positions(*[torch.arange(N) * int(factor)] * 2)
    stretched = Rotary.linear(D, factor).rotate(q, k, at)
    for got, expected in zip(stretched, Rotary.standard(D).rotate(q, k), strict=True):
        assert (got - expected).abs().max() < EXACT
    made = Rotary.linear(D, factor).frequencies.tolist()
    assert made == pytest.approx([f / factor for f in standard(D)], rel=1e-14)


def test_ntk_keeps_the_fastest_frequency_and_divides_the_slowest():
    made = Rotary.ntk(16, 8.0).frequencies.tolist()
    assert made[0] == 1.0
    assert made[-1] == pytest.approx(standard(16)[-1] / 8, rel=1e-12)
    base = 10_000 * 8 ** (16 / 14)
    assert made == pytest.approx(standard(16, base), rel=1e-12)


def test_ntk_of_a_single_pair_has_nothing_to_stretch_or_says_so():
    # One frequency is the fastest and the slowest at once.
    with pytest.raises(ValueError, match="width"):
        Rotary.ntk(2, 4.0)


@pytest.mark.parametrize(
    ("width", "factor", "trained", "base"),
    [
        (64, 4.0, 2048, 10_000.0),
        (128, 16.0, 4096, 10_000.0),
        (22, 2.0, 64, 500.0),
        (64, 1.0, 2048, 1e4),
    ],
)
def test_yarn_follows_the_paper(width, factor, trained, base):
    """Equations of section 3: γ ramps over r = trained / wavelength, between α = 1 and β = 32."""

    def dimension(turns):  # where a pair makes so many turns within the trained context
        return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), width - 1)
    expected = []
    for n, theta in enumerate(standard(width, base)):
        divided = min(max((n - low) / max(high - low, 0.001), 0), 1)
        expected.append(theta / factor * divided + theta * (1 - divided))
    made = Rotary.yarn(width, factor, trained, base)
    assert made.frequencies.tolist() == pytest.approx(expected, rel=1e-12)
    assert made.amplitude == pytest.approx(0.1 * math.log(factor) + 1, rel=1e-14)
    turns = [trained * theta / (2 * math.pi) for theta in standard(width, base)]
    for often, theta, plain in zip(
        turns, made.frequencies.tolist(), standard(width, base), strict=True
    ):
        if often > 40:
            assert theta == pytest.approx(plain, rel=1e-12), "a fast frequency is kept"
        if often < 0.8:
            assert theta == pytest.approx(plain / factor, rel=1e-12), "a slow one is divided"


def test_amplitude_multiplies_what_is_turned_only():
    q, k, _ = qkv(B, H, N, N, D)
    rotary = Rotary(torch.tensor(standard(8), dtype=torch.float64), amplitude=1.3)
    got, _ = rotary.rotate(q, k)
    expected = all_turned(q, [range(N)] * B, standard(8), amplitude=1.3)
    assert (got - expected).abs().max() < EXACT
    assert torch.equal(got[..., 8:], q[..., 8:])


def test_empty_slots_are_left_as_they_are_whatever_the_amplitude():
    q, k, _ = qkv(B, H, N, N, D)
    at = Positions(torch.arange(N), torch.tensor([0, -1, 1, -1, 2]))
    for rotary in (Rotary.standard(D), Rotary.yarn(D, 4.0, 64)):
        _, got = rotary.rotate(q, k, at)
        assert torch.equal(got[:, :, [1, 3]], k[:, :, [1, 3]])


@pytest.mark.parametrize("interleaved", [False, True])
def test_scores_depend_on_relative_positions_only(interleaved):
    q, k, _ = qkv(B, H, N, 7, D)
    rotary = Rotary.standard(16, interleaved=interleaved)
    i, j = torch.arange(N), torch.arange(7)
    scores = [
        torch.einsum("bhqd,bhkd->bhqk", *rotary.rotate(q, k, Positions(i + s, j + s)))
        for s in (0, 1, 1000)
    ]
    assert (scores[0] - scores[1]).abs().max() < EXACT
    assert (scores[0] - scores[2]).abs().max() < 1e-10  # cos and sin of angles near 1000
    far = torch.einsum("bhqd,bhkd->bhqk", *rotary.rotate(q, k, Positions(i + 1, j)))
    assert (scores[0] - far).abs().max() > 1e-3


def test_each_sequence_may_stand_elsewhere():
    q, k, _ = qkv(B, H, N, 7, D)
    i = [[3, 1, 4, 1, 5], [9, 2, 6, 5, -1]]
    j = [[0, 2, 1, 8, 2, 8, -1], [1, 8, 2, 8, 4, 5, 9]]
    got_q, got_k = Rotary.standard(D).rotate(q, k, Positions(torch.tensor(i), torch.tensor(j)))
    assert (got_q - all_turned(q, i, standard(D))).abs().max() < EXACT
    assert (got_k - all_turned(k, j, standard(D))).abs().max() < EXACT
    by_start, _ = Rotary.standard(D).rotate(q, k, torch.tensor([2, 5]))
    starts = [range(2, 7), range(5, 10)]
    assert (by_start - all_turned(q, starts, standard(D))).abs().max() < EXACT


def test_rotation_keeps_lengths_and_dtype():
    for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        x = torch.randn(B, H, N, D).to(dtype)
        got = Rotary.standard(D).turned(x, torch.arange(N) * 100)
        assert got.dtype == dtype
        assert (got.double().norm(dim=-1) - x.double().norm(dim=-1)).abs().max() < tolerance


@pytest.mark.parametrize("position", [10, 1000, 100_003, 1_000_003])
def test_float32_is_as_exact_far_away_as_near(position):
    # An angle of 10⁵ in float32 is off by 4e-3, which is why frequencies are float64.
    x = torch.randn(B, H, 1, D, generator=torch.Generator().manual_seed(0))
    at = torch.tensor([position])
    expected = all_turned(x.double(), [[position]] * B, standard(D))
    got = Rotary.standard(D).turned(x, at)
    assert (got.double() - expected).abs().max() < 1e-5


def test_gradients_turn_back():
    x = torch.randn(B, H, N, D, dtype=torch.float64, requires_grad=True)
    positions = torch.arange(N) * 3
    rotary = Rotary.yarn(16, 2.0, 64)
    grad = torch.randn(B, H, N, D, dtype=torch.float64)
    rotary.turned(x, positions).backward(grad)
    back = Rotary(-rotary.frequencies, rotary.amplitude).turned(grad, positions)
    assert (x.grad - back).abs().max() < EXACT


def test_learned_frequencies_get_gradients():
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    frequencies = torch.tensor([1.0, 0.1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f: Rotary(f).turned(x, torch.arange(3)), (frequencies,))


def test_decoding_step_by_step_equals_the_whole():
    q, k, v = qkv(B, H, 7, 7, D)
    rotary = Rotary.standard(D)
    whole = attend(*rotary.rotate(q, k), v, mask=Causal(), path="reference")
    for n in range(7):
        step_q, step_k = rotary.rotate(q[:, :, n : n + 1], k[:, :, : n + 1], n)
        out = attend(step_q, step_k, v[:, :, : n + 1], mask=Causal(), at=n)
        assert (out - whole[:, :, n : n + 1]).abs().max() < EXACT


def test_positions_forgotten_are_an_error_here_too():
    # Rotary reads the query's position; 1 query on 7 keys does not say where it stands.
    q, k, _ = qkv(B, H, 1, 7, D)
    with pytest.raises(ValueError, match="at"):
        Rotary.standard(D).rotate(q, k)


@pytest.mark.parametrize("width", [0, 1, 7, -2])
def test_widths_are_even(width):
    with pytest.raises(ValueError, match=f"even.*got {width}"):
        Rotary.standard(width)


def test_heads_that_are_too_narrow_are_named():
    q, k, _ = qkv(B, H, N, N, 11)
    with pytest.raises(ValueError, match=r"turns 16 numbers.*width 11"):
        Rotary.standard(16).rotate(q, k)


@pytest.mark.parametrize("make", [Rotary.linear, Rotary.ntk])
def test_factors_below_one_are_refused(make):
    with pytest.raises(ValueError, match=r"factor must be ≥ 1.*got 0.5"):
        make(8, 0.5)
    with pytest.raises(ValueError, match=r"factor must be ≥ 1.*got 0.5"):
        Rotary.yarn(8, 0.5, 64)


def test_frequencies_of_half_precision_still_make_exact_angles():
    # model.to(torch.bfloat16) takes the buffers along; 1001 · 1.0 is no bfloat16 number.
    halves = [1.0, 0.5, 0.125]
    rotary = Rotary(torch.tensor(halves, dtype=torch.bfloat16))
    x = torch.randn(B, H, 1, 6, generator=torch.Generator().manual_seed(0))
    expected = all_turned(x.double(), [[1001]] * B, halves)
    assert (rotary.turned(x, torch.tensor([1001])).double() - expected).abs().max() < 1e-4
