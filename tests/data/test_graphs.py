"""Graphs as data: edge lists, GraphML and networkx's objects; what is wrong names file and row."""

import networkx as nx
import numpy as np
import pytest

from atento.data.graphs import edge_list, from_networkx, graphml, karate, read_graph
from atento.errors import UserError


@pytest.fixture
def write(tmp_path):
    def written(name: str, text: str):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


def pairs(graph) -> list[tuple[int, int]]:
    return list(map(tuple, graph.index.T.tolist()))


@pytest.mark.parametrize(("name", "cut"), [("g.csv", ","), ("g.tsv", "\t")])
@pytest.mark.parametrize("header", ["", "source{0}target\n", "From{0}To\n"])
def test_an_edge_list_goes_from_its_first_column_to_its_second(write, name, cut, header) -> None:
    text = header.format(cut) + f"ana{cut}rui\nrui{cut}eva\n\nana{cut}ana\n"
    graph = edge_list(write(name, text), directed=True)
    assert graph.names == ("ana", "rui", "eva")
    assert pairs(graph) == [(0, 1), (1, 2), (0, 0)]
    assert graph.features is graph.labels is graph.edge_features is None


def test_numbered_nodes_stand_in_the_order_of_their_numbers(write) -> None:
    graph = edge_list(write("g.csv", "10,2\n2,7\n"), directed=True)
    assert graph.names == ("2", "7", "10")
    assert pairs(graph) == [(2, 0), (0, 1)]


def test_undirected_edges_go_both_ways_with_their_numbers(write) -> None:
    text = "source,target,weight,age\na,b,0.5,1\nb,c,2,3\nc,c,4,5\nb,a,6,7\n"
    graph = edge_list(write("g.csv", text), directed=False)
    assert pairs(graph) == [(0, 1), (1, 2), (2, 2), (1, 0), (2, 1)]
    assert graph.edge_features.tolist() == [[0.5, 1], [2, 3], [4, 5], [6, 7], [2, 3]]


def test_edges_that_stand_both_ways_need_no_word_on_direction(write) -> None:
    path = write("g.csv", "a,b\nb,a\nc,c\n")
    assert (
        pairs(edge_list(path)) == pairs(edge_list(path, directed=True)) == [(0, 1), (1, 0), (2, 2)]
    )


def test_a_file_of_nodes_brings_order_labels_features_and_lonely_nodes(write) -> None:
    nodes = write("n.csv", "id,size,label,age\nz,1,10,2\ny,3,,4\nx,5,9,6\nlonely,7,10,8\n")
    graph = edge_list(write("g.csv", "x,z\n"), nodes=nodes, directed=True)
    assert graph.names == ("z", "y", "x", "lonely")
    assert pairs(graph) == [(2, 0)]
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert graph.classes == ("9", "10")
    assert graph.labels.tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no edge"),
        ("source,target\n", "has no edge"),
        ("a,b\nb\n", "row 2: expected 2 cells"),
        ("a,b\n\nb,\n", "row 3: expected 2 cells"),
        ("a\nb\n", "row 1: expected 2 cells"),
        ("a,b,1\nb,a,2\n", "row 1: more than two columns need a header"),
        ("source,target,w\na,b,1\nb,a,x\n", "row 3: expected a finite number; got 'x'"),
        ("source,target,w\na,b,nan\nb,a,1\n", "row 2: expected a finite number; got 'nan'"),
        ("source,target,w\na,b,1\nb,a,1,1\n", "row 3: expected 3 cells"),
        ("a,b\nb,a\na,c\n", "row 3: this edge stands there one way only"),
        ('a,b\nb,"a\n', "row 2"),
    ],
)
def test_what_is_wrong_with_a_file_of_edges_names_its_row(write, text, says) -> None:
    path = write("g.csv", text)
    with pytest.raises(UserError) as error:
        edge_list(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ("id\n", "a row for each node"),
        ("id,label\na,1\nb,2\na,1\n", "row 4: node 'a' stands in row 2 already"),
        ("id,f\na,1\nb,inf\n", "row 3: expected a finite number; got 'inf'"),
        ("id,f\na,1\nb\n", "row 3: expected 2 cells"),
        ("id,f\n,1\nb,2\n", "row 2: expected 2 cells"),
    ],
)
def test_what_is_wrong_with_a_file_of_nodes_names_its_row(write, nodes, says) -> None:
    with pytest.raises(UserError) as error:
        edge_list(write("g.csv", "a,b\n"), nodes=write("n.csv", nodes), directed=True)
    assert says in str(error.value)
    assert "n.csv" in str(error.value)


