"""FlexAttention on CPU: compiled forward only, and never its dense fallback."""

import warnings

import pytest
import torch
import torch._dynamo as dynamo
from torch import nn

from atento.core import flex
from atento.core.attend import attend
from atento.core.biases import Alibi, Shaw
from atento.core.edges import Edges
from atento.core.masks import Causal, Global, Window
from atento.core.positions import Positions
from atento.core.scores import Cosine, Dot
from atento.core.tables import Documents, Padding, Where
from atento.core.tap import Tap, tapped

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
B, H, HK, N, D = 2, 4, 2, 131, 16


def inputs(length: int = N, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(length)
    return [torch.randn(B, h, length, D, dtype=dtype) for h in (H, HK, HK)]


CALLS = {
    "window, global, alibi, softcap": {
        "mask": Window(3) | Global([2, 70]),
        "bias": Alibi.standard(H),
        "score": Dot(softcap=2.0),
    },
    "not causal, padding, cosine": {
        "mask": ~Causal() & Padding(torch.tensor([100, 3])),
        "score": Cosine(scale=4.0),
    },
    "documents": {"mask": Documents(torch.arange(N) // 40 - 1)},
    "edges": {"mask": Edges(torch.randint(0, N, (2, 500)), (N, N))},
    "shaw": {"bias": Shaw(torch.randn(7, D))},
    "where": {"mask": Where(lambda b, h, i, j: (i + j) % 3 == h % 3)},
    "positions": {
        "mask": Causal(),
        "at": Positions(torch.randperm(N), torch.randperm(N) - 4),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_flex_equals_the_reference(call: str) -> None:
    check(inputs(), CALLS[call])


def check(qkv: list[torch.Tensor], given: dict[str, object]) -> None:
    found = attend(*qkv, path="flex", **given)  # type: ignore[arg-type]
    exact = attend(*(x.double() for x in qkv), path="reference", **given)  # type: ignore[arg-type]
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)
    assert (found[exact.abs().sum(-1) == 0] == 0).all()


@pytest.mark.slow
def test_tables_of_other_lengths_are_read_right() -> None:
    for length in (200, 131, 64):
        ids = torch.stack([torch.arange(length) // 40, torch.arange(length) // 60 - 1])
        check(inputs(length), {"mask": Causal() & Documents(ids)})


@pytest.mark.slow
def test_layouts_scales_and_batches_never_meet_the_limit() -> None:
    window = Window(5)
    for n in range(dynamo.config.recompile_limit + 2):
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs(64))
        pair = (q, k, v) if n % 2 else tuple(inputs(64))
        check(list(pair), {"mask": window, "score": Dot(scale=0.1 + n / 10)})


@pytest.mark.slow
def test_looking_with_a_tap_does_not_run_dense() -> None:
    class Looking(nn.Module):
        tap = None

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return attend(q, k, v, mask=Window(9), path="flex", tap=self.tap)

    module, qkv = Looking(), inputs()
    plain = module(*qkv)
    with tapped(module, Tap()), warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns when it materialises all scores
        assert torch.equal(module(*qkv), plain)


@pytest.mark.slow
def test_many_windows_and_lengths_never_reach_the_dense_fallback() -> None:
    before = dynamo.utils.counters["stats"]["unique_graphs"]
    limit = dynamo.config.recompile_limit
    windows = range(20, 20 + limit + 3)
    for reach in windows:
        for length in (131, 200):
            qkv = inputs(length)
            found = attend(*qkv, mask=Window(reach), path="flex")
            exact = attend(*(x.double() for x in qkv), mask=Window(reach), path="reference")
            torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)
    # Each window has compiled code of its own: static first, then for any length.
    assert dynamo.utils.counters["stats"]["unique_graphs"] - before <= 2 * len(windows)


def test_structures_with_other_lengths_share_compiled_code() -> None:
    ids = [Documents(torch.zeros(n, dtype=torch.long)) for n in (131, 200)]
    shapes = [flex._without_shapes(x.structure) for x in ids]
    assert shapes[0] == shapes[1]
    assert flex._without_shapes(Window(3).structure) != flex._without_shapes(Window(4).structure)
