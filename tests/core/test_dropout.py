"""Dropout: what is kept, how often, and that nothing but torch's generator decides."""

import pytest
import torch

from atento.core.dropout import dropout, kept

N = 1_000_003  # a prime: the last word is cut


@pytest.mark.parametrize("p", [0.001, 0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_share_and_the_mean_are_those_of_p(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(7)
    mask = kept(torch.empty(N, dtype=dtype), p)
    deviation = (p * (1 - p) / N) ** 0.5
    assert mask.dtype == dtype
    assert float((mask == 0).double().mean()) == pytest.approx(p, abs=4 * deviation + 2**-17)
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=1e-3)
    assert float(mask.double().mean()) == pytest.approx(1, abs=4 * deviation / (1 - p))


def test_each_of_the_four_parts_of_a_word_is_as_random_as_the_others() -> None:
    # torch's own range for int64 would leave the highest bit 0, and every fourth element too sure.
    torch.manual_seed(11)
    dropped = (kept(torch.empty(N - 3), 0.5) == 0).double().view(-1, 4)
    deviation = 0.5 / len(dropped) ** 0.5
    assert torch.allclose(dropped.mean(0), torch.tensor(0.5).double(), atol=4 * deviation)
    together = torch.cov(dropped.T).fill_diagonal_(0) * 4  # correlations
    assert float(together.abs().max()) < 5 / len(dropped) ** 0.5
    following = ((dropped[:-1] - 0.5) * (dropped[1:] - 0.5)).mean(0) * 4
    assert float(following.abs().max()) < 5 / len(dropped) ** 0.5


def test_the_mask_follows_from_torchs_generator_and_no_two_are_alike() -> None:
    x = torch.ones(5, 7, 11)
    torch.manual_seed(3)
    one, two = dropout(x, 0.3), dropout(x, 0.3)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.3), one)
    assert not torch.equal(one, two)


@pytest.mark.parametrize("p", [0.3, 1e-5, 1.0])
def test_the_gradient_is_the_mask(p: float) -> None:
    x = torch.full((13, 17), 2.0, requires_grad=True)
    out = dropout(x, p)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad * 2, out)


def test_compiled_code_drops_as_often() -> None:
    torch.manual_seed(5)
    compiled = torch.compile(lambda x: dropout(x, 0.2), backend="aot_eager", fullgraph=True)
    assert float((compiled(torch.ones(10_007)) == 0).float().mean()) == pytest.approx(0.2, abs=0.02)
