"""Masks, scores, biases and positions are pytrees: they travel through transforms and modules."""

import textwrap

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from atento.core.attend import attend
from atento.core.biases import Alibi, DenseBias, EdgeBias, Shaw, T5Bias
from atento.core.compose import Mask
from atento.core.edges import Edges
from atento.core.masks import Causal, Dilated, Full, Global, Prefix, Window
from atento.core.positions import Positions
from atento.core.random_blocks import RandomBlocks
from atento.core.rotary import Rotary
from atento.core.scores import Additive, Bilinear, Cosine, Dot
from atento.core.structure import Structured, leaves, read, spelled
from atento.core.tables import Blocks, Dense, Documents, Padding, Where
from core_oracle import EXACT, qkv

B, H, Q, K, D = 2, 3, 5, 7, 11


def earlier(b, h, i, j, t):
    return j <= i + t[b]


def values() -> dict[str, Structured]:
    g = torch.Generator().manual_seed(0)
    edges = Edges(torch.tensor([[0, 6, 2], [4, 0, 1]]), (Q, K))
    table = torch.rand(Q, K, generator=g) < 0.5
    return {
        "Full": Full(),
        "Causal": Causal(),
        "Window": Window(2, None),
        "Dilated": Dilated(3),
        "Global list": Global([1, 3]),
        "Global": Global(table[0]),
        "Prefix": Prefix(3),
        "Prefix each": Prefix(torch.tensor([2, 3])),
        "Documents": Documents(torch.tensor([[0, 0, 1, -1, 2]]), packed=True),
        "Documents across": Documents(torch.arange(Q), torch.arange(K)),
        "Padding": Padding(torch.tensor([2, 3])),
        "Padding keep": Padding(table[0]),
        "Blocks": Blocks(table, 2),
        "RandomBlocks": RandomBlocks(2, 3, seed=1),
        "Edges": edges,
        "Dense": Dense(table),
        "Where": Where(earlier, torch.tensor([1, 2])),
        "And": Causal() & Padding(torch.tensor([2, 3])),
        "Or": Window(1) | Documents(torch.arange(Q)) | Prefix(2),
        "Not": ~(Dense(table) & ~Prefix(torch.tensor([2, 3]))),
        "Alibi": Alibi.standard(H),
        "T5Bias": T5Bias(torch.randn(8, H, generator=g), bidirectional=False),
        "Shaw": Shaw(torch.randn(5, D, generator=g)),
        "DenseBias": DenseBias(torch.randn(Q, K, generator=g)),
        "EdgeBias": EdgeBias(edges, torch.randn(3, H, generator=g)),
        "Sum": Alibi.standard(H) + DenseBias(torch.randn(Q, K, generator=g)),
        "Dot": Dot(sink=torch.zeros(H), softcap=3.0),
        "Cosine": Cosine(scale=7.0),
        "Bilinear": Bilinear(weight=torch.randn(D, D, generator=g)),
        "Additive": Additive(v=torch.randn(D, generator=g)),
        "Positions": Positions(torch.arange(Q), torch.arange(K)),
        "Rotary": Rotary.yarn(8, 4.0, 64),
    }


NAMES = list(values())


@pytest.mark.parametrize("name", NAMES)
def test_pytree_round_trip_keeps_the_object(name):
    x = values()[name]
    flat, spec = pytree.tree_flatten(x)
    assert all(isinstance(leaf, Tensor) for leaf in flat)
    assert [id(leaf) for leaf in flat] == [id(leaf) for leaf in leaves(x)]
    again = pytree.tree_unflatten(flat, spec)
    assert type(again) is type(x)
    assert again == x
    assert again.structure == x.structure
    assert pytree.tree_structure(again) == spec


@pytest.mark.parametrize("name", NAMES)
def test_pytree_keys_lead_to_the_leaves(name):
    x = values()[name]
    with_paths, _ = pytree.tree_flatten_with_path(x)
    assert len(with_paths) == len(leaves(x))
    for path, leaf in with_paths:
        found = x
        for key in path:
            found = key.get(found)
        assert found is leaf


def test_unflattening_skips_validation():
    # Transforms put placeholders where the tensors were.
    flat, spec = pytree.tree_flatten(values()["And"])
    made = pytree.tree_unflatten([object() for _ in flat], spec)
    assert isinstance(made, Mask)


@pytest.mark.parametrize("name", NAMES)
def test_structure_is_hashable_and_equal_for_equal_structure(name):
    one, two = values()[name], values()[name]
    assert hash(one.structure) == hash(two.structure)
    assert one.structure == two.structure
    assert hash(one) == hash(two)


