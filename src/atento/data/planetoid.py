"""Planetoid's folders, `ind.NAME.*`: pickles of another age, read through a fence.

Nothing that a pickle names is imported or called: the few names that these files need stand for
plain holders of ours, and any other name is refused. So neither scipy nor numpy's own unpickling
takes part, and a hostile file can do no more than be refused.
"""

import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from atento.data.graphs import Graph
from atento.errors import UserError

__all__ = ["planetoid"]

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
VALIDATION = 500  # nodes after the labelled ones, as the benchmark has it
KINDS = re.compile(r"[bifu][1248]")  # numbers; never objects


def planetoid(folder: str | Path, name: str | None = None) -> Graph:
    """The graph of a folder with ind.NAME.x, .tx, .allx, .y, .ty, .ally, .graph and .test.index.

    Edges go both ways, each once. A number that is missing in test.index is a node without label
    and features. The split is the benchmark's: the labelled nodes x train, the next 500 validate,
    test.index tests.
    Ref: Yang et al. 2016, arXiv:1603.08861.
    Claim: test_planetoid.py::test_cora_is_what_everybody_counts
    """
    folder = Path(folder)
    name = name or _only_name(folder)
    files = {part: folder / f"ind.{name}.{part}" for part in PARTS}
    for part, file in files.items():
        if not file.is_file():
            raise UserError(f"{file}: no such file; a Planetoid folder has ind.{name}.{part}.")
    tested = _tested(files["test.index"])
    known = {part: _matrix(files[part]) for part in PARTS[:6]}
    first = len(known["allx"])
    if tested.min() < first:
        raise UserError(
            f"{files['test.index']}: node {tested.min()} is one of the {first} that allx has; "
            "test nodes come after them."
        )
    _check_lengths(files, known, len(tested))
    nodes = int(tested.max()) + 1
    features = _placed(known["allx"], known["tx"], tested, nodes)
    onehot = _placed(known["ally"], known["ty"], tested, nodes)
    labels = np.where(onehot.any(1), onehot.argmax(1), -1)
    return Graph(
        index=_edges(files["graph"], nodes),
        nodes=nodes,
        features=features.astype(np.float32),
        labels=labels.astype(np.int64),
        classes=tuple(str(n) for n in range(onehot.shape[1])),
        train=_flags(nodes, np.arange(len(known["y"]))),
        validation=_flags(
            nodes, np.arange(len(known["y"]), min(len(known["y"]) + VALIDATION, first))
        ),
        test=_flags(nodes, tested),
    )


def _only_name(folder: Path) -> str:
    names = sorted(file.name[4:-6] for file in folder.glob("ind.*.graph"))
    if len(names) == 1:
        return names[0]
    found = ", ".join(names) or "none"
    raise UserError(
        f"{folder}: expected the files ind.NAME.* of one Planetoid graph; found {found}. "
        "Give the folder that has them, and the name where there are several."
    )


def _tested(file: Path) -> np.ndarray:
    found = []
    for row, line in enumerate(file.read_text(encoding="utf-8", errors="replace").split(), 1):
        if not line.isascii() or not line.isdigit():
            raise UserError(f"{file}, row {row}: expected a node's number ≥ 0; got {line!r}.")
        found.append(int(line))
    numbers = np.array(found, dtype=np.int64)
    if not len(numbers):
        raise UserError(f"{file}: has no test node; expected one number on each line.")
    values, counts = np.unique(numbers, return_counts=True)
    if counts.max() > 1:
        raise UserError(f"{file}: node {values[counts.argmax()]} stands there twice.")
    return numbers


def _check_lengths(files: dict[str, Path], known: dict[str, np.ndarray], tested: int) -> None:
    for a, b in (("x", "y"), ("tx", "ty"), ("allx", "ally")):
        if len(known[a]) != len(known[b]):
            raise UserError(
                f"{files[b]}: has {len(known[b])} rows, and {files[a].name} {len(known[a])}; "
                "each node has its features and its label."
            )
    for a, b in (("allx", "tx"), ("ally", "ty")):
        if known[a].shape[1] != known[b].shape[1]:
            raise UserError(
                f"{files[b]}: has {known[b].shape[1]} columns, and {files[a].name} "
                f"{known[a].shape[1]}; they must agree."
            )
    if len(known["tx"]) != tested:
        raise UserError(
            f"{files['test.index']}: names {tested} nodes, and {files['tx'].name} has "
            f"{len(known['tx'])} rows; they must agree."
        )
    for part in ("x", "tx", "allx"):
        rows = np.flatnonzero(~np.isfinite(known[part]).all(1))
        if len(rows):
            raise UserError(f"{files[part]}, row {rows[0]}: a feature is not a finite number.")


