"""Files of pairs in every form, and what is wrong with one named with its line."""

import gzip
import json
from pathlib import Path

import pytest

from atento.data.pair_files import Pair, file_pairs, folder_pairs, lines_of
from atento.errors import UserError

PAIRS = [("Um cão.", "A dog."), ("Dois\u2028gatos", "Two cats"), ("três 🐈", "three")]
EN_DE = ("en", "de")


def write(file: Path, text: str | bytes) -> Path:
    content = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return file


def sides(home: Path, begins: str = "x", more: str = "", pairs: list[Pair] = PAIRS) -> None:
    write(home / f"{begins}.en{more}", "".join(f"{s}\n" for s, _ in pairs))
    write(home / f"{begins}.de{more}", "".join(f"{t}\n" for _, t in pairs))


@pytest.mark.parametrize("more", ["", ".gz"])
def test_every_form_gives_the_same_pairs(tmp_path: Path, more: str) -> None:
    sides(tmp_path, more=more)
    write(tmp_path / f"x.tsv{more}", "".join(f"{s}\t{t}\n" for s, t in PAIRS))
    rows = [json.dumps({"source": s, "target": t, "id": 3}) for s, t in PAIRS]
    write(tmp_path / f"x.jsonl{more}", "\r\n".join(rows))
    assert file_pairs(str(tmp_path / "x"), EN_DE, whole=True) == PAIRS
    two = f"{tmp_path / f'x.en{more}'},{tmp_path / f'x.de{more}'}"
    assert file_pairs(two, None, whole=True) == PAIRS
    for ending in ("tsv", "jsonl"):
        assert file_pairs(str(tmp_path / f"x.{ending}{more}"), None, whole=True) == PAIRS


def test_the_languages_say_the_direction(tmp_path: Path) -> None:
    sides(tmp_path)
    turned = [(t, s) for s, t in PAIRS]
    assert file_pairs(str(tmp_path / "x"), ("de", "en"), whole=True) == turned
    sides(tmp_path, "train.lc", ".gz")
    sides(tmp_path, "test_2016")
    made = folder_pairs(tmp_path, ("de", "en"))
    assert made == {"training": turned, "test": turned}


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    text = "um\x0bdois\r\ntrês\u2028quatro\x85\n\ncinco"
    expected = ["um\x0bdois", "três\u2028quatro\x85", "", "cinco"]
    assert lines_of(write(tmp_path / "a", text)) == expected
    assert lines_of(write(tmp_path / "b", "\ufeff" + text + "\n")) == expected
    assert lines_of(write(tmp_path / "c", "")) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.tsv", "a\tb\nc\td\te\n", r"x\.tsv, line 2, must be source, tab, target; it has 2 tabs"),
        ("x.tsv", "a\tb\nc\n", "line 2, .* it has 0 tabs"),
        ("x.tsv", "a\tb\nc\t \n", r"x\.tsv, line 2, is empty"),
        ("x.jsonl", '{"source": "a", "target": "b"}\n{"source": 3}\n', "line 2, must be"),
        ("x.jsonl", "[]\n", "line 1, must be"),
        ("x.jsonl", "not json\n", "line 1, must be .* got not json"),
        ("x.tsv", b"a\tb\n\xe9\tc\n", "line 2, must be text in UTF-8.*iconv"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_line(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        file_pairs(str(write(tmp_path / name, content)), None, whole=True)
    assert "\n" not in str(caught.value)


def test_files_that_do_not_agree_are_both_named_with_their_lengths(tmp_path: Path) -> None:
    sides(tmp_path)
    write(tmp_path / "x.de", "eins\nzwei\n")
    with pytest.raises(UserError, match=r"x\.en has 3 lines and .*x\.de has 2"):
        file_pairs(str(tmp_path / "x"), EN_DE, whole=True)


def test_an_empty_line_is_an_error_only_where_it_is_learned_from(tmp_path: Path) -> None:
    pairs = [("um", "eins"), ("", "zwei")]
    sides(tmp_path, pairs=pairs)
    with pytest.raises(UserError, match=r"x\.en, line 2, is empty"):
        file_pairs(str(tmp_path / "x"), EN_DE, whole=True)
    assert file_pairs(str(tmp_path / "x"), EN_DE, whole=False) == pairs


def test_a_damaged_and_an_absent_file_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a\tb\n" * 100)
    (tmp_path / "x.tsv.gz").write_bytes(whole[: len(whole) // 2])
    for name in ("x.tsv.gz", "y.tsv"):
        with pytest.raises(UserError, match=f"{name} cannot be read"):
            file_pairs(str(tmp_path / name), None, whole=True)
    with pytest.raises(UserError, match="there is no"):
        file_pairs(str(tmp_path / "z"), None, whole=True)
    with pytest.raises(UserError, match="neither is there"):
        file_pairs(str(tmp_path / "z"), EN_DE, whole=True)
    sides(tmp_path)
    sides(tmp_path, more=".gz")
    with pytest.raises(UserError, match="both are there"):
        file_pairs(str(tmp_path / "x"), EN_DE, whole=True)


def test_languages_are_refused_where_no_file_is_named_after_them(tmp_path: Path) -> None:
    file = write(tmp_path / "x.tsv", "a\tb\n")
    with pytest.raises(UserError, match=r"has the source first on each line. Leave it out"):
        file_pairs(str(file), EN_DE, whole=True)


def test_a_folder_needs_one_file_for_each_split_and_language(tmp_path: Path) -> None:
    sides(tmp_path, "train")
    with pytest.raises(UserError, match=r"data.languages must say which files .*: de, en. Try"):
        folder_pairs(tmp_path, None)
    with pytest.raises(UserError, match=r"must hold train\*\.fr .*; .* has train\.de, train\.en"):
        folder_pairs(tmp_path, ("en", "fr"))
    write(tmp_path / "val.en", "a\n")
    with pytest.raises(UserError, match=r"must hold val\*\.de"):
        folder_pairs(tmp_path, EN_DE)
    (tmp_path / "val.en").unlink()
    sides(tmp_path, "train2", ".gz")
    with pytest.raises(UserError, match=r"one file train\*\.en .*train\.en, train2\.en\.gz"):
        folder_pairs(tmp_path, EN_DE)
