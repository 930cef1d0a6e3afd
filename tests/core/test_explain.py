"""`explain` and the choice of a path: static facts alone, and never too many scores at once."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from atento.core import chunked, paths
from atento.core.attend import attend, attend_lse, explain
from atento.core.biases import Alibi, DenseBias, EdgeBias, Shaw, T5Bias
from atento.core.edges import Edges
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window, bigbird, longformer
from atento.core.paths import LARGEST, PATHS, Explanation
from atento.core.positions import Positions
from atento.core.random_blocks import RandomBlocks
from atento.core.scores import Additive, Bilinear, Cosine, Dot
from atento.core.tables import Blocks, Dense, Documents, Padding, Where
from core_oracle import Largest, qkv

B, H, Q, K, D = 2, 3, 5, 7, 11


def meta(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def calls(n: int, device: str) -> dict[str, dict]:
    """One call for each object of the door, for n queries and n keys."""
    flags = torch.zeros(n, dtype=torch.bool, device=device)
    ids = torch.zeros(n, dtype=torch.long, device=device)
    few = torch.zeros(2, 5, dtype=torch.long, device=device)
    square = torch.zeros(n, n, dtype=torch.bool, device=device)
    return {
        "plain": {},
        "full": {"mask": Full()},
        "causal": {"mask": Causal()},
        "window": {"mask": Window(3)},
        "dilated": {"mask": Causal() & Dilated(2)},
        "global": {"mask": Global([0]) | Global(flags)},
        "prefix": {"mask": Causal() | Prefix(ids[:B])},
        "documents": {"mask": Causal() & Documents(ids, packed=True)},
        "two documents": {"mask": Documents(ids) | Documents(ids + 1)},
        "padding": {"mask": Padding(ids[:B]) & Padding(flags)},
        "blocks": {"mask": Blocks(square, 2)},
        "random": {"mask": bigbird(1, [0], 1, 2, 3) & RandomBlocks(1, 2, 3)},
        "edges": {"mask": Edges(few, (n, n))},
        "dense": {"mask": ~Dense(square)},
        "where": {"mask": Where(lambda b, h, i, j: j <= i)},
        "alibi": {"bias": Alibi.standard(H).to(device)},
        "t5": {"bias": T5Bias(torch.zeros(8, H, device=device))},
        "shaw": {"bias": Shaw(torch.zeros(5, D, device=device))},
        "dense bias": {"bias": DenseBias(torch.zeros(n, n, device=device))},
        "edge bias": {
            "bias": EdgeBias(Edges(few, (n, n)), torch.zeros(5, device=device), merge="sum")
        },
        "cosine": {"score": Cosine(sink=torch.zeros(H, device=device))},
        "bilinear": {"score": Bilinear(weight=torch.zeros(D, D, device=device))},
        "additive": {"score": Additive(v=torch.zeros(D, device=device), softcap=2.0)},
        "dropout": {"dropout": 0.1},
        "at": {"mask": Causal(), "at": ids[:B]},
        "positions": {"mask": Causal(), "at": Positions(ids, ids)},
    }


@pytest.mark.parametrize("name", calls(Q, "cpu"))
def test_explain_works_on_meta_tensors(name):
    x = meta(B, H, Q, D)
    told = explain(x, x, x, **calls(Q, "meta")[name])
    assert isinstance(told, Explanation)
    assert told.path in PATHS
    assert set(told.others) == set(PATHS) - {told.path}
    assert all(told.others.values())
    assert told.why
    assert str(told).startswith(f"{told.path}: ")


@pytest.mark.parametrize("name", calls(Q, "cpu"))
def test_explain_reads_no_tensor(name):
    # A fake tensor has no data: reading it raises.
    x, kw = torch.randn(B, H, Q, D), calls(Q, "cpu")[name]
    with FakeTensorMode() as mode:
        y, fake = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (x, kw))
        told = explain(y, y, y, **fake)
        assert explain(y, y, y, lse=True, **fake).path in PATHS
    assert explain(x, x, x, **kw) == told


@pytest.mark.parametrize("name", [n for n in calls(Q, "cpu") if "edge" not in n])
def test_what_is_explained_is_what_runs(name, monkeypatch):
    x = torch.randn(B, H, Q, D)
    kw = calls(Q, "cpu")[name]
    if name != "plain" and kw.get("mask") is not Causal():
        told, ran = explain(x, x, x, **kw).path, []
        for path in PATHS.values():
            watched = path._replace(
                run=lambda call, path=path: (ran.append(path.name), path.run(call))[1]
            )
            monkeypatch.setitem(paths.PATHS, path.name, watched)
        attend(x, x, x, **kw)
        assert ran == [told]


def test_the_choice_does_not_depend_on_values():
    x = torch.randn(B, H, Q, D)
    for name in calls(Q, "cpu"):
        if name not in ("edges", "edge bias"):
            told = [
                explain(s * x, s * x, s * x, **calls(Q, "cpu")[name]).path for s in (0.0, 1.0, 1e9)
            ]
            assert len(set(told)) == 1


def test_explain_computes_nothing():
    x = torch.randn(B, H, Q, D)
    with Largest() as seen:
        explain(x, x, x, mask=Causal() & Padding(torch.tensor([1, 2])), bias=Alibi.standard(H))
    assert seen.numel < Q * Q


@pytest.mark.parametrize(
    ("kw", "path"),
    [
        ({}, "sdpa"),
        ({"mask": Causal()}, "sdpa"),
        ({"mask": Prefix(3)}, "sdpa"),
        ({"score": Dot(softcap=1.0)}, "reference"),
        ({"score": Additive(v=torch.zeros(D))}, "reference"),
        ({"score": Cosine()}, "sdpa"),
        ({"mask": Window(1, 1)}, "sdpa"),
    ],
    ids=str,
)
def test_small_calls_on_cpu(kw, path):
    x = torch.randn(B, H, Q, D)
    assert explain(x, x, x, **kw).path == path


@pytest.mark.parametrize(
    ("kw", "path"),
    [
        ({}, "sdpa"),
        ({"mask": Causal()}, "sdpa"),
        ({"mask": Window(255)}, "chunked"),
        ({"mask": longformer(127, [0])}, "chunked"),
        ({"mask": Edges(torch.zeros(2, 9, dtype=torch.long), (4096, 4096))}, "edges"),
        ({"score": Dot(softcap=1.0)}, "chunked"),
        ({"score": Additive(v=torch.zeros(8))}, "chunked"),
        ({"bias": Alibi.standard(1)}, "sdpa"),
    ],
    ids=str,
)
def test_large_calls_on_cpu(kw, path):
    x = torch.randn(1, 1, 4096, 8)
    assert explain(x, x, x, **kw).path == path


CUDA = {
    "plain": ({}, "sdpa"),
    "causal": ({"mask": Causal()}, "sdpa"),
    "window": ({"mask": Window(255)}, "varlen"),
    "longformer": ({"mask": longformer(127, [0])}, "flex"),
    "alibi": ({"bias": True}, "flex"),
    "softcap": ({"score": Dot(softcap=30.0)}, "flex"),
}


@pytest.mark.parametrize("name", CUDA)
def test_the_choice_for_a_gpu_is_told_without_one(name):
    kw, path = CUDA[name]
    with FakeTensorMode():
        x = torch.empty(2, 4, 8192, 64, dtype=torch.bfloat16, device="cuda")
        if "bias" in kw:
            kw = {"bias": Alibi(torch.empty(4, device="cuda"))}
        assert explain(x, x, x, **kw).path == path


def test_asked_for_by_name_is_the_reason():
    told = explain(*qkv(), path="reference")
    assert told.path == "reference"
    assert told.why == "asked for by name"


def test_explain_of_a_tap_that_reads_weights_is_reference():
    from atento.core.tap import Tap

    class Reader(Tap):
        reads = frozenset({"weights"})

    told = explain(*qkv(), tap=Reader())
    assert told.path == "reference"
    assert "the tap reads weights" in told.others["sdpa"]


# No more than 2²⁶ scores are held at once.


def many(n: int, device: str) -> dict[str, dict]:
    ids = torch.zeros(n, dtype=torch.long, device=device)
    one = torch.zeros(1, device=device)
    return {
        "causal": {"mask": Causal()},
        "window": {"mask": Window(3)},
        "padding": {"mask": Padding(ids[:1])},
        "dilated": {"mask": Dilated(1)},
        "not": {"mask": ~Window(3)},
        "documents": {"mask": Documents(ids)},
        "alibi": {"bias": Alibi(one)},
        "softcap": {"score": Dot(softcap=1.0)},
        "sink": {"score": Dot(sink=one)},
        "dropout": {"dropout": 0.1},
        "additive": {"score": Additive(v=torch.zeros(16, device=device))},
        "positions": {"at": Positions(ids, ids)},
        "at": {"mask": Causal(), "at": ids[:1]},
    }


MANY = list(many(3, "cpu"))


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("lse", [False, True])
def test_auto_never_picks_a_path_that_holds_too_many_scores(name, lse):
    n = 2**14  # n² = 2²⁸
    x = meta(1, 1, n, 16)
    told = explain(x, x, x, lse=lse, **many(n, "meta")[name])
    assert told.path in ("chunked", "sdpa", "flex")
    assert "2^26" in told.others["reference"]


@pytest.mark.parametrize(("width", "wide"), [(16, 8), (16, 16)])
def test_unequal_widths_do_not_make_torch_hold_all_scores(width, wide):
    with FakeTensorMode():
        q, v = torch.empty(1, 1, 2**14, width), torch.empty(1, 1, 2**14, wide)
        assert (explain(q, q, v).path == "sdpa") is (width == wide)


def test_a_function_that_tells_heads_apart_is_counted_for_each_head():
    # Q·K = 2²² is few, but 32 heads of it are 2²⁷.
    with FakeTensorMode():
        x = torch.empty(1, 32, 2**11, 16)
        each = Where(lambda b, h, i, j: j <= i + h)
        with pytest.raises(ValueError, match=r"no path serves.*2\^26"):
            explain(x, x, x, mask=each)
        alike = Where(lambda b, h, i, j: j <= i)
        assert explain(x, x, x, mask=alike).path in ("sdpa", "flex")


def largest_of(call) -> int:
    with Largest() as seen:
        call()
    return seen.numel


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("name", [n for n in MANY if n != "additive"])  # which is slow
def test_what_runs_on_cpu_holds_no_more_than_it_says(name, grad, monkeypatch):
    # As if 2¹⁶ were the limit: 512² scores are too many then.
    n = 512
    monkeypatch.setattr(paths, "LARGEST", 2**16)
    monkeypatch.setattr(chunked, "AT_ONCE", 2**15)
    kw, x = many(n, "cpu")[name], torch.randn(1, 1, n, 16, requires_grad=grad)
    if explain(x, x, x, **kw).path != "flex":  # which a dispatch mode cannot look into
        assert largest_of(lambda: attend(x, x, x, **kw)) <= 2**16
    assert largest_of(lambda: attend_lse(x, x, x, **kw)) <= 2**16


@pytest.mark.parametrize("name", ["window", "not", "softcap", "alibi", "dropout", "unequal"])
def test_a_large_call_on_cpu_needs_no_compiler(name):
    # Inference too: FlexAttention on CPU wants a C++ compiler and half a minute for each mask.
    x = torch.empty(1, 2, 2**13, 16)
    kw = {"unequal": {}, **many(2**13, "cpu")}[name]
    assert explain(x, x, x[..., :8] if name == "unequal" else x, **kw).path in ("chunked", "sdpa")


@pytest.mark.parametrize("change", ["turned", "every other"])
@pytest.mark.parametrize("mask", [None, Causal()], ids=str)
def test_strides_that_torchs_kernel_refuses_do_not_make_it_hold_all_scores(change, mask):
    # Where the last axis is not contiguous, torch falls back to its plain kernel, which holds N².
    n = 512
    x = torch.randn(1, 1, n, 16)
    x = x.mT.contiguous().mT if change == "turned" else x.repeat_interleave(2, -1)[..., ::2]
    assert largest_of(lambda: attend(x, x, x, mask=mask)) < n * n
    assert largest_of(lambda: attend(x, x[:, :, 1:], x[:, :, 1:], mask=mask, at=0)) < n * (n - 1)
    assert largest_of(lambda: attend_lse(x, x, x, mask=mask)) < n * n


def test_the_limit_is_the_designs():
    assert LARGEST == 2**26


@pytest.mark.parametrize("training", [False, True])
def test_grouped_queries_run_on_torchs_fused_kernel(training):
    q, kv = torch.randn(1, 4, 256, 16, requires_grad=training), torch.randn(1, 2, 256, 16)
    for mask in (None, Causal()):
        assert largest_of(lambda mask=mask: attend(q, kv, kv, mask=mask)) <= 4 * 256 * 16
