"""Planetoid's folders: Cora as everybody counts it, gaps, and pickles that are met by a fence."""

import collections
import os
import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from atento.data.graphs import read_graph
from atento.data.planetoid import STANDS_FOR, planetoid
from atento.errors import UserError

CORA = Path(os.environ.get("ATENTO_DATA", "nowhere")) / "cora"
TRAIN, KNOWN, TESTED, F, CLASSES = 3, 5, [9, 6, 7], 4, 2  # node 5 and 8 are gaps


def table(seed: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, (rows, columns)).astype(np.float64)


ALLX, TX = table(1, KNOWN, F), table(2, 3, F)
ALLY, TY = np.eye(2)[[0, 1, 1, 0, 1]], np.eye(2)[[1, 0, 1]]


class csr_matrix:  # the name that the files have
    """As scipy's, as far as a pickle goes."""

    def __init__(self, dense: np.ndarray) -> None:
        rows, columns = dense.nonzero()
        self._shape, self.maxprint = dense.shape, 50
        self.data, self.indices = dense[rows, columns], columns.astype(np.int32)
        counts = np.bincount(rows, minlength=len(dense))
        self.indptr = np.concatenate([[0], counts.cumsum()]).astype(np.int32)


def sparse(dense: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> bytes:
    module = types.ModuleType("scipy.sparse.csr")
    module.csr_matrix = csr_matrix
    with monkeypatch.context() as patch:
        for name in ("scipy", "scipy.sparse"):
            patch.setitem(sys.modules, name, types.ModuleType(name))
        patch.setitem(sys.modules, "scipy.sparse.csr", module)
        patch.setattr(csr_matrix, "__module__", "scipy.sparse.csr")
        return pickle.dumps(csr_matrix(dense), protocol=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    graph = collections.defaultdict(list, {0: [1, 1], 1: [0, 6], 9: [9, 2], 4: []})
    files = {
        "x": sparse(ALLX[:TRAIN], monkeypatch),
        "allx": sparse(ALLX, monkeypatch),
        "tx": pickle.dumps(TX, protocol=2),
        "y": pickle.dumps(ALLY[:TRAIN], protocol=2),
        "ally": pickle.dumps(np.asfortranarray(ALLY), protocol=2),
        "ty": pickle.dumps(TY.astype(">i4"), protocol=4),
        "graph": pickle.dumps(graph, protocol=2),
        "test.index": "\n".join(map(str, TESTED)).encode(),
    }
    for part, content in files.items():
        (tmp_path / f"ind.toy.{part}").write_bytes(content)
    return tmp_path


def test_a_folder_is_read_and_gaps_are_nodes_without_label_and_features(folder: Path) -> None:
    graph = read_graph(folder)
    assert graph.nodes == 10
    assert np.array_equal(graph.features[:KNOWN], ALLX)
    assert np.array_equal(graph.features[TESTED], TX)
    assert (graph.features[[5, 8]] == 0).all()
    assert graph.labels.tolist() == [0, 1, 1, 0, 1, -1, 0, 1, -1, 1]
    assert graph.train.nonzero()[0].tolist() == [0, 1, 2]
    assert graph.validation.nonzero()[0].tolist() == [3, 4]
    assert graph.test.nonzero()[0].tolist() == [6, 7, 9]
    found = set(map(tuple, graph.index.T.tolist()))
    assert found == {(0, 1), (1, 0), (1, 6), (6, 1), (9, 9), (9, 2), (2, 9)}
    assert len(found) == graph.index.shape[1]


@pytest.mark.skipif(not CORA.is_dir(), reason="needs $ATENTO_DATA/cora")
def test_cora_is_what_everybody_counts() -> None:
    graph = planetoid(CORA)
    assert graph.nodes == 2708
    assert graph.index.shape == (2, 10556)
    assert graph.features.shape == (2708, 1433)
    assert int((graph.features != 0).sum()) == 49216
    assert len(graph.classes) == 7
    assert np.bincount(graph.labels).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert np.bincount(graph.labels[graph.train]).tolist() == [20] * 7
    assert [int(x.sum()) for x in (graph.train, graph.validation, graph.test)] == [140, 500, 1000]
    assert not (graph.train & graph.validation | graph.validation & graph.test).any()


class Hostile:
    def __init__(self, call, *given) -> None:
        self.call, self.given = call, given

    def __reduce__(self):
        return self.call, self.given


@pytest.mark.parametrize("part", ["x", "ally", "graph"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_runs_nothing(folder: Path, part: str, protocol: int) -> None:
    mark = folder / "ran"
    for call, given in (
        (os.mkdir, (str(mark),)),
        (eval, (f"__import__('os').mkdir({str(mark)!r})",)),
        (getattr, (os, "mkdir")),
        (np.load, (str(mark),)),
        (pickle.loads, (b"",)),
    ):
        content = Hostile(call, *given) if call is not getattr else Hostile(getattr, [], "append")
        (folder / f"ind.toy.{part}").write_bytes(pickle.dumps(content, protocol=protocol))
        with pytest.raises(UserError, match=rf"ind\.toy\.{part}: the pickle asks for .*Nothing"):
            planetoid(folder)
        assert not mark.exists()


def test_what_the_fence_lets_through_is_ours_alone() -> None:
    for (module, name), ours in STANDS_FOR.items():
        assert ours is list or ours.__module__ == "atento.data.planetoid", (module, name)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no pickle"),
        (b"not a pickle", "is no pickle"),
        (pickle.dumps(np.array([[object]]), protocol=2), "'O8' are not numbers"),
        (pickle.dumps(np.array([["a"]]), protocol=2), "'U1' are not numbers"),
        (pickle.dumps(np.zeros(3), protocol=2), "expected a matrix of numbers; got an array of 1"),
        (pickle.dumps({1: [2]}, protocol=2), "expected a matrix of numbers; got dict"),
        (pickle.dumps(np.zeros((2, F)), protocol=2), r"ind\.toy\.ty: has 3 rows"),
        (pickle.dumps(np.zeros((3, F + 1)), protocol=2), "5 columns.*they must agree"),
        (
            pickle.dumps(np.full((3, F), np.nan), protocol=2),
            r"tx, row 0: a feature is not a finite",
        ),
    ],
)
def test_a_damaged_matrix_is_told_in_one_line(folder: Path, content: bytes, says: str) -> None:
    (folder / "ind.toy.tx").write_bytes(content)
    with pytest.raises(UserError, match=says) as error:
        planetoid(folder)
    assert "\n" not in str(error.value)


def test_an_array_whose_shape_lies_is_refused(folder: Path) -> None:
    honest = pickle.dumps(TX, protocol=2)
    lying = honest.replace(b"K\x03K\x04\x86", b"K\x7fK\x04\x86")
    assert lying != honest
    (folder / "ind.toy.tx").write_bytes(lying)
    with pytest.raises(UserError, match="more or fewer numbers than its shape"):
        planetoid(folder)


@pytest.mark.parametrize("change", ["column", "rows", "part"])
def test_a_sparse_matrix_that_does_not_add_up_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    made = csr_matrix(ALLX)
    if change == "column":
        made.indices = made.indices + F
    elif change == "rows":
        made.indptr = made.indptr[:-1]
    else:
        del made.data
    monkeypatch.setattr(sys.modules[__name__], "csr_matrix", lambda dense: made)
    with monkeypatch.context() as patch:
        module = types.ModuleType("scipy.sparse.csr")
        module.csr_matrix = type(made)
        for name in ("scipy", "scipy.sparse"):
            patch.setitem(sys.modules, name, types.ModuleType(name))
        patch.setitem(sys.modules, "scipy.sparse.csr", module)
        patch.setattr(type(made), "__module__", "scipy.sparse.csr")
        content = pickle.dumps(made, protocol=2)
    (folder / "ind.toy.allx").write_bytes(content)
    with pytest.raises(UserError, match=r"allx: the matrix in it is damaged"):
        planetoid(folder)


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        ({0: [10]}, "node 0 has the neighbour 10; expected numbers from 0 to 9"),
        ({0: [-1]}, "the neighbour -1"),
        ({"a": [1]}, "node 'a'"),
        ({0: 3}, "node 0"),
        ([1], "expected a dictionary"),
    ],
)
def test_a_graph_with_nodes_that_are_not_there_is_refused(folder: Path, lists, says) -> None:
    (folder / "ind.toy.graph").write_bytes(pickle.dumps(lists, protocol=2))
    with pytest.raises(UserError, match=says):
        planetoid(folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("6\n7\nx\n", "row 3: expected a node's number ≥ 0; got 'x'"),
        ("6\n7\n-1\n", "row 3"),
        ("6\n7\n6\n", "node 6 stands there twice"),
        ("6\n7\n", "names 2 nodes, and ind.toy.tx has 3 rows"),
        ("6\n7\n2\n", "node 2 is one of the 5 that allx has"),
        ("", "has no test node"),
    ],
)
def test_a_wrong_list_of_test_nodes_names_its_row(folder: Path, text: str, says: str) -> None:
    (folder / "ind.toy.test.index").write_text(text)
    with pytest.raises(UserError) as error:
        planetoid(folder)
    assert says in str(error.value)


def test_folders_without_the_files_or_with_two_graphs_are_told(folder: Path) -> None:
    (folder / "ind.toy.ally").unlink()
    with pytest.raises(UserError, match=r"ind\.toy\.ally: no such file"):
        planetoid(folder)
    (folder / "ind.other.graph").touch()
    with pytest.raises(UserError, match="found other, toy"):
        planetoid(folder)
    for file in folder.glob("ind.*"):
        file.unlink()
    with pytest.raises(UserError, match="found none"):
        read_graph(folder)
