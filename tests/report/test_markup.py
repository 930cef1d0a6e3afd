"""Elements escape what is text, and numbers are written as people write them."""

import math
from html.parser import HTMLParser

import pytest

from atento.report.markup import Html, element, joined
from atento.report.numbers import number

HOSTILE = "</td><script>alert(1)</script> & \"x\" 'y' <b>"


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[str | None] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


def test_text_and_attributes_come_back_as_they_were() -> None:
    reader = read(element("p", {"title": HOSTILE}, HOSTILE, element("b", None, "x")))
    assert reader.tags == ["p", "b"]
    assert reader.values == [HOSTILE]
    assert reader.text == HOSTILE + "x"


def test_what_is_html_is_not_escaped_twice() -> None:
    inner = element("i", None, "a < b")
    assert joined([inner, "<"]) == "<i>a &lt; b</i>&lt;"
    assert isinstance(joined([]), Html)


@pytest.mark.parametrize("text", ["\x00", "\x1b[31m", "\ud800", "\x7f"])
def test_what_no_page_may_hold_is_replaced(text: str) -> None:
    written = element("p", None, text)
    written.encode("utf-8")
    assert "\ufffd" in written


@pytest.mark.parametrize(
    "text",
    ["é çã ᵀ √ −∞ 漢字 🍕", "क\u200dष 👩\u200d🚀", "two\nlines\tand a tab", "\u202fa\u00a0b"],
)
def test_words_of_any_language_stay(text: str) -> None:
    assert element("p", None, text) == f"<p>{text}</p>"


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [
        (0.30846, 3, "0.308"),
        (-0.0001, 3, "0.000"),
        (-0.0, 0, "0"),
        (-0.5, 1, "-0.5"),
        (2.0, 0, "2"),
        (-math.inf, 3, "-∞"),
        (math.inf, 3, "∞"),
        (math.nan, 3, "–"),
    ],
)
def test_numbers_as_they_are_written(value: float, digits: int, written: str) -> None:
    assert number(value, digits) == written
