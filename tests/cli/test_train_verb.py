"""`atento train` and `atento sample` as people call them: processes, folders, one line of error."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atento.cli import main
from tasks.books import OPTIONS, book

ROOT = Path(__file__).resolve().parents[2]
# Ctrl-C reaches only processes that heed it, which a test runner in the background does not.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
START = [sys.executable, "-c", HEED + "import sys; from atento.cli import main; sys.exit(main())"]
# One thread: two of them wait for each other for long where other tests run at the same time.
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(ROOT / "src"),
    "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1",
}


def words(**given: object) -> list[str]:
    return [word for key, value in given.items() for word in (f"--{key}", str(value))]


def atento(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "atento", *argv],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def test_a_file_becomes_a_run_that_speaks(tmp_path: Path) -> None:
    book(tmp_path)
    given = words(**OPTIONS, **{"data.source": "livro.txt"})
    trained = atento("train", "text", *given, cwd=tmp_path)
    assert (trained.returncode, trained.stderr) == (0, "")
    lines = trained.stdout.splitlines()
    assert re.search(
        r"parameters · vocabulary \d+ · [\d,]+ training and [\d,]+ validation", lines[0]
    )
    assert "distinct, in" in lines[1]
    assert "bigram" in trained.stdout
    steps = [line.split()[1] for line in lines if line.startswith("step ")]
    assert steps == ["10/23", "20/23", "23/23"]
    run = os.path.join("runs", "text-1")
    assert lines[-1].startswith(f"{run}: best val_loss")

    wishes = words(prompt="Era uma", tokens=30, seed=4)
    said = [atento("sample", run, *wishes, cwd=tmp_path) for _ in range(2)]
    assert said[0].stdout == said[1].stdout
    assert said[0].stdout.startswith("Era uma")
    assert len(said[0].stdout) == 7 + 30 + 1

    refused = atento("train", "text", *given, "--out", run, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--resume" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path: Path) -> None:
    book(tmp_path)
    given = words(**(OPTIONS | {"steps": 1_000_000}), source="livro.txt", out="run")
    child = subprocess.Popen(
        [*START, "train", "text", *given],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "")
    hint = out.splitlines()[-1].split("To go on: atento ")[1]
    assert hint == "train text --out run --resume"
    assert (tmp_path / "run" / "report.html").is_file()
    (step,) = [p.name for p in (tmp_path / "run" / "checkpoint").iterdir()][-1:]
    assert (tmp_path / "run" / "checkpoint" / step / "state.json").is_file()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    book(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("train", "recipe must be given"),
        ("train txt", "Did you mean 'text'"),
        ("train livro.txt", "atento train text --data.source livro.txt"),
        ("train nada.toml", "a .toml file that exists"),
        ("train text", "Add --data.source FILE"),
        ("train text --data.source nada.txt", "Check the path"),
        ("train text --data.sorce livro.txt", "Did you mean 'data.source'"),
        ("train text --source livro.txt --steps many", "a whole number"),
        ("train text --source livro.txt --steps", "followed by a value"),
        ("train text --source livro.txt --steps --resume", "followed by a value"),
        ("train text --steps 3 --steps 4", "given twice"),
        ("train text --steps 3 --train.steps 4", "given twice"),
        ("train text other", "takes one name"),
        ("train text -x", "option '-x' is not known"),
        ("train text --resume", "there is none in runs/text-N"),
        ("sample", "the following arguments are required: RUN"),
        ("sample nada", "there is no 'nada'"),
        ("sample . --tokens many", "invalid int value"),
        ("recipes --all", "unrecognized arguments: --all"),
        ("demo --lang fr", "invalid choice"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    argv: str, says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("atento: ")
    assert says in err
    assert os.listdir(here) == ["livro.txt"]


def test_quiet_says_nothing_and_equals_signs_will_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--{key}={value}" for key, value in OPTIONS.items()]
    assert main(["train", "text", "-q", "--data.source=livro.txt", *given, "--out", "run"]) == 0
    assert capsys.readouterr() == ("", "")
    recipe = (here / "run" / "recipe.toml").read_text(encoding="utf-8")
    assert 'mask = "Causal()"' in recipe
    assert json.loads((here / "run" / "env.json").read_text(encoding="utf-8"))["recipe"] == "text"


@pytest.mark.parametrize("verb", ["train", "sample", "demo", "recipes", "train text"])
def test_help_needs_no_torch(verb: str, tmp_path: Path) -> None:
    code = (
        "import sys; from atento.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as left: assert not left.code\n"
        "assert 'torch' not in sys.modules"
    )
    argv = [sys.executable, "-c", code, *verb.split(), "--help"]
    done = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: atento ")


def test_the_help_of_a_recipe_shows_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "shakespeare-lecture", "--help"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"--train\.steps +updates of the weights \(1200\)", out)
    assert re.search(r"--model\.mask .*'Causal\(\)'", out)


def test_recipes_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = {line.split()[0] for line in lines}
    assert names >= {"kjv-lecture", "shakespeare-lecture", "shakespeare-no-attention", "text"}
    assert names >= {"shakespeare", "shakespeare-laptop"}
    assert all(len(line.split()) > 4 for line in lines)
