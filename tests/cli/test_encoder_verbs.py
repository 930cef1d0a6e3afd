"""An encoder through the verbs: trained, rehearsed, judged, described, and asked to fill in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atento.cli import main
from atento.tasks import load
from tasks.books import OPTIONS, book

GIVEN = {**OPTIONS, "steps": 40, "model.kind": "encoder", "model.mask": "Full()", "masked": 0.25}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and the run that a real process trained on it."""
    home = tmp_path_factory.mktemp("home")
    book(home)
    words = [w for key, value in GIVEN.items() for w in (f"--{key}", str(value))]
    argv = [sys.executable, "-m", "atento", "train", "text", *words]
    done = subprocess.run(
        [*argv, "--data.source", "livro.txt", "--out", "run"],
        cwd=home,
        env=os.environ | {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "from the left only" in done.stdout
    assert done.stdout.splitlines()[-1].endswith('atento sample run --prompt "A text with bl_nks"')
    return home


def said(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    assert main([str(word) for word in argv]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_sample_fills_in_and_shows_what_else_was_likely(home: Path, capsys) -> None:
    run, text = load(home / "run"), "O r_to e a r_upa"
    lines = said(capsys, "sample", home / "run", "--prompt", text).splitlines()
    assert lines[0] == run.fill(text)
    first, second = run.guesses(text, 3)
    assert f"{first[0].text!r} {first[0].chance:.1%}" in lines[3]
    assert f"{second[2].text!r} {second[2].chance:.1%}" in lines[4]
    assert said(capsys, "sample", home / "run", "--prompt", text, "-q") == run.fill(text) + "\n"
    other = said(
        capsys, "sample", home / "run", "-q", "--blank", "#", "--prompt", text.replace("_", "#")
    )
    assert other == run.fill(text) + "\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--prompt", "O rato"], "must have a blank, '_'"),
        ([], "must have a blank, '_'"),
        (["--prompt", "O r_to", "--temperature", "0.5"], "--temperature is for a decoder"),
        (["--prompt", "O r_to", "--no-slide"], "--no-slide is for a decoder"),
        (["--prompt", "O r_to", "--blank", ""], "blank must be a sign"),
    ],
)
def test_what_an_encoder_cannot_do_is_one_line(argv, says: str, home: Path, capsys) -> None:
    assert main(["sample", str(home / "run"), *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_eval_says_how_much_was_hidden(home: Path, capsys) -> None:
    found = json.loads(said(capsys, "eval", home / "run", "--json"))
    assert found["masked"] == 0.25
    best = min(record["val_loss"] for record in load(home / "run").metrics)
    assert found["val_loss"] == pytest.approx(best, rel=1e-6)
    assert "not comparable with a decoder's" in said(capsys, "eval", home / "run")


def test_describe_and_a_dry_run(home: Path, capsys) -> None:
    assert "encoder: 2 layers" in said(capsys, "describe", home / "run")
    assert json.loads(said(capsys, "describe", home / "run", "--json"))["cache_bytes"] == 0
    words = [w for key, value in GIVEN.items() for w in (f"--{key}", value)]
    source = ("--data.source", home / "livro.txt", "--out", home / "other")
    told = said(capsys, "train", "text", *words, *source, "--dry-run")
    assert "encoder of" in told
    assert not (home / "other").exists()