def _placed(known: np.ndarray, tested: np.ndarray, where: np.ndarray, nodes: int) -> np.ndarray:
    out = np.zeros((nodes, known.shape[1]), dtype=np.float64)
    out[: len(known)] = known
    out[where] = tested
    return out


def _flags(nodes: int, which: np.ndarray) -> np.ndarray:
    out = np.zeros(nodes, dtype=bool)
    out[which] = True
    return out


def _edges(file: Path, nodes: int) -> np.ndarray:
    """Int[2, E], both ways, each once."""
    lists = _loaded(file)
    if not isinstance(lists, dict):
        raise UserError(f"{file}: expected a dictionary node → neighbours; got {_kind(lists)}.")
    pairs = []
    for node, near in lists.items():
        for other in near if isinstance(near, list) else [None]:
            for n in (node, other):
                if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < nodes:
                    raise UserError(
                        f"{file}: node {node!r} has the neighbour {other!r}; expected numbers "
                        f"from 0 to {nodes - 1}."
                    )
            pairs += [(node, other), (other, node)]
    codes = np.unique([a * nodes + b for a, b in pairs]).astype(np.int64)
    return np.stack([codes % nodes, codes // nodes])


def _matrix(file: Path) -> np.ndarray:  # [rows, columns]
    found = _loaded(file)
    try:
        made = found.dense() if isinstance(found, (_Array, _Csr)) else None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise UserError(f"{file}: the matrix in it is damaged ({error}).") from None
    if made is None or made.ndim != 2:
        raise UserError(f"{file}: expected a matrix of numbers; got {_kind(found)}.")
    return made


def _kind(found: object) -> str:
    return (
        f"an array of {len(found.shape)} axes"
        if isinstance(found, _Array)
        else type(found).__name__
    )


# ------------------------------------------------------------------ the fence


class _Type:
    """What stands for numpy's dtype: its letters and byte order."""

    def __init__(self, code: object, *rest: object) -> None:
        if not isinstance(code, str) or not KINDS.fullmatch(code):
            raise ValueError(f"arrays of type {code!r} are not numbers")
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or state[1] not in ("<", ">", "|", "="):
            raise ValueError("an array's type is none that numpy writes")
        self.order = state[1]

    @property
    def made(self) -> np.dtype:
        return np.dtype(self.order + self.code)


class _Array:
    """What stands for numpy's array while it is read."""

    shape: tuple[int, ...] = ()
    values: np.ndarray

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, raw = state
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise ValueError("an array is no array of numbers")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError("an array has a shape that is none")
        if math.prod(shape) * kind.made.itemsize != len(content):
            raise ValueError("an array has more or fewer numbers than its shape says")
        self.shape = tuple(shape)
        flat = np.frombuffer(content, kind.made)
        self.values = flat.reshape(self.shape, order="F" if by_columns else "C")

    def dense(self) -> np.ndarray:
        return self.values.astype(np.float64)


class _Csr:
    """What stands for scipy's csr_matrix while it is read."""

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise ValueError("a sparse matrix has no parts")
        self.parts = state

    def dense(self) -> np.ndarray:
        rows, columns = self.parts["_shape"] if "_shape" in self.parts else self.parts["shape"]
        data, indices, starts = (self.parts[n].values for n in ("data", "indices", "indptr"))
        counts = np.diff(starts)
        if len(counts) != rows or counts.min(initial=0) < 0 or counts.sum() != len(data):
            raise ValueError("its rows do not add up")
        if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
            raise ValueError("a column is out of range")
        out = np.zeros((rows, columns))
        np.add.at(out, (np.repeat(np.arange(rows), counts), indices), data)
        return out


def _dictionary(factory: object = None) -> dict[Any, Any]:
    return {}


def _encoded(text: str, code: str) -> bytes:
    """As Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


def _array(*kind: object) -> _Array:
    return _Array()


STANDS_FOR: dict[tuple[str, str], Callable[..., Any]] = {
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
    ("collections", "defaultdict"): _dictionary,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Fenced(pickle.Unpickler):
    def __init__(self, file: BinaryIO, name: Path) -> None:
        super().__init__(file, encoding="latin1")
        self.name = name

    def find_class(self, module: str, name: str) -> Any:
        found = STANDS_FOR.get((module, name))
        if found is None:
            raise UserError(
                f"{self.name}: the pickle asks for {module}.{name}, which no Planetoid file needs. "
                "Nothing of it was run; get the file from a source that you trust."
            )
        return found


def _loaded(file: Path) -> Any:
    try:
        with file.open("rb") as opened:
            return _Fenced(opened, file).load()
    except UserError:
        raise
    except Exception as error:  # a pickle can be damaged in every way that there is
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{file}: is no pickle that Planetoid wrote ({said}).") from None
