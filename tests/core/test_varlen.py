"""What the path `varlen` tells the flash kernel; the kernel itself needs a GPU."""

import pytest
import torch

from atento.core.biases import Alibi
from atento.core.call import checked
from atento.core.masks import Causal, Dilated, Full, Prefix, Window
from atento.core.positions import Positions
from atento.core.scores import Dot
from atento.core.tables import Documents
from atento.core.varlen import Plan, plan_of, refusal, starts
from core_oracle import qkv

B, H, Q, K = 2, 3, 5, 7
IDS = torch.tensor([[0, 0, 1, 1, 1], [4, 5, 5, -1, -1]])
PACKED = Documents(IDS, packed=True)


def plan(mask, at=None, keys=Q, **kw):
    q, k, v = qkv(K=keys)
    return plan_of(checked(q, k, v, mask, None, Dot(), 0.0, at))


def allowed_by(made: Plan, rows: int, cols: int) -> torch.Tensor:
    """Bool[B, rows, cols]: FlashAttention's convention, the queries being the last ones."""
    before, after = made.window
    i, j = torch.arange(rows)[:, None] + cols - rows, torch.arange(cols)
    ok = torch.ones(rows, cols, dtype=torch.bool)
    ok = ok & (j >= i - before) if before >= 0 else ok
    ok = ok & (j <= i + after) if after >= 0 else ok
    ok = ok.expand(B, rows, cols)
    if made.documents is None:
        return ok
    ids = made.documents.q_ids.expand(B, cols)
    bounds = starts(ids).tolist()
    runs = torch.tensor([sum(x <= n for x in bounds) for n in range(B * cols)]).reshape(B, cols)
    return ok & (runs[:, :, None] == runs[:, None]) & (ids >= 0)[:, :, None]


@pytest.mark.parametrize(
    ("mask", "at", "keys"),
    [
        (None, None, Q),
        (None, None, K),
        (Full(), 3, K),
        (Causal(), None, Q),
        (Causal(), 2, K),
        (Window(3), 2, K),
        (Window(1, 2), 2, K),
        (Window(None, 1), 0, Q),
        (Window(2, None), 2, K),
        (PACKED, None, Q),
        (Causal() & PACKED, None, Q),
        (PACKED & Window(1, 1), 0, Q),
        (Documents(IDS[0], packed=True) & Window(1), None, Q),
        (Window(3) & PACKED & Window(2, 5), None, Q),
    ],
    ids=str,
)
def test_a_plan_allows_what_the_mask_allows(mask, at, keys):
    made = plan(mask, at, keys)
    assert isinstance(made, Plan), made
    expected = (Full() if mask is None else mask).dense(Q, keys, B, at=at)[:, 0]
    assert torch.equal(allowed_by(made, Q, keys), expected)


@pytest.mark.parametrize(
    "mask", [None, Causal(), Window(1, 1), PACKED, PACKED & Causal(), Full()], ids=str
)
@pytest.mark.parametrize("keys", [Q, K])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_wherever_the_queries_stand_a_plan_is_right_or_refused(mask, keys, at):
    made = plan(mask, at, keys)
    if isinstance(made, Plan):
        expected = (Full() if mask is None else mask).dense(Q, keys, B, at=at)[:, 0]
        assert torch.equal(allowed_by(made, Q, keys), expected)


@pytest.mark.parametrize(
    ("mask", "at", "keys", "why"),
    [
        (Dilated(2), None, Q, "windows and Documents"),
        (Causal() & Prefix(3), None, Q, "windows and Documents"),
        (Causal() | Prefix(3), None, Q, "windows and Documents"),
        (~Causal(), None, Q, "windows and Documents"),
        (Documents(IDS), None, Q, "windows and Documents"),
        (Documents(IDS, IDS, packed=True), None, Q, "windows and Documents"),
        (PACKED & Documents(IDS.clone(), packed=True), None, Q, "windows and Documents"),
        (Causal(), 0, K, "queries for the last ones"),
        (Window(2), 1, K, "queries for the last ones"),
        (Causal(), torch.tensor([2, 2]), K, "no positions but runs"),
        (None, Positions(torch.arange(Q), torch.arange(K)), K, "no positions but runs"),
        (PACKED, 2, K, "an id for each"),
        (Documents(torch.zeros(9).long(), packed=True), None, Q, "an id for each"),
    ],
    ids=str,
)
def test_what_the_kernel_cannot_say_is_refused(mask, at, keys, why):
    made = plan(mask, at, keys)
    assert isinstance(made, str)
    assert why in made


def test_documents_read_further_on_are_refused():
    # Query row r stands at r + 1 and has the id that is written there; the kernel knows rows only.
    assert isinstance(plan(PACKED, at=1), str)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([[0, 0, 1, 1, 1]], [0, 2, 5]),
        ([[0, 0, 1, 1, 1], [1, 1, 1, 2, 0]], [0, 2, 5, 8, 9, 10]),
        ([[7]], [0, 1]),
        ([[3, 3], [3, 3], [3, 3]], [0, 2, 4, 6]),
        ([[-1, 0, 0, -1]], [0, 1, 3, 4]),
    ],
    ids=str,
)
def test_starts_are_where_runs_of_equal_ids_begin(ids, expected):
    made = starts(torch.tensor(ids))
    assert made.dtype == torch.int32
    assert made.tolist() == expected


def test_starts_is_a_proper_operator():
    torch.library.opcheck(starts, (IDS,))


def test_starts_runs_in_compiled_code_whatever_the_number_of_documents():
    fn = torch.compile(lambda ids: starts(ids) * 2, fullgraph=True, backend="eager")
    for ids in (IDS, IDS.flip(1), torch.zeros(2, 5, dtype=torch.long)):
        assert torch.equal(fn(ids), 2 * starts(ids))


def test_the_kernel_is_refused_on_cpu_and_for_what_it_lacks():
    x = torch.empty(B, H, Q, 16, dtype=torch.bfloat16)

    def why(x=x, score=None, bias=None, dropout=0.0, lse=False):
        return refusal(checked(x, x, x, None, bias, score or Dot(), dropout, None, lse))

    assert "CUDA" in why()
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(B, H, Q, 16, dtype=torch.bfloat16, device="cuda")
        assert why(x) is None
        assert "float16 and bfloat16" in why(x.float())
        assert "softcap" in why(x, Dot(softcap=1.0))
        assert "bias" in why(x, bias=Alibi(torch.empty(H, device="cuda")))
        assert "dropout" in why(x, dropout=0.1)
        assert "gradient" in why(x, lse=True)
        assert "256" in why(torch.empty(B, H, Q, 264, dtype=torch.bfloat16, device="cuda"))
        assert "at least one" in why(torch.empty(B, H, 0, 16, dtype=torch.bfloat16, device="cuda"))
