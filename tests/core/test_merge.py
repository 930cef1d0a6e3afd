"""`merge` joins calls over disjoint keys into one softmax over all of them."""

import subprocess
import sys

import pytest
import torch

from atento.core.attend import attend, attend_lse, merge
from atento.core.biases import Alibi
from atento.core.masks import Causal, Global, Prefix, Window
from atento.core.positions import Positions
from atento.core.scores import Dot
from atento.core.tables import Documents
from core_oracle import EXACT, plain, plain_weights, qkv

B, H, Q, K = 2, 3, 5, 7
PATHS = ["reference", "chunked", "auto"]
SHARDS = {"two": [(0, 3), (3, 7)], "three": [(0, 2), (2, 3), (3, 7)], "mixed": [(5, 7), (0, 5)]}


def shards(q, k, v, cuts, path="auto", scores=None, **kw):
    parts = []
    for n, (low, high) in enumerate(cuts):
        at = Positions(torch.arange(2, 2 + q.shape[2]), torch.arange(low, high))
        score = Dot() if scores is None else scores[n]
        parts.append(
            attend_lse(q, k[:, :, low:high], v[:, :, low:high], at=at, path=path, score=score, **kw)
        )
    return parts


@pytest.mark.parametrize("cuts", SHARDS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("mask", "bias"),
    [
        (None, None),
        (Causal(), None),
        (Window(2, 1) | Global([0]), Alibi.standard(H)),
        (Documents(torch.tensor([0, 0, 1, 1, 0, 1, 1])), None),
        (Prefix(3), Alibi.standard(H)),
    ],
    ids=["none", "causal", "longformer", "documents", "prefix"],
)
def test_shards_of_keys_equal_one_call(cuts, path, mask, bias):
    q, k, v = qkv(kv=1)
    expected = attend_lse(q, k, v, mask=mask, bias=bias, at=2, path="reference")
    got = merge(shards(q, k, v, SHARDS[cuts], path, mask=mask, bias=bias))
    for x, y in zip(got, expected, strict=True):
        assert torch.equal(x.isfinite(), y.isfinite())
        assert torch.where(x.isfinite(), x - y, 0.0).nan_to_num().abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
def test_merged_log_sum_exp_is_that_of_all_keys(path):
    q, k, v = qkv()
    _, lse = merge(shards(q, k, v, SHARDS["three"], path))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / 11**0.5
    assert (lse - scores.exp().sum(-1).log()).abs().max() < EXACT
    assert lse.dtype == torch.float64


@pytest.mark.parametrize("path", PATHS)
def test_a_sink_is_given_to_one_part_only(path):
    q, k, v = qkv()
    sink = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    expected = plain_weights(q, k, sink=sink) @ v
    for first in (0, 1):
        scores = [Dot(sink=sink), Dot()] if first == 0 else [Dot(), Dot(sink=sink)]
        out, lse = merge(shards(q, k, v, SHARDS["two"], path, scores))
        assert (out - expected).abs().max() < EXACT
        whole = attend_lse(q, k, v, score=Dot(sink=sink), path="reference")[1]
        assert (lse - whole).abs().max() < EXACT


def test_a_sink_given_to_both_parts_counts_twice():
    q, k, v = qkv()
    sink = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    out, _ = merge(shards(q, k, v, SHARDS["two"], scores=[Dot(sink=sink)] * 2))
    twice = plain_weights(q, k, sink=sink + torch.tensor(2.0).double().log()) @ v
    assert (out - twice).abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
def test_rows_that_are_empty_in_some_or_all_parts(path):
    q, k, v = (x.requires_grad_() for x in qkv())
    # Queries 2…6: the first three documents see both shards, one, none.
    mask = Documents(torch.tensor([[9, 9, 0, 1, 2, 3, 4]]), torch.tensor([[0, 1, 0, 0, 2, 2, 0]]))
    parts = shards(q, k, v, SHARDS["two"], path, mask=mask)
    empty = [[bool(x) for x in (lse == -torch.inf)[0, 0]] for _, lse in parts]
    assert empty == [[False, False, True, True, True], [False, True, False, True, True]]
    out, lse = merge(parts)
    assert (lse[:, :, 3:] == -torch.inf).all()
    assert (out[:, :, 3:] == 0).all()
    whole = plain(q, k, v, allow=mask.dense(Q, K, at=2))
    assert (out - whole).abs().max() < EXACT
    (out.square().sum() + lse[:, :, :3].square().sum()).backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert (q.grad[:, :, 3:] == 0).all()


def test_a_row_with_a_sink_and_no_key_is_the_sink():
    q, k, v = qkv()
    sink = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    parts = shards(q, k, v, SHARDS["two"], scores=[Dot(sink=sink), Dot()], mask=Prefix(0))
    out, lse = merge(parts)
    assert (out == 0).all()
    assert (lse - sink[:, None]).abs().max() < EXACT


@pytest.mark.parametrize("path", PATHS)
def test_gradients_of_merged_shards_equal_those_of_one_call(path):
    sink = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    grads = []
    for cut in (False, True):
        q, k, v = (x.requires_grad_() for x in qkv())
        s = sink.clone().requires_grad_()
        if cut:
            scores = [Dot(), Dot(sink=s), Dot()]
            out, lse = merge(shards(q, k, v, SHARDS["three"], path, scores, mask=Causal()))
        else:
            out, lse = attend_lse(q, k, v, mask=Causal(), at=2, score=Dot(sink=s), path="reference")
        (out.square().sum() + (lse.sin() * torch.arange(Q)).sum()).backward()
        grads.append([x.grad for x in (q, k, v, s)])
    for one, other in zip(*grads, strict=True):
        assert (one - other).abs().max() < 1e-11


