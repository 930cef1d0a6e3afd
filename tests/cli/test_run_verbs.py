"""`atento sample`, `eval`, `describe` and `train --dry-run`, as people call them."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atento.cli import main
from atento.models.choose import Sampling
from atento.tasks import Run, load, train
from tasks.books import OPTIONS, book, recipe

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    return train(recipe(folder), out=folder / "run", quiet=True)


def said(capsys: Capture, *argv: object) -> str:
    assert main([str(word) for word in argv]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_sample_says_what_python_says(run: Run, capsys: Capture) -> None:
    options = {"temperature": 0.9, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "repetition": 1.2}
    argv = [w for key, v in options.items() for w in (f"--{key.replace('_', '-')}", v)]
    argv = ["sample", run.folder, "--prompt", "Era", "--tokens", 30, "--seed", 5, *argv]
    assert said(capsys, *argv) == run.sample("Era", 30, seed=5, **options) + "\n"
    assert said(capsys, *argv, "-q") == run.sample("Era", 30, seed=5, **options)[3:] + "\n"


def test_several_samples_are_those_of_the_seeds_that_follow(run: Run, capsys: Capture) -> None:
    argv = ("sample", run.folder, "--prompt", "Era", "--tokens", 20, "--seed", 5, "--samples", 3)
    texts = run.samples(3, "Era", 20, Sampling(temperature=0.8, seed=5))
    assert texts == [run.sample("Era", 20, seed=seed) for seed in (5, 6, 7)]
    out = said(capsys, *argv)
    headings = re.findall(r"^--- (\d) of 3", out, re.M)
    assert headings == ["1", "2", "3"]
    assert re.sub(r"--- \d of 3.*\n", "", out) == "".join(f"{text}\n" for text in texts)
    assert said(capsys, *argv, "-q") == "".join(f"{text[3:]}\n" for text in texts)


def test_stop_strings_are_left_out_and_end_it(run: Run, capsys: Capture) -> None:
    whole = run.sample("Era", 60, seed=5)
    stop = whole[20:23]
    expected = whole[: whole.index(stop, 3)]
    argv = ("sample", run.folder, "--prompt", "Era", "--tokens", 60, "--seed", 5)
    assert said(capsys, *argv, "--stop", "never said €", "--stop", stop) == expected + "\n"
    assert run.sample("Era", 60, seed=5, stop=stop) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are others there")
def test_what_is_said_is_shown_as_it_is_made(run: Run) -> None:
    argv = [sys.executable, "-m", "atento", "sample", str(run.folder), "--tokens", "1000000000"]
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONUTF8": "1"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as child:
        assert len(child.stdout.read(50)) == 50  # of a billion
        child.terminate()


def test_eval_is_one_flat_object_and_what_python_says(run: Run, capsys: Capture) -> None:
    found = json.loads(said(capsys, "eval", run.folder, "--json"))
    assert found.pop("run") == str(run.folder)
    assert found == run.evaluate()
    assert found["val_loss"] == pytest.approx(min(m["val_loss"] for m in run.metrics), rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(found["val_loss"]))
    assert found["context"] == OPTIONS["context"]
    out = said(capsys, "eval", run.folder)
    assert re.search(rf"^val_loss +{found['val_loss']:.4f}  nats", out, re.M)
    assert re.search(r"^context +8  tokens seen at once", out, re.M)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("bare", r"no recipe.toml"),
        ("no model", r"holds no model yet"),
        ("empty", r"there is no config.json"),
        ("changed", "content has changed"),
        ("missing", "there is no"),
        ("tokenizer", "do not belong together"),
    ],
)
def test_eval_says_in_one_line_what_is_wrong(
    change: str, says: str, run: Run, tmp_path: Path, capsys: Capture
) -> None:
    home = tmp_path / "run"
    shutil.copytree(run.folder, home)
    text = (home / "recipe.toml").read_text(encoding="utf-8")
    match change:
        case "bare":
            (home / "recipe.toml").unlink()
        case "no model":
            (home / "model.safetensors").unlink()
        case "empty":
            shutil.rmtree(home)
            home.mkdir()
        case "changed":
            book(tmp_path, times=41)
        case "tokenizer":
            tokenizer = home / "tokenizer.json"
            content = json.loads(tokenizer.read_text(encoding="utf-8"))
            content["model"]["vocab"].popitem()
            tokenizer.write_text(json.dumps(content), encoding="utf-8")
    if change in ("changed", "missing"):
        old = Path(run.recipe.data.source)
        text = text.replace(str(old.parent), str(tmp_path))
        (home / "recipe.toml").write_text(text, encoding="utf-8")
    for argv in (["eval", str(home)], ["eval", str(home), "--json"]):
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert says in err


def test_describe_a_run(run: Run, capsys: Capture) -> None:
    found = json.loads(said(capsys, "describe", run.folder, "--json"))
    total = sum(p.numel() for p in run.model.parameters())
    assert found["parameters"] == total
    assert sum(v for k, v in found.items() if k.startswith("parameters.")) == total
    assert found["model.vocabulary"] == len(run.tokenizer)
    assert all(isinstance(value, str | int | float | bool) for value in found.values())
    out = said(capsys, "describe", run.folder)
    assert f"{total:,}" in out
    assert "    # # . . . . . .\n" in out
    assert "itself and all tokens before it" in out


def test_describe_a_recipe_with_options(capsys: Capture) -> None:
    out = said(capsys, "describe", "text", "--model.mask", "Causal() & Window(1)")
    assert "assuming a vocabulary of 100" in out
    assert "\n    . # # . ." in out
    found = json.loads(said(capsys, "describe", "text", "--json", "--context=4"))
    assert found["keys_per_query"] == 2.5


def test_a_dry_run_says_what_it_would_take(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    book(tmp_path)
    given = [w for key, value in OPTIONS.items() for w in (f"--{key}", str(value))]
    argv = ["train", "text", "--source", "livro.txt", *given, "--dry-run"]
    out = said(capsys, *argv)
    assert os.listdir(tmp_path) == ["livro.txt"]
    for word in ("parameters", "memory", r"step +\d+\.\d ms", "for 23 steps", "would end at 20"):
        assert re.search(word, out)
    assert said(capsys, *argv, "-q") == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("sample RUN --top-p 0", "top_p must be above 0"),
        ("sample RUN --min-p 2", "min_p must be at least 0"),
        ("sample RUN --top-k 0", "top_k must be at least 1"),
        ("sample RUN --temperature -1", "temperature must be 0"),
        ("sample RUN --repetition 0.5", "repetition must be 1"),
        ("sample RUN --samples 0", "samples must be at least 1"),
        ("sample RUN --tokens -1", "tokens must be 0 or more"),
        ("sample RUN --seed -1", "seed must be at least 0"),
        ("sample RUN --prompt €", "'€'"),
        ("sample RUN --stop=", "stop must be text"),
        ("sample RUN --tokens 99 --no-slide", "must fit the 8 tokens"),
        ("eval", "the following arguments are required: RUN"),
        ("eval nada", "there is no 'nada'"),
        ("eval . --xml", "unrecognized arguments: --xml"),
        ("describe", "RUN or RECIPE must be given"),
        ("describe nada", "must be one of"),
        ("describe text kjv-lecture", "takes one name"),
        ("describe text --width 130", "multiple of"),
        ("describe text --tokenizer tokens", "must be one of"),
        ("train text --source livro.txt --tokenizer tokens --dry-run", "must be one of"),
        ("describe text --model.widht 8", "Did you mean"),
        ("describe text --source nada.txt", "there is no 'nada.txt'"),
        ("describe RUN --width 8", "a run has its options already"),
        ("train --dry-run", "recipe must be given"),
        ("train text --dry-run", "Add --data.source FILE"),
        ("train text --dry-run --resume", "Leave one of them out"),
        ("train text --dry-run -x", "option '-x' is not known"),
    ],
)
def test_mistakes_are_one_line(
    argv: str,
    says: str,
    run: Run,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(run.folder) if word == "RUN" else word for word in argv.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("atento: ")
    assert says in err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("verb", ["sample", "eval", "describe", "train --dry-run"])
def test_help_needs_no_torch(verb: str) -> None:
    code = (
        "import sys; from atento.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as left: assert not left.code\n"
        "assert 'torch' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, *verb.split(), "--help"],
        env=os.environ | {"PYTHONPATH": str(root / "src"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: atento {verb.split()[0]} ")


def test_a_run_says_what_it_is(run: Run) -> None:
    best = min(m["val_loss"] for m in run.metrics)
    total = sum(p.numel() for p in run.model.parameters())
    kind = f"decoder of {total:,} parameters, 23 steps, val_loss {best:.4f}"
    assert repr(load(run.folder)) == f"Run({str(run.folder)!r}, {kind})"
