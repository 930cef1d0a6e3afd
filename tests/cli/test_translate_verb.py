"""`atento translate` as users run it: in a pipe, on a file, with what it looked at."""

import io
import sys
from pathlib import Path

import pytest

import atento
from atento.cli import main
from tasks.test_translation import train

LINES = ["um gato", "", "sol 漢字", "x", "mar mar mar bola", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("verb")
    train(home / "run", **{"model.attention": "additive"})
    return home / "run"


def piped(text: bytes, patch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8")
    patch.setattr(sys, "stdin", stream)


def test_one_line_out_for_each_line_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped("\n".join(LINES).encode() + b"\n", monkeypatch)
    assert main(["translate", str(folder), "--beam", "2"]) == 0
    out, err = capsys.readouterr()
    expected = [made[0].text for made in atento.load(folder).translate(LINES, beam=2)]
    assert out.split("\n") == [*expected, ""]
    assert [text == "" for text in expected] == [line == "" for line in LINES]
    assert "1 of 6 lines have characters that training never saw" in err


def test_a_file_gives_what_a_pipe_gives(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "\r\n".join(LINES).encode()
    (tmp_path / "linhas.txt").write_bytes(text)
    assert main(["translate", str(folder), "--file", str(tmp_path / "linhas.txt"), "-q"]) == 0
    from_file = capsys.readouterr()
    assert from_file.err == ""
    piped(text, monkeypatch)
    assert main(["translate", str(folder), "-q"]) == 0
    assert capsys.readouterr().out == from_file.out


def test_n_best_are_numbered_scored_and_falling(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(b"um gato\nx\n", monkeypatch)
    assert main(["translate", str(folder), "--beam", "3", "--nbest", "3"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    for part in (rows[:3], rows[3:]):
        found = [float(row[1]) for row in part]
        assert found == sorted(found, reverse=True)


def test_an_alignment_has_a_row_for_each_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(b"um gato\n", monkeypatch)
    assert main(["translate", str(folder), "--alignment", "-q"]) == 0
    text, *rows = capsys.readouterr().out.splitlines()
    made = atento.load(folder).translate("um gato")[0][0]
    assert text == made.text
    assert len(rows) == len(made.pieces) + 1 + 1  # the end, and the source below
    assert [row.split()[0] for row in rows[-2:]] == ["∎", "u"]
    assert rows[-1].split() == ["u", "m", "␣", "g", "a", "t", "o", "∎"]
    assert all(len(row.split()) == 1 + 8 for row in rows[:-1])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--nbest", "6"], "nbest must be at least 1 and at most the beam; got 6 of 5"),
        (["--file", "nada.txt"], "nada.txt cannot be read"),
        (["--beam", "0"], "beam must be at least 1"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    piped(b"um\n", monkeypatch)
    assert main(["translate", str(folder), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_bytes_that_are_no_text_are_named_by_their_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(b"um\n\xe7\xe3o\n", monkeypatch)
    assert main(["translate", str(folder)]) == 2
    assert "standard input, line 2, must be text in UTF-8" in capsys.readouterr().err


def test_verbs_of_one_text_name_the_right_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", str(folder)]) == 2
    assert f"atento translate {folder}" in capsys.readouterr().err