def test_an_edge_of_a_node_that_is_not_listed_names_its_row(write) -> None:
    edges, nodes = write("g.csv", "source,target\na,b\nb,q\n"), write("n.csv", "id,f\na,1\nb,2\n")
    with pytest.raises(UserError, match=r"g\.csv, row 3: node 'q' is not in .*n\.csv"):
        edge_list(edges, nodes=nodes, directed=True)


def test_files_that_are_no_tables_are_refused(write, tmp_path) -> None:
    with pytest.raises(UserError, match=r"must end in \.csv .* got '\.txt'"):
        read_graph(write("g.txt", "a,b\n"))
    (tmp_path / "bytes.csv").write_bytes(b"a,\xff\n")
    with pytest.raises(UserError, match=r"is not UTF-8 \(byte 2\)"):
        read_graph(tmp_path / "bytes.csv")
    with pytest.raises(UserError, match=r"nowhere: no such file or folder"):
        read_graph(tmp_path / "nowhere")


def test_graphml_says_itself_whether_it_is_directed(tmp_path) -> None:
    for kind, expected in (
        (nx.DiGraph, [(0, 1), (1, 2)]),
        (nx.Graph, [(0, 1), (1, 2), (1, 0), (2, 1)]),
    ):
        made = kind()
        made.add_node("a", label="red")
        made.add_nodes_from(["b", "c"], label="blue")
        made.add_edges_from([("a", "b"), ("b", "c")])
        nx.write_graphml(made, tmp_path / "g.graphml")
        graph = read_graph(tmp_path / "g.graphml")
        assert sorted(pairs(graph)) == sorted(expected)
        assert graph.classes == ("blue", "red")
        assert graph.labels.tolist() == [1, 0, 0]


def test_what_is_no_graphml_is_refused(write) -> None:
    with pytest.raises(UserError, match=r"g\.graphml: is no GraphML"):
        graphml(write("g.graphml", "<graphml><gra"))


def test_networkx_objects_keep_features_labels_and_loops() -> None:
    made = nx.Graph([(5, 3), (3, 3)])
    made.nodes[5]["features"], made.nodes[3]["features"] = [1.0, 2.0], [3.0, 4.0]
    graph = from_networkx(made)
    assert sorted(pairs(graph)) == [(0, 1), (1, 0), (1, 1)]
    assert graph.features.tolist() == [[1, 2], [3, 4]]
    assert graph.labels is None
    made.nodes[3]["features"] = [3.0, float("nan")]
    with pytest.raises(UserError, match="node '3' must have a list of finite features"):
        from_networkx(made)
    del made.nodes[3]["features"]
    with pytest.raises(UserError, match="node '3' must have a list"):
        from_networkx(made)
    with pytest.raises(UserError, match="has no node"):
        from_networkx(nx.Graph())


def test_a_graph_without_edges_has_nodes_all_the_same() -> None:
    made = nx.Graph()
    made.add_nodes_from("ab")
    assert from_networkx(made).index.shape == (2, 0)


def test_karate_is_zacharys() -> None:
    graph = read_graph("karate")
    assert (graph.nodes, graph.index.shape[1]) == (34, 2 * 78)
    assert np.array_equal(graph.features, np.eye(34))
    assert np.bincount(graph.labels).tolist() == [17, 17]
    assert graph.classes == ("Mr. Hi", "Officer")
    degrees = np.bincount(graph.index[1], minlength=34)
    assert (degrees[0], degrees[33]) == (16, 17)
    assert pairs(karate()) == pairs(graph)