def test_merge_gradcheck():
    g = torch.Generator().manual_seed(0)
    outs = [
        torch.randn(1, 2, 3, 5, dtype=torch.float64, generator=g).requires_grad_() for _ in "ab"
    ]
    lses = [torch.randn(1, 2, 3, dtype=torch.float64, generator=g).requires_grad_() for _ in "ab"]
    assert torch.autograd.gradcheck(lambda *x: merge([(x[0], x[2]), (x[1], x[3])]), (*outs, *lses))


def test_merge_is_associative_and_one_part_is_itself():
    parts = shards(*qkv(), SHARDS["three"])
    at_once = merge(parts)
    in_steps = merge([merge(parts[:2]), parts[2]])
    for x, y in zip(at_once, in_steps, strict=True):
        assert (x - y).abs().max() < EXACT
    for x, y in zip(merge(parts[:1]), parts[0], strict=True):
        assert (x - y).abs().max() < EXACT


@pytest.mark.parametrize("far", [1e4, -1e4])
def test_merge_of_extreme_scores_overflows_nowhere(far):
    q, k, v = qkv()
    parts = shards(q, k, v, SHARDS["two"])
    out, lse = merge([(o, s + far) for o, s in parts])
    expected, plain_lse = merge(parts)
    assert (out - expected).abs().max() < 1e-10  # 1e4 costs four digits
    assert (lse - far - plain_lse).abs().max() < 1e-10


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_merge_keeps_the_dtypes(dtype):
    q, k, v = (x.to(dtype) for x in qkv())
    out, lse = merge(shards(q, k, v, SHARDS["two"]))
    assert out.dtype == dtype
    assert lse.dtype == torch.float32
    whole = attend(*(x.double() for x in (q, k, v)))
    assert (out.double() - whole).abs().max() < 4 * torch.finfo(dtype).eps


def test_merge_of_nothing_or_of_unlike_parts_is_refused():
    q, k, v = qkv()
    out, lse = attend_lse(q, k, v)
    with pytest.raises(ValueError, match="at least one"):
        merge([])
    with pytest.raises(ValueError, match=r"\(out \[B, H, Q, Dv\], lse \[B, H, Q\]\)"):
        merge([(out, lse[..., None])])
    for wrong in ((out[..., :2], lse), (out[:, :, :2], lse[:, :, :2])):
        with pytest.raises(ValueError, match="merge"):
            merge([(out, lse), wrong])


EMPTY = """
import torch
from atento.core.attend import attend_lse
from atento.core.masks import Prefix, Window
from atento.core.positions import Positions
q = torch.randn(2, 4, 5, 8)
for heads in (4, 2):
    k, v = torch.randn(2, heads, 7, 8), torch.randn(2, heads, 7, 8)
    none = dict(k=k[:, :, :0], v=v[:, :, :0])
    at = Positions(torch.arange(5), torch.arange(0))
    for path in ("auto", "reference", "sdpa", "chunked"):
        for n, (queries, kw) in enumerate((
            (q, none),
            (q, dict(none, mask=Prefix(3))),
            (q, dict(none, at=at)),
            (q, dict(k=k, v=v, mask=Prefix(0))),
            (q[:, :, :1], dict(k=k, v=v, mask=Window(1), at=30)),
            (q[:, :, :0], dict(k=k, v=v)),
            (q[:0], dict(k=k[:0], v=v[:0])),
        )):
            print(heads, path, n, end=" ", flush=True)
            try:
                out, lse = attend_lse(queries, path=path, **kw)
            except ValueError as why:  # a path asked for by name serves or refuses
                print("cannot serve" in str(why) and path == "sdpa", True)
                continue
            print((out == 0).all().item(), (lse == -torch.inf).all().item(), flush=True)
"""


def test_a_part_without_keys_is_empty():
    # In a process of its own: torch's kernel may divide by zero and take the interpreter with it.
    done = subprocess.run(
        [sys.executable, "-c", EMPTY], capture_output=True, text=True, timeout=120
    )
    said = done.stdout.strip().splitlines()
    assert done.returncode == 0, f"exit code {done.returncode} at {said[-1]} {done.stderr[-900:]}"
    assert len(said) == 2 * 4 * 7
    assert all(line.endswith("True True") for line in said), said


@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked", "auto"])
@pytest.mark.parametrize("mask", [None, Window(2)], ids=str)
def test_tensors_of_any_strides_give_the_same(path, mask):
    q, k, v = qkv(D=8, Dv=8)
    expected = attend_lse(q, k, v, mask=mask, at=2, path="reference")

    def turned(x):  # the same numbers, the last axis not contiguous
        return x.mT.contiguous().mT

    def every_other(x):
        return x.repeat_interleave(2, -1)[..., ::2]

    for change in (turned, every_other, lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)):
        for which in range(3):
            given = [change(x) if n == which else x for n, x in enumerate((q, k, v))]
            got = attend_lse(*given, mask=mask, at=2, path=path)
            for x, y in zip(got, expected, strict=True):
                assert (x - y).abs().max() < EXACT


@pytest.mark.parametrize("path", ["sdpa", "chunked", "auto"])
@pytest.mark.parametrize("mask", [None, Window(2)], ids=str)
def test_gradients_of_tensors_of_any_strides_are_the_same(path, mask):
    grads = []
    for change in (lambda x: x, lambda x: x.mT.contiguous().mT):
        leaves = [x.requires_grad_() for x in qkv(D=8, Dv=8)]
        given = [change(x) for x in leaves]
        attend(*given, mask=mask, at=2, path=path).square().sum().backward()
        grads.append([x.grad for x in leaves])
    for one, other in zip(*grads, strict=True):
        assert (one - other).abs().max() < EXACT
