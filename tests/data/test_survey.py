"""What is said of a text before training on it is what stands in it."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atento.data.survey import Notice, Surveyor
from atento.data.text import read

BOOK = (
    "The Project Gutenberg eBook of Dom Casmurro\r\n\r\n"
    "*** START OF THE PROJECT GUTENBERG EBOOK DOM CASMURRO ***\r\n"
    "Uma noite destas, vindo da cidade para o Engenho Novo\r\n"
    "*** END OF THIS PROJECT GUTENBERG EBOOK DOM CASMURRO ***\r\n"
    "Todos os direitos reservados.\r\n"
)
FOUND = [
    ("Project Gutenberg", "header", 3),
    ("Project Gutenberg", "footer", 5),
    ("reserved rights", "notice", 6),
]


def test_a_book_with_a_licence_is_described(tmp_path: Path) -> None:
    file = tmp_path / "casmurro.txt"
    file.write_bytes(BOOK.encode("utf-16"))
    survey = read(str(file)).survey
    assert survey.encodings == ("UTF-16",)
    assert survey.line_ends == ("\r\n",)
    assert survey.lines == 6
    assert [(n.owner, n.kind, n.line) for n in survey.notices] == [
        ("Project Gutenberg", "header", 3),
        ("Project Gutenberg", "footer", 5),
        ("reserved rights", "notice", 6),
    ]
    said = "\n".join(survey.sentences())
    for part in (
        "UTF-16",
        "\\r\\n, all read as \\n",
        "header ends on line 3",
        "6 lines",
        "',' × 1",
    ):
        assert part in said, said


@given(st.lists(st.integers(1, 60), max_size=20))
def test_notices_are_found_once_however_the_text_comes(lengths: list[int]) -> None:
    surveyor, text, first = Surveyor(), "\n" * 400 + BOOK.replace("\r", ""), 300
    surveyor.begin("a", "UTF-8")
    surveyor.see(text[:first])
    for length in lengths:
        surveyor.see(text[first : first + length] or "\n")
        first += length
    if first < len(text):
        surveyor.see(text[first:])
    found = surveyor.survey().notices
    expected = [Notice(owner, kind, "a", line + 400) for owner, kind, line in FOUND]
    assert sorted(found, key=lambda n: n.line) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=5))
def test_every_character_is_counted(texts: list[str]) -> None:
    surveyor = Surveyor()
    surveyor.begin("a", "UTF-8")
    for text in texts:
        surveyor.see(text)
    survey, expected = surveyor.survey(), Counter("".join(texts))
    assert dict(survey.counts) == expected
    assert survey.alphabet == "".join(sorted(expected))
    assert survey.characters == expected.total()
    assert dict(survey.rare) == {c: n for c, n in expected.items() if n < 10}


def test_a_clean_text_has_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc\n" * 50)
    assert read(str(tmp_path / "a.txt")).survey.sentences() == [
        f"{tmp_path / 'a.txt'}: 200 characters, 4 of them distinct, in 50 lines; UTF-8; "
        "line ends \\n."
    ]


def test_a_damaged_text_and_mixed_line_ends_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("voc\ufffd\r\n".encode() * 20 + b"a\nb\r")
    said = "\n".join(read(str(tmp_path / "a.txt")).survey.sentences())
    assert "20 characters are U+FFFD" in said
    assert "line ends \\n and \\r\\n and \\r, all read as \\n" in said


def test_a_named_set_says_its_licence() -> None:
    assert "Licence: PSF-2.0." in read("pydoc").survey.sentences()


@pytest.mark.parametrize("text", ["", "Creative Commons BY-SA: creativecommons.org/licenses/by"])
def test_creative_commons_is_noticed(text: str) -> None:
    surveyor = Surveyor()
    surveyor.begin("a", "UTF-8")
    surveyor.see(text or "x")
    assert [n.owner for n in surveyor.survey().notices] == ["Creative Commons"] * (2 * bool(text))
