"""Graphs as data: edge lists, GraphML, networkx's objects, Planetoid's folders; karate offline.

Everything becomes a `Graph`, arrays alone; row 0 of its edges sends and row 1 receives, as the
door's `Edges` has them. What is wrong with a file is said in one line that names file and row.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atento.errors import UserError

__all__ = ["Graph", "edge_list", "from_networkx", "graphml", "karate", "read_graph"]

HEADS = {"source": "target", "sender": "receiver", "from": "to", "src": "dst"}
DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """One graph: `index` Int[2, E], row 0 = sender, row 1 = receiver, of `nodes` nodes."""

    index: np.ndarray
    nodes: int
    features: np.ndarray | None = None  # Float32[N, F]
    labels: np.ndarray | None = None  # Int64[N], −1 where none is known
    edge_features: np.ndarray | None = None  # Float32[E, F], in the order of the edges
    names: tuple[str, ...] = ()  # of the nodes, where the source has them
    classes: tuple[str, ...] = ()  # of the labels
    train: np.ndarray | None = None  # Bool[N]; None: the source has no split
    validation: np.ndarray | None = None
    test: np.ndarray | None = None


def read_graph(
    source: str | Path, *, nodes: str | Path | None = None, directed: bool | None = None
) -> Graph:
    """The graph that a source names: karate, a .csv, .tsv or .graphml file, a Planetoid folder."""
    path = Path(source).expanduser()
    if str(source) == "karate":
        return karate()
    if path.is_dir():
        from atento.data.planetoid import planetoid

        return planetoid(path)
    if not path.is_file():
        raise UserError(
            f"{path}: no such file or folder. A graph is karate, a .csv or .tsv of edges, a "
            ".graphml file, or a folder with Planetoid's ind.NAME.* files."
        )
    if path.suffix.lower() == ".graphml":
        return graphml(path)
    return edge_list(path, nodes=nodes, directed=directed)


def edge_list(
    path: str | Path, *, nodes: str | Path | None = None, directed: bool | None = None
) -> Graph:
    """The graph of a .csv or .tsv with an edge on each row: source, target, then numbers.

    A header (source,target or sender,receiver, …) may be left out where there are two columns.
    `nodes` is a second such file, with a header: an id, a `label` if there is one, and features; it
    says which nodes there are, also those without an edge, and in which order. Without it nodes
    are numbered in the order of their ids where all are whole numbers, else as they first appear.
    `directed` says what one row means: source → target (True), or both ways (False). Where every
    edge stands there both ways it need not be given.
    """
    path = Path(path)
    rows, columns = _edge_rows(path)
    table = None if nodes is None else _node_table(Path(nodes))
    names = _numbered(rows) if table is None else table.names
    place = {name: n for n, name in enumerate(names)}
    index = np.zeros((2, len(rows)), dtype=np.int64)
    said = np.zeros((len(rows), max(columns - 2, 0)), dtype=np.float32)
    for n, (number, row) in enumerate(rows):
        for end in (0, 1):
            if row[end] not in place:
                raise UserError(
                    f"{path}, row {number}: node {row[end]!r} is not in {nodes}, which lists the "
                    "nodes. Add it there, or remove the edge."
                )
            index[end, n] = place[row[end]]
        said[n] = [_number(path, number, cell) for cell in row[2:]]
    numbers = [number for number, _ in rows]
    index, said = _both_ways(path, numbers, (index, said), directed)
    return Graph(
        index=index,
        nodes=len(names),
        features=None if table is None else table.features,
        labels=None if table is None else table.labels,
        edge_features=said if said.shape[1] else None,
        names=tuple(names),
        classes=() if table is None else table.classes,
    )


def graphml(path: str | Path) -> Graph:
    """The graph of a GraphML file, which says itself whether it is directed."""
    networkx = _networkx()
    try:
        found = networkx.read_graphml(path)
    except Exception as error:  # an XML parser, networkx's own errors, wrong types
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: is no GraphML that can be read ({said}).") from None
    return from_networkx(found, source=str(path))


def from_networkx(
    found: Any, *, label: str = "label", features: str = "features", source: str = "the graph"
) -> Graph:
    """The graph of a networkx object; an undirected edge goes both ways.

    Labels and lists of features are the nodes' attributes of these names, where they have them.
    """
    names = [str(n) for n in found.nodes]
    if not names:
        raise UserError(f"{source}: has no node.")
    place = {n: number for number, n in enumerate(found.nodes)}
    pairs = [(place[a], place[b]) for a, b in found.edges()]
    index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    if not found.is_directed():
        index = _turned(index)
    marks = [str(data.get(label, "")) for _, data in found.nodes(data=True)]
    labels, classes = _classes(marks)
    rows = [data.get(features) for _, data in found.nodes(data=True)]
    return Graph(
        index=index,
        nodes=len(names),
        features=_stacked(source, names, rows),
        labels=labels,
        names=tuple(names),
        classes=classes,
    )


def karate() -> Graph:
    """Zachary's karate club: 34 members, 78 friendships, the club that each chose when it split.

    Each member's features tell it apart from all others, for there are none.
    Ref: Zachary 1977, Journal of Anthropological Research 33(4), 452–473.
    """
    found = from_networkx(_networkx().karate_club_graph(), label="club", source="karate")
    return Graph(
        index=found.index,
        nodes=found.nodes,
        features=np.eye(found.nodes, dtype=np.float32),
        labels=found.labels,
        names=found.names,
        classes=found.classes,
    )


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise UserError(
            "this graph is read by networkx, which is not installed. Run: "
            "pip install 'atento[samples]'"
        ) from None
    return networkx


# ------------------------------------------------------------------ tables of text

Rows = list[tuple[int, list[str]]]  # the number of each row in its file, and its cells


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    delimiter = DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        raise UserError(
            f"{path}: a table must end in .csv (commas) or .tsv (tabs); got {path.suffix!r}."
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except csv.Error as error:
        raise UserError(f"{path}, row {reader.line_num}: {error}.") from None


def _edge_rows(path: Path) -> tuple[Rows, int]:
    """The rows without the header, all of one length ≥ 2, and that length."""
    rows = list(_rows(path))
    if rows and len(rows[0][1]) >= 2:
        first = [cell.lower() for cell in rows[0][1]]
        if HEADS.get(first[0]) == first[1]:
            rows = rows[1:]
        elif len(first) > 2:
            raise UserError(
                f"{path}, row {rows[0][0]}: more than two columns need a header, source,target "
                f"and then names of numbers; got {', '.join(rows[0][1])}."
            )
    if not rows:
        raise UserError(f"{path}: has no edge; expected a row source,target for each.")
    columns = len(rows[0][1])
    for number, row in rows:
        if len(row) != columns or columns < 2 or not (row[0] and row[1]):
            raise UserError(
                f"{path}, row {number}: expected {max(columns, 2)} cells, source and target "
                f"first; got {row}."
            )
    return rows, columns


def _numbered(rows: Rows) -> list[str]:
    """The nodes that edges name."""
    names = list(dict.fromkeys(cell for _, row in rows for cell in row[:2]))
    whole = all(name.isascii() and name.isdigit() for name in names)
    return sorted(names, key=int) if whole else names


def _number(path: Path, number: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{path}, row {number}: expected a finite number; got {cell!r}.")
    return value


@dataclass(frozen=True)
class _Nodes:
    names: list[str]
    features: np.ndarray | None
    labels: np.ndarray | None
    classes: tuple[str, ...]


def _node_table(path: Path) -> _Nodes:
    rows = list(_rows(path))
    if len(rows) < 2:
        raise UserError(f"{path}: expected a header (id, label, features) and a row for each node.")
    (_, header), *rest = rows
    low = [cell.lower() for cell in header]
    label = low.index("label") if "label" in low else None
    numbers = [n for n in range(1, len(header)) if n != label]
    seen: dict[str, int] = {}
    table = np.zeros((len(rest), len(numbers)), dtype=np.float32)
    for n, (number, row) in enumerate(rest):
        if len(row) != len(header) or not row[0]:
            raise UserError(
                f"{path}, row {number}: expected {len(header)} cells, the node's id first; "
                f"got {row}."
            )
        if row[0] in seen:
            raise UserError(
                f"{path}, row {number}: node {row[0]!r} stands in row {seen[row[0]]} already."
            )
        seen[row[0]] = number
        table[n] = [_number(path, number, row[c]) for c in numbers]
    marks = [] if label is None else [row[label] for _, row in rest]
    labels, classes = _classes(marks)
    return _Nodes(list(seen), table if numbers else None, labels, classes)


def _classes(marks: list[str]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """(labels, −1 where the mark is empty, and the classes in order); None without any mark."""
    classes = sorted({mark for mark in marks if mark})
    if all(mark.isascii() and mark.isdigit() for mark in classes):
        classes.sort(key=int)
    if not classes:
        return None, ()
    place = {mark: n for n, mark in enumerate(classes)}
    return np.array([place.get(mark, -1) for mark in marks], dtype=np.int64), tuple(classes)


def _both_ways(
    path: Path, rows: list[int], edges: tuple[np.ndarray, np.ndarray], directed: bool | None
) -> tuple[np.ndarray, np.ndarray]:
    index, said = edges
    if directed:
        return index, said
    pairs = set(map(tuple, index.T.tolist()))
    back = [(b, a) not in pairs for a, b in index.T.tolist()]
    one_way = back.index(True) if any(back) else None
    if directed is None and one_way is not None:
        raise UserError(
            f"{path}, row {rows[one_way]}: this edge stands there one way only, so it is unclear "
            "whether edges have a direction. Say directed=True (source → target) or "
            "directed=False (both ways)."
        )
    if one_way is None:
        return index, said
    return np.concatenate([index, index[::-1, back]], 1), np.concatenate([said, said[back]])


def _turned(index: np.ndarray) -> np.ndarray:
    """Each edge, then each back again but for loops."""
    return np.concatenate([index, index[::-1, index[0] != index[1]]], 1)


def _stacked(source: str, names: list[str], rows: list[Any]) -> np.ndarray | None:
    if all(row is None for row in rows):
        return None
    made = []
    for name, row in zip(names, rows, strict=True):
        try:
            values = np.asarray(row, dtype=np.float32)
        except (TypeError, ValueError):
            values = np.zeros((0, 0), dtype=np.float32)
        if values.ndim != 1 or not np.isfinite(values).all() or len(values) != len(rows[0] or ()):
            raise UserError(
                f"{source}: node {name!r} must have a list of finite features, as long as the "
                f"first node's; got {row!r}."
            )
        made.append(values)
    return np.stack(made)
