"""Every wrong argument is refused at the door, by name: expected, got, remedy."""

import math

import pytest
import torch

from atento.core.attend import attend, attend_lse, explain
from atento.core.biases import Alibi, DenseBias, EdgeBias, Shaw, T5Bias
from atento.core.edges import Edges
from atento.core.maps import attention_map
from atento.core.masks import Causal, Global, Prefix, Window
from atento.core.positions import Positions
from atento.core.scores import Additive, Bilinear, Dot
from atento.core.tables import Dense, Documents, Padding, Where
from core_oracle import qkv, refused

B, H, Q, K, D, DV = 2, 3, 5, 7, 11, 13
q, k, v = qkv()
EDGES = Edges(torch.tensor([[0, 6, 2], [4, 0, 1]]), (Q, K))


WRONG = {
    # q, k, v
    "q is a list": (lambda: attend([1.0], k, v), "q must be", "list", "as_tensor"),
    "q has three axes": (lambda: attend(q[0], k, v), r"q must be \[B, H, Q, D\]", r"\[3, 5, 11\]"),
    "k has five axes": (lambda: attend(q, k[None], v), r"k must be \[B, Hk, K, Dk\]", "got"),
    "v has two axes": (lambda: attend(q, k, v[0, 0]), r"v must be", r"\[7, 13\]"),
    "integers": (lambda: attend(q.long(), k.long(), v.long()), "q must be floating", "int64"),
    "integer values": (lambda: attend(q, k, v.long()), "v must be floating", "int64", "float"),
    "booleans": (lambda: attend(q > 0, q > 0, q > 0), "q must be floating", "bool"),
    "complex": (lambda: attend(*[q.to(torch.complex64)] * 3), "q must be floating", "complex"),
    "dtypes": (lambda: attend(q, k.float(), v), "one dtype", "float64, .*float32", "to"),
    "dtypes of equal shapes": (lambda: attend(q, q.float(), q), "one dtype", "float32"),
    "devices": (lambda: attend(q, k.to("meta"), v), "one device", "meta", "cpu"),
    "devices of equal shapes": (lambda: attend(q, q.to("meta"), q), "one device", "meta"),
    "batch": (lambda: attend(q, k[:1], v[:1]), "batch", "2, 1, 1", "expand"),
    "keys and values": (lambda: attend(q, k[:, :, :4], v), "k and v", r"\[2, 3, 4, 11\]"),
    "heads of k and v": (lambda: attend(q, k[:, :1], v), "k and v", "heads"),
    "heads do not divide": (lambda: attend(q, k[:, :2], v[:, :2]), "heads of k", "2 and 3"),
    "more heads of keys": (lambda: attend(q[:, :1], k, v), "heads of k", "3 and 1"),
    "no heads of keys": (lambda: attend(q, k[:, :0], v[:, :0]), "heads of k", "0 and 3"),
    "width": (lambda: attend(q, k[..., :8], v), "k must have width", "11", "got 8", "Bilinear"),
    "no width": (lambda: attend(q[..., :0], k[..., :0], v), "width|D ≥ 1"),
    # mask
    "a boolean tensor": (
        lambda: attend(q, k, v, mask=torch.ones(Q, K, dtype=torch.bool)),
        "mask must be a mask",
        r"bool tensor \[5, 7\]",
        r"Dense\(tensor\)",
    ),
    "a float tensor": (
        lambda: attend(q, k, v, mask=torch.zeros(Q, K)),
        "mask must be a mask",
        r"Dense\.additive",
    ),
    "a mask's name": (lambda: attend(q, k, v, mask="causal"), "mask must be a mask", "str"),
    "a mask's class": (lambda: attend(q, k, v, mask=Window), "mask must be a mask", "Window"),
    "the function Causal": (lambda: attend(q, q, q, mask=Causal), "mask must be", r"Causal\(\)"),
    "True": (lambda: attend(q, q, q, mask=True), "mask must be a mask", "bool"),
    "a bias as mask": (lambda: attend(q, k, v, mask=Alibi.standard(H)), "mask must be", "Alibi"),
    "Dense of another length": (
        lambda: attend(q, k, v, mask=Dense(torch.ones(Q, 8, dtype=torch.bool))),
        r"Dense must be \[5, 7\]",
        r"got \[1, 1, 5, 8\]",
    ),
    "Dense of other heads": (
        lambda: attend(q, k, v, mask=Dense(torch.ones(B, 2, Q, K, dtype=torch.bool))),
        "Dense must be",
        r"\[2, 2, 5, 7\]",
    ),
    "Dense transposed": (
        lambda: attend(q, k, v, mask=~Dense(torch.ones(K, Q, dtype=torch.bool)) & Prefix(2)),
        "Dense must be",
    ),
    "Edges of another graph": (
        lambda: attend(q, k, v, mask=Edges(EDGES.index.flip(0), (K, Q))),
        r"Edges has shape \(queries, keys\) = \(7, 5\)",
        r"\(5, 7\)",
    ),
    "Documents of another batch": (
        lambda: attend(q, q, q, mask=Documents(torch.zeros(3, Q).long())),
        "batch of 3",
        "q has 2",
    ),
    "Padding of another batch": (
        lambda: attend(q, k, v, mask=Prefix(2) | Padding(torch.tensor([1, 2, 3]))),
        "Padding.*batch of 3",
    ),
    "Prefix of another batch": (
        lambda: attend(q, k, v, mask=~Prefix(torch.tensor([1, 2, 3]))),
        "Prefix.*batch of 3",
    ),
    "Global of another batch": (
        lambda: attend(q, q, q, mask=Global(torch.zeros(3, Q, dtype=torch.bool))),
        "Global.*batch of 3",
    ),
    "a mask on another device": (
        lambda: attend(q, k, v, mask=Padding(torch.tensor([1, 2], device="meta"))),
        "mask, bias, score and at",
        "cpu",
        "meta",
    ),
    # bias
    "a tensor as bias": (
        lambda: attend(q, k, v, bias=torch.zeros(Q, K)),
        "bias must be a bias",
        r"DenseBias\(tensor\)",
    ),
    "a mask as bias": (lambda: attend(q, k, v, bias=Causal()), "bias must be", "Window"),
    "Alibi of other heads": (
        lambda: attend(q, q, q, bias=Alibi.standard(4)),
        "Alibi.*4 heads",
        "q has 3",
    ),
    "T5 of other heads": (
        lambda: attend(q, q, q, bias=T5Bias(torch.zeros(8, 2))),
        "T5Bias.*2 heads",
    ),
    "Shaw of another width": (
        lambda: attend(q, q, q, bias=Shaw(torch.zeros(5, 8))),
        "Shaw.*D = 11",
    ),
    "Shaw of one axis": (lambda: attend(q, q, q, bias=Shaw(torch.zeros(5))), "Shaw", r"got \[5\]"),
    "Shaw of an even number": (lambda: attend(q, q, q, bias=Shaw(torch.zeros(4, D))), "Shaw.*2R"),
    "DenseBias of another length": (
        lambda: attend(q, k, v, bias=DenseBias(torch.zeros(Q, 8))),
        r"DenseBias must be \[5, 7\]",
    ),
    "EdgeBias of another graph": (
        lambda: attend(q, k, v, bias=EdgeBias(Edges(EDGES.index, (Q, 9)), torch.zeros(3))),
        "EdgeBias has shape",
    ),
    "EdgeBias of other heads": (
        lambda: attend(q, k, v, bias=EdgeBias(EDGES, torch.zeros(3, 2))),
        "EdgeBias.*2 heads",
    ),
    "a bias on another device": (
        lambda: attend(q, q, q, bias=Alibi.standard(H).to("meta")),
        "on q's device",
        "meta",
    ),
    # score
    "a score's class": (lambda: attend(q, k, v, score=Dot), "score must be", r"Dot\(\)"),
    "no score": (lambda: attend(q, k, v, score=None), "score must be", "NoneType"),
    "a sink of other heads": (
        lambda: attend(q, k, v, score=Dot(sink=torch.zeros(2))),
        r"sink must be Float\[H\] = \[3\]",
        r"got \[2\]",
    ),
    "a sink of two axes": (
        lambda: attend(q, k, v, score=Dot(sink=torch.zeros(1, H))),
        "sink must be",
    ),
    "a number as sink": (lambda: attend(q, k, v, score=Dot(sink=0.0)), "sink must be", "float"),
    "integers as sink": (
        lambda: attend(q, k, v, score=Dot(sink=torch.zeros(H, dtype=torch.long))),
        "sink must be Float",
        "int64",
    ),
    "a sink on another device": (
        lambda: attend(q, k, v, score=Dot(sink=torch.zeros(H, device="meta"))),
        "on q's device",
    ),
    "softcap 0": (lambda: attend(q, k, v, score=Dot(softcap=0.0)), "softcap must be > 0", "got 0"),
    "softcap −1": (lambda: attend(q, k, v, score=Dot(softcap=-1.0)), "softcap must be > 0"),
    "a tensor as scale": (
        lambda: attend(q, k, v, score=Dot(scale=torch.tensor(0.5))),
        "scale must be a number",
    ),
    "a text as scale": (lambda: attend(q, k, v, score=Dot(scale="0.5")), "scale must be a number"),
    "Bilinear without weight": (lambda: attend(q, k, v, score=Bilinear()), "Bilinear", "None"),
    "Bilinear of another width": (
        lambda: attend(q, k, v, score=Bilinear(weight=torch.zeros(8, D))),
        "Bilinear.*D = 11",
    ),
    "Bilinear for other keys": (
        lambda: attend(q, k, v, score=Bilinear(weight=torch.zeros(D, 8))),
        "k must have width Dk = 8",
    ),
    "Additive without v": (lambda: attend(q, k, v, score=Additive()), r"Additive\(v\)", "None"),
    "Additive of another width": (
        lambda: attend(q, k, v, score=Additive(v=torch.zeros(8), query=torch.zeros(D, 9))),
        r"Additive\(query\).*A = 8",
    ),
    "Additive for other queries": (
        lambda: attend(
            q,
            k,
            v,
            score=Additive(v=torch.zeros(8), query=torch.zeros(9, 8), key=torch.zeros(D, 8)),
        ),
        "Additive|queries",
        "11",
    ),
    # dropout
    **{
        f"dropout {p!r}": (lambda p=p: attend(q, k, v, dropout=p), "dropout must be a probability")
        for p in (-0.1, 1, 1.0, 2, math.nan, math.inf, "0.1", None, True, False)
    },
    **{
        f"dropout {p!r} of a plain call": (
            lambda p=p: attend(q, q, q, dropout=p),
            "dropout must be a probability",
        )
        for p in (-0.1, 1.0, math.nan, "", None, False, [], torch.tensor(0.0))
    },
    # at
    "positions forgotten": (lambda: attend(q, k, v, mask=Causal()), "at is needed", "at=2"),
    "more queries than keys": (
        lambda: attend(q, k[:, :, :3], v[:, :, :3], mask=Causal()),
        "at is needed",
        "at=0",
    ),
    "at on another device": (
        lambda: attend(q, k, v, mask=Causal(), at=torch.tensor([0, 2], device="meta")),
        "on q's device|one device",
        "meta",
    ),
    "positions on another device": (
        lambda: attend(q, k, v, at=Positions(torch.arange(Q), torch.arange(K, device="meta"))),
        "on q's device",
        "meta",
    ),
    # path
    "an unknown path": (
        lambda: attend(q, k, v, path="fast"),
        "path must be 'auto' or one of",
        "sdpa",
        "'fast'",
    ),
    "an unknown path of a plain call": (lambda: attend(q, q, q, path="flash"), "path must be"),
    "no path": (lambda: attend(q, q, q, path=None), "path must be"),
    "a list as path": (lambda: attend(q, q, q, path=["sdpa"]), "path must be"),
    "a number as path": (lambda: attend(q, k, v, path=3), "path must be", "3"),
    # tap
    "a text as tap": (lambda: attend(q, k, v, tap="x"), "tap must be", "str"),
    "a function as tap": (lambda: attend(q, k, v, tap=print), "tap must be"),
    # what explain, attend_lse and attention_map check alike
    "explain": (lambda: explain(q, k, v, mask=torch.ones(Q, K)), "mask must be"),
    "attend_lse": (lambda: attend_lse(q, k, v, mask=Causal()), "at is needed"),
    "attention_map": (
        lambda: attention_map(q, k, mask=Dense(torch.ones(3, 3) > 0)),
        "Dense must be",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named_with_a_remedy(name):
    call, *words = WRONG[name]
    refused(call, *words)


REFUSALS = {
    "sdpa softcap": ("sdpa", {"score": Dot(softcap=2.0)}, "no softcap"),
    "sdpa sink": ("sdpa", {"score": Dot(sink=torch.zeros(H))}, "no sink"),
    "sdpa additive": ("sdpa", {"score": Additive(v=torch.zeros(D))}, "no dot product"),
    "flex additive": ("flex", {"score": Additive(v=torch.zeros(D))}, "no dot product"),
    "flex dropout": ("flex", {"dropout": 0.1}, "no dropout"),
    "flex edge bias": ("flex", {"bias": EdgeBias(EDGES, torch.zeros(3))}, "no formula"),
    "varlen": ("varlen", {}, "CUDA"),
    "chunked where": ("chunked", {"mask": Where(lambda b, h, i, j: j <= i), "at": 0}, "Where"),
    "chunked in a composition": (
        "chunked",
        {"mask": Causal() & ~Where(lambda b, h, i, j: j <= i), "at": 0},
        "Where",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_path_asked_for_by_name_serves_or_raises(name):
    path, kw, word = REFUSALS[name]
    refused(lambda: attend(q, k, v, path=path, **kw), f"path='{path}' cannot serve", word, "auto")
    refused(lambda: explain(q, k, v, path=path, **kw), f"path='{path}' cannot serve", word)


def test_sdpa_and_flex_refuse_a_log_sum_exp_that_has_no_gradient():
    x = q.clone().requires_grad_()
    for path in ("sdpa", "flex"):
        refused(
            lambda path=path: attend_lse(x, k, v, path=path),
            f"path='{path}' cannot serve",
            "gradient",
        )


def test_what_torch_complains_of_in_plain_calls_is_explained():
    # The shortest way hands plain calls straight to torch; its errors must be ours all the same.
    for wrong, words in (
        ((q, q.float(), q), "one dtype"),
        ((q.long(), q.long(), q.long()), "floating"),
        ((q[0], q[0], q[0]), "must be"),
        (([q], q, q), "must be a torch tensor"),
        ((None, q, q), "must be a torch tensor"),
    ):
        refused(lambda wrong=wrong: attend(*wrong), words)


@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked", "auto"])
def test_no_result_is_nan_where_nothing_may_be_attended(path):
    x, y, z = (t.clone().requires_grad_() for t in (q, k, v))
    table = torch.zeros(Q, K, dtype=torch.bool)
    table[1, 3] = True
    for kw in (
        {"mask": Prefix(0)},
        {"mask": Dense(table)},
        {"mask": Dense(table), "bias": DenseBias(torch.zeros(Q, K))},
        {"mask": ~Prefix(9), "bias": Alibi.standard(H), "at": 2},
    ):
        out = attend(x, y, z, path=path, **kw)
        grads = torch.autograd.grad(out.square().sum(), (x, y, z), allow_unused=True)
        assert out.isfinite().all()
        assert all(g is None or g.isfinite().all() for g in grads)
        assert (out[:, :, 0] == 0).all()


@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked", "auto"])
def test_large_scores_overflow_nowhere(path):
    for dtype, size in ((torch.float64, 1e150), (torch.float32, 1e15), (torch.bfloat16, 1e15)):
        a, b = (size * t.to(dtype) for t in (q, k))
        out = attend(a, b, v.to(dtype), mask=Window(2), at=2, path=path)
        assert out.isfinite().all()


@pytest.mark.parametrize("shape", [(0, H, Q, D), (B, H, 0, D), (0, 0, 0, 3)], ids=str)
@pytest.mark.parametrize("path", ["reference", "chunked", "auto"])
def test_calls_of_nothing_give_nothing(shape, path):
    x = torch.zeros(shape)
    keys = torch.zeros(shape[0], max(shape[1], 1), K, shape[3])
    assert attend(x, keys, keys, path=path).shape == shape
