"""Positions on x against their formulas, number by number."""

import math

import pytest
import torch

from atento.layers.positions import Grid2d, Learned, Sinusoidal


def by_hand(p: int, width: int) -> list[float]:
    """Vaswani et al., section 3.5, one number at a time."""
    return [
        math.cos(p / 10_000 ** ((n - 1) / width)) if n % 2 else math.sin(p / 10_000 ** (n / width))
        for n in range(width)
    ]


@pytest.mark.parametrize("width", [1, 2, 5, 8, 13])
def test_sinusoid_of_position_0_is_0_1_0_1(width):
    assert Sinusoidal(width)(1)[0].tolist() == [float(n % 2) for n in range(width)]


@pytest.mark.parametrize("width", [1, 2, 5, 8, 13])
def test_sinusoid_equals_the_formula_for_even_and_odd_widths(width):
    expected = torch.tensor([by_hand(p, width) for p in range(7)], dtype=torch.float64)
    torch.testing.assert_close(Sinusoidal(width).double()(7), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("k", [1, 5, 117])
def test_sinusoid_at_p_plus_k_is_one_rotation_of_the_sinusoid_at_p(k):
    code, width = Sinusoidal(8).double(), 8
    turns = []
    for n in range(0, width, 2):
        angle = k / 10_000 ** (n / width)
        turns.append(
            torch.tensor(
                [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
                dtype=torch.float64,
            )
        )
    rotation = torch.block_diag(*turns)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(8, dtype=torch.float64))
    p = torch.tensor([0, 1, 3, 29, 1009])
    torch.testing.assert_close(code(p + k), code(p) @ rotation.T, atol=1e-10, rtol=0)


def test_sinusoid_far_away_is_as_exact_as_nearby():
    expected = torch.tensor([by_hand(1_000_003, 6)], dtype=torch.float64)
    out = Sinusoidal(6)(torch.tensor([1_000_003]))
    torch.testing.assert_close(out.double(), expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("module", [Sinusoidal(7), Learned(11, 7)])
def test_a_length_is_the_positions_from_0_on_and_batches_are_read_row_by_row(module):
    p = torch.tensor([[0, 1, 2], [-1, 0, 7]])
    assert module(p).shape == (2, 3, 7)
    assert torch.equal(module(3), module(p)[0])
    assert torch.equal(module(p)[1, 2], module(torch.tensor([7]))[0])
    assert module(p).isfinite().all()


def test_learned_positions_have_length_times_width_parameters():
    assert sum(p.numel() for p in Learned(11, 7).parameters()) == 11 * 7
    assert sum(p.numel() for p in Sinusoidal(7).parameters()) == 0


@pytest.mark.parametrize("beyond", [12, torch.tensor([0, 11]), torch.tensor([[3], [11]])])
def test_learned_positions_beyond_the_length_raise(beyond):
    learned = Learned(11, 7)
    assert learned(11).shape == (11, 7)
    with pytest.raises(
        ValueError, match=r"positions must be 0 … 10, the 11 that were learned; got 11"
    ):
        learned(beyond)


@pytest.mark.parametrize("width", [2, 6, 12])
def test_swapping_row_and_column_swaps_the_halves(width):
    code = Grid2d(width)
    rows, columns = torch.tensor([0, 3, 5]), torch.tensor([2, 0, 7])
    there, back = code(rows, columns), code(columns, rows)
    half = width // 2
    assert torch.equal(there[:, :half], back[:, half:])
    assert torch.equal(there[:, half:], back[:, :half])
    assert not torch.equal(there, back)


def test_the_first_half_of_a_grid_code_is_the_row_and_the_second_the_column():
    code = Grid2d(10).double()(3, 5)
    assert code.shape == (15, 10)
    for n in range(15):
        expected = by_hand(n // 5, 5) + by_hand(n % 5, 5)
        torch.testing.assert_close(code[n], torch.tensor(expected, dtype=torch.float64))


def test_codes_come_in_the_models_dtype():
    for module in (Sinusoidal(7), Learned(11, 7)):
        assert module.to(torch.bfloat16)(3).dtype == torch.bfloat16
    assert Grid2d(6).double()(2, 3).dtype == torch.float64


def test_errors_name_the_width_and_the_kind():
    with pytest.raises(ValueError, match="width must be even"):
        Grid2d(7)
    with pytest.raises(ValueError, match="width must be ≥ 1"):
        Sinusoidal(0)
    with pytest.raises(TypeError, match="rows and columns must both be"):
        Grid2d(6)(3, torch.tensor([1]))
