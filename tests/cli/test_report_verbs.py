"""`atento report` and `atento compare` as people call them."""

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from atento.cli import main
from atento.tasks import train
from tasks.books import OPTIONS, book, recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("verbs")
    return train(recipe(home), out=home / "run", quiet=True).folder


def test_a_page_and_a_picture_are_written_where_asked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, svg = tmp_path / "p.html", tmp_path / "c.svg"
    argv = ["report", str(folder), "--html", str(page), "--svg", str(svg), "--lang", "pt"]
    assert main(argv) == 0
    assert '<html lang="pt">' in page.read_text("utf-8")
    root = ElementTree.fromstring(svg.read_text("utf-8"))
    assert root.tag.endswith("svg")
    assert "validação" in svg.read_text("utf-8")
    assert capsys.readouterr().out.split() == [str(svg), str(page)]
    assert main(["report", str(folder), "--lang", "en"]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report.html")


def test_a_png_is_drawn_where_matplotlib_is(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert main(["report", str(folder), "--png", str(tmp_path / "c.png")]) == 0
    assert (tmp_path / "c.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_without_matplotlib_one_line_says_how_to_get_it(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["report", str(folder), "--png", str(tmp_path / "c.png")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "pip install 'atento[plot]'" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["report"], "required: RUN"),
        (["report", "nada"], "there is no 'nada'"),
        (["report", "RUN", "--svg", "no/where.svg"], "there is no folder 'no'"),
        (["report", "RUN", "--html", "."], "cannot be written"),
        (["compare"], "RECIPE or RUN must be given"),
        (["compare", "text"], "two or more"),
        (["compare", "text", "nada"], "recipe must be one of"),
        (["compare", "text", "RUN", "--seeds", "many"], "--seeds must be a whole number"),
        (["compare", "text", "text", "--seeds"], "followed by a value"),
        (["compare", "text", "text", "--data.source", "nada.txt"], "Check the path"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    argv: list[str],
    says: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(folder) if word == "RUN" else word for word in argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" or "compare" in argv
    assert err.count("\n") == 1
    assert says in err
    assert not os.listdir(tmp_path)


def test_a_comparison_is_a_table_a_page_and_one_flat_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    book(tmp_path)
    options = [f"--{key}={value}" for key, value in OPTIONS.items() if key != "steps"]
    argv = ["compare", "text", "text", *options, "--steps=4", "--data.source=livro.txt"]
    assert main([*argv, "--out", "c", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["text.val_loss"] == found["text-2.val_loss"], "the same recipe, the same seed"
    assert all(not isinstance(value, dict | list) for value in found.values())
    assert main([*argv, "--out", "c"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[1/2] text, seed 0: trained already"
    assert [line.split()[0] for line in lines[3:9]] == [
        *("text", "text-2", "uniform", "unigram", "bigram", "trigram")
    ]
    assert lines[-1] == f"{Path('c', 'compare.html')} shows it."
    assert main(["report", "c", "--svg", "c.svg", "--lang", "en"]) == 0
    assert "text-2" in Path("c.svg").read_text("utf-8")
