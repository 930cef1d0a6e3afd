"""Heatmaps and tables hold every value, and are well-formed."""

import math
import xml.etree.ElementTree as ElementTree

from atento.report.colours import colour
from atento.report.heatmap import LARGEST_WITH_VALUES, Axes, heatmap
from atento.report.table import table

MATRIX = [[0.0, 0.25, 1.0], [-math.inf, 0.5, math.nan]]


def parts(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def test_each_cell_has_its_colour_and_its_value() -> None:
    svg = parts(heatmap(MATRIX, "A", digits=2))
    cells = svg.findall("rect")
    texts = [text.text for text in svg.findall("text") if text.get("class") != "label"]
    assert [cell.get("fill") for cell in cells[:3]] == [colour(0), colour(0.25), colour(1)]
    assert texts == ["0.00", "0.25", "1.00", "0.50"]
    assert len(cells) == 6


def test_what_is_not_finite_has_a_sign_and_no_colour() -> None:
    svg = parts(heatmap(MATRIX, "A"))
    bare = [cell for cell in svg.findall("rect") if cell.get("class") == "none"]
    assert [cell.get("fill") for cell in bare] == [None, None]
    assert {"-∞", "–"} <= {text.text for text in svg.findall("text")}


def test_limits_set_the_ends_of_the_scale() -> None:
    (cell,) = parts(heatmap([[5.0]], "A", limits=(0.0, 10.0))).findall("rect")
    assert cell.get("fill") == colour(0.5)


def test_marked_cells_are_outlined() -> None:
    svg = parts(heatmap(MATRIX, "A", marked={(0, 1)}))
    (outline,) = [cell for cell in svg.findall("rect") if cell.get("class") == "marked"]
    assert outline.get("fill") == "none"


def test_names_are_escaped_and_missing_ones_are_numbers() -> None:
    svg = parts(heatmap(MATRIX, "a < b & c", axes=Axes(rows=["<é>"], columns=["x"])))
    assert svg.findtext("title") == "a < b & c"
    labels = [text.text for text in svg.findall("text") if text.get("class") == "label"]
    assert labels[:5] == ["<é>", "2", "x", "2", "3"]


def test_a_large_matrix_is_drawn_without_values() -> None:
    side = LARGEST_WITH_VALUES + 1
    svg = parts(heatmap([[0.5] * side] * side, "A"))
    assert len(svg.findall("rect")) == side * side
    assert not svg.findall("text")


def test_an_empty_matrix_is_an_empty_picture() -> None:
    assert not parts(heatmap([], "A")).findall("rect")


def test_a_table_holds_names_cells_and_marks() -> None:
    root = ElementTree.fromstring(
        table(
            [["1", "2"], ["3", "<4>"]],
            caption="C",
            columns=["a", "b"],
            names=["x", "y"],
            marked={(1, 1)},
        )
    )
    assert root.findtext("caption") == "C"
    assert [cell.text for cell in root.iter("th")] == ["a", "b", "x", "y"]
    assert [cell.text for cell in root.iter("td")] == [None, "1", "2", "3", "<4>"]
    assert [cell.text for cell in root.iter("td") if cell.get("class") == "marked"] == ["<4>"]


def test_names_have_room_at_the_left_wide_signs_twice_as_much() -> None:
    def left(name: str) -> float:
        svg = parts(heatmap([[1.0]], "A", axes=Axes(rows=[name], columns=["x"])))
        return float(svg.findall("rect")[0].get("x", "0"))

    assert left("漢字") == left("abcd") > left("abc")


def test_without_digits_cells_are_squares_under_names() -> None:
    svg = parts(heatmap(MATRIX, "A", axes=Axes(rows=["a", "b"], columns=["x"]), digits=None))
    cells = svg.findall("rect")
    assert {(cell.get("width"), cell.get("height")) for cell in cells} == {("21", "21")}
    assert [text.text for text in svg.findall("text")] == ["a", "b", "x", "2", "3"]
    long = parts(heatmap(MATRIX, "A", axes=Axes(columns=["<long>"]), digits=None))
    turned = [text for text in long.findall("text") if "rotate" in text.get("transform", "")]
    assert [text.text for text in turned] == ["<long>", "2", "3"]
    assert min(float(cell.get("y", "0")) for cell in long.findall("rect")) > 6 * 9