def test_structures_differ_by_type_static_field_shape_and_dtype():
    ids = torch.arange(Q)
    seen = [
        x.structure
        for x in (
            Window(3),
            Window(4),
            Window(3, 1),
            Prefix(3),
            Prefix(torch.tensor([3])),
            Documents(ids),
            Documents(ids, packed=True),
            Documents(ids.int()),
            Documents(torch.arange(K)),
            Documents(ids, ids),
            Causal() & Documents(ids),
            Causal() | Documents(ids),
            ~Documents(ids),
            Dot(),
            Cosine(),
            Dot(softcap=3.0),
            Dot(sink=torch.zeros(H)),
        )
    ]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("name", NAMES)
def test_equal_means_the_same_tensors(name):
    one, two = values()[name], values()[name]
    assert one == one
    assert (one == two) is (not leaves(one))
    assert one != object()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_equal_values_in_other_tensors_are_not_equal(device):
    a, b = (torch.zeros(Q, dtype=torch.long, device=device) for _ in range(2))
    assert Documents(a) == Documents(a)
    assert Documents(a) != Documents(b)


def test_views_of_one_storage_are_equal_only_where_they_see_the_same():
    x = torch.zeros(9, dtype=torch.long)
    assert Prefix(x[:3]) == Prefix(x[:3])
    assert Prefix(x[:3]) != Prefix(x[1:4])
    assert Prefix(x[:3]) != Prefix(x[:6:2])


@pytest.mark.parametrize("name", NAMES)
def test_to_changes_floating_tensors_only(name):
    x = values()[name]
    moved = x.to(torch.float64)
    assert type(moved) is type(x)
    for before, after in zip(leaves(x), leaves(moved), strict=True):
        expected = torch.float64 if before.is_floating_point() else before.dtype
        assert after.dtype == expected
        assert torch.equal(before.double(), after.double())


@pytest.mark.parametrize("name", NAMES)
def test_to_moves_every_tensor_to_the_device(name):
    for args in (("meta",), (torch.device("meta"),), ("meta", torch.float64)):
        moved = values()[name].to(*args)
        assert all(leaf.device.type == "meta" for leaf in leaves(moved))
        if len(args) == 2:
            kinds = {leaf.dtype for leaf in leaves(moved) if leaf.is_floating_point()}
            assert kinds <= {torch.float64}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {"device": "meta"}),
        ((), {"dtype": torch.float64}),
        ((), {"device": "meta", "dtype": torch.float64}),
        (("meta",), {"non_blocking": True}),
        (("meta", torch.float64, True), {}),
        ((torch.zeros(1, dtype=torch.float64),), {}),
    ],
    ids=str,
)
def test_to_takes_what_a_modules_to_takes(args, kwargs):
    ids = torch.arange(Q)
    moved = Documents(ids).to(*args, **kwargs)
    assert moved.q_ids.dtype == torch.int64
    expected = nn.ParameterList([nn.Parameter(torch.zeros(1))]).to(*args, **kwargs)[0]
    assert moved.q_ids.device == expected.device
    bias = DenseBias(torch.zeros(Q, K)).to(*args, **kwargs)
    assert (bias.table.device, bias.table.dtype) == (expected.device, expected.dtype)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "Where"])
def test_what_is_spelled_is_read_again(name):
    x = values()[name]
    tensors: list[Tensor] = []
    assert read(spelled((x, None, 3), tensors), tensors) == (x, None, 3)


@pytest.mark.parametrize("scale", [0.1, 1e-300, float("inf"), 3], ids=str)
def test_any_number_is_spelled(scale):
    assert read(spelled(scale, []), []) == scale


def test_numpys_numbers_are_numbers():
    # 1 / np.sqrt(64) is how many write the scale.
    numpy = pytest.importorskip("numpy")
    q, k, v = qkv()
    expected = attend(q, k, v, score=Dot(scale=0.25), path="reference")
    for path in ("reference", "sdpa", "chunked"):
        out = attend(q, k, v, score=Dot(scale=1 / numpy.sqrt(16)), path=path)
        assert (out - expected).abs().max() < EXACT


def test_a_class_that_is_defined_again_is_still_a_pytree():
    source = textwrap.dedent("""
        from dataclasses import dataclass
        from torch import Tensor
        from atento.core.compose import Mask

        @dataclass(frozen=True, eq=False)
        class Mine(Mask):
            table: Tensor
    """)
    cell: dict[str, object] = {"__name__": "a_notebook"}
    exec(source, cell)
    exec(source, cell)
    table = torch.zeros(Q)
    mine = cell["Mine"](table)  # type: ignore[operator]
    assert pytree.tree_leaves(mine)[0] is table
    assert type(mine.to("meta")) is cell["Mine"]
    assert mine.to("meta").table.device.type == "meta"


@pytest.mark.parametrize("name", [n for n in NAMES if n != "Where"])
def test_the_structure_of_a_pytree_is_written_as_text_and_read_again(name):
    x = values()[name]
    flat, spec = pytree.tree_flatten(x)
    again = pytree.treespec_loads(pytree.treespec_dumps(spec))
    assert pytree.tree_unflatten(flat, again) == x
