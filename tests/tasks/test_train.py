"""From a recipe to a run; and what a user can mend is said before anything is written."""

import json
import math
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atento
from atento.errors import UserError
from atento.models.choose import Sampling
from atento.tasks import Recipe, Run, load, start, train
from atento.training.words import training_words
from tasks.books import OPTIONS, book, recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    return train(recipe(folder), out=folder / "run", quiet=True)


def test_a_run_is_a_folder_that_says_everything(run: Run) -> None:
    assert sorted(os.listdir(run.folder)) == [
        "checkpoint",
        "config.json",
        "env.json",
        "metrics.jsonl",
        "model.safetensors",
        "recipe.toml",
        "report.html",
        "tokenizer.json",
    ]
    environment = json.loads((run.folder / "env.json").read_text(encoding="utf-8"))
    assert environment["torch"] == torch.__version__
    assert environment["parameters"] == sum(p.numel() for p in run.model.parameters())
    assert run.recipe == Recipe.read(str(run.folder))
    assert Path(run.recipe.data.source).is_absolute()


def test_it_learns(run: Run) -> None:
    losses = [record["val_loss"] for record in run.metrics]
    assert [record["step"] for record in run.metrics] == [10, 20, 23]
    assert losses[-1] < losses[0] < math.log(len(run.tokenizer)) + 0.1


def test_evaluation_finds_the_best_loss_again(run: Run) -> None:
    best = min(record["val_loss"] for record in run.metrics)
    assert run.evaluate()["val_loss"] == pytest.approx(best, rel=1e-6)


def test_samples_repeat_with_a_seed_and_begin_with_the_prompt(run: Run) -> None:
    first, again, other = (run.sample("Era uma", 40, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.startswith("Era uma")
    assert len(first) == 47
    how = Sampling(temperature=0.8, seed=1)
    assert "".join(run.stream("Era uma", 40, how)) == first[7:]
    assert run.samples(2, "Era uma", 40, how) == [first, other]
    assert len(run.sample(tokens=5)) == 5
    with pytest.raises(UserError, match="'€'"):
        run.sample("€")


def test_the_same_seed_trains_the_same_and_another_does_not(run: Run, tmp_path: Path) -> None:
    again = train(run.recipe, out=tmp_path / "again", quiet=True)
    other = train(run.recipe, out=tmp_path / "other", quiet=True, seed=1)
    losses = [[record["val_loss"] for record in r.metrics] for r in (run, again, other)]
    assert losses[0] == losses[1] != losses[2]


def test_no_generator_of_the_caller_is_touched(run: Run, tmp_path: Path) -> None:
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    train(run.recipe, out=tmp_path / "x", quiet=True, steps=2)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]


def test_a_bare_model_folder_is_loaded_too(run: Run, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((run.folder / name).read_bytes())
    bare = load(tmp_path)
    assert bare.recipe is None
    assert bare.sample("Era", 9, seed=0) == run.sample("Era", 9, seed=0)
    with pytest.raises(UserError, match=r"no recipe\.toml"):
        bare.evaluate()
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"must hold tokenizer\.json"):
        load(tmp_path)


def test_encode_is_what_the_model_takes(run: Run) -> None:
    tokens = run.encode("Era")
    assert tokens.shape == (1, 3)
    assert run.model(tokens).shape == (1, 3, len(run.tokenizer))


def test_folders_are_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    book(tmp_path)
    options = OPTIONS | {"source": "livro.txt", "steps": 2}
    folders = [atento.train("text", quiet=quiet, **options).folder for quiet in (True, False)]
    assert [str(folder) for folder in folders] == [
        os.path.join("runs", f"text-{n}") for n in (1, 2)
    ]
    atento.train("text", resume=True, quiet=True, steps=3)
    assert load("runs/text-2").metrics[-1]["step"] == 3
    said = capsys.readouterr().out
    for word in ("cpu", "parameters", "vocabulary", "training", "uniform", "val_loss"):
        assert word in said or torch.cuda.is_available()


def test_what_it_is_and_how_it_is_trained_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = recipe(tmp_path).with_options({"attention": "none", "steps": 2})
    done = train(made, out=tmp_path / "run")
    mine = sum(p.numel() for p in done.model.parameters())
    dot = train(made, out=tmp_path / "dot", quiet=True, attention="dot").model
    whole = sum(p.numel() for p in dot.parameters())
    said = capsys.readouterr().out
    assert f"{mine:,} parameters ({whole:,} with attention)" in said
    assert training_words(made.train) in said
    assert "weights begin with deviation 0.02" in said


BAD = [
    ({"source": "nada.txt"}, "there is no 'nada.txt'"),
    ({"source": "empty.txt"}, "holds no text"),
    ({"source": "binary.bin"}, "UTF-8"),
    ({"source": "one.txt"}, "must have at least"),
    ({"source": "short.txt"}, "must have at least"),
    ({"source": "livro.txt", "stepz": 3}, "Did you mean 'steps'"),
    ({"source": "livro.txt", "steps": -3}, "at least 1"),
    ({"source": "livro.txt", "heads": 7}, "multiple of"),
    ({"source": "livro.txt", "mask": "Full()"}, "hide the future"),
    ({"source": "livro.txt", "mask": "exit()"}, "is no mask"),
    ({"source": "livro.txt", "out": "livro.txt"}, "new or empty folder"),
    ({"source": "livro.txt", "out": "full"}, "new or empty folder"),
    ({"source": "livro.txt", "out": "taken"}, "holds a run. Add --resume"),
    ({"source": "livro.txt", "out": "livro.txt/run"}, "can be written"),
    *[({"source": "livro.txt", "out": "/proc/run"}, "can be written")] * os.path.isdir("/proc"),
]


@pytest.mark.parametrize(("given", "says"), BAD, ids=range(len(BAD)))
def test_what_a_user_can_mend_is_said_and_nothing_is_written(
    given: dict[str, object], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    book(tmp_path)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "one.txt").write_text("a", encoding="utf-8")
    (tmp_path / "short.txt").write_text("abcdefg", encoding="utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "recipe.toml").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=says) as caught:
        train("text", quiet=True, **(OPTIONS | given))
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(UserError, match="can be written"):
        train(made, out=tmp_path / "locked" / "run")


def test_what_a_killed_beginning_left_is_begun_anew(tmp_path: Path) -> None:
    made, killed, own = recipe(tmp_path), tmp_path / "killed", tmp_path / "own"
    for folder in (killed, own):
        folder.mkdir()
        for name in ("env.json", "tokenizer.json", ".tokenizer.json.7"):
            (folder / name).write_text("{", encoding="utf-8")
    (killed / ".lock").touch()  # which only a process that was killed leaves
    begun = train(made, out=killed, quiet=True, steps=1)
    assert load(killed).evaluate()["val_loss"] == pytest.approx(begun.metrics[-1]["val_loss"])
    with pytest.raises(UserError, match="new or empty"):
        train(made, out=own, quiet=True)
    assert (own / "tokenizer.json").read_text(encoding="utf-8") == "{"


def test_a_run_that_was_made_while_another_read_its_text_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, out, read = recipe(tmp_path), tmp_path / "run", start.subject

    def overtaken(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(start, "subject", read)
        train(made, out=out, quiet=True, steps=1)
        return read(*args, **options)

    monkeypatch.setattr(start, "subject", overtaken)
    with pytest.raises(UserError, match="holds a run"):
        train(made, out=out, quiet=True, steps=2)
    assert load(out).metrics[-1]["step"] == 1


def test_one_letter_for_ever_is_a_text_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 200, encoding="utf-8")
    options = OPTIONS | {"source": str(tmp_path / "a.txt"), "steps": 20}
    run = train("text", out=tmp_path / "run", quiet=True, **options)
    assert run.sample("a", 7, temperature=0) == "a" * 8


def test_loading_nothing_is_one_sentence(tmp_path: Path, run: Run) -> None:
    with pytest.raises(UserError, match="run must be a folder"):
        load(tmp_path / "nada")
    with pytest.raises(UserError, match=r"there is no config\.json"):
        load(tmp_path)
    (tmp_path / "recipe.toml").touch()
    with pytest.raises(UserError, match=r"holds no model yet.*--resume"):
        load(tmp_path)


def test_how_steps_are_taken_is_said_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(recipe(tmp_path), out=tmp_path / "run", steps=2)
    assert "eager steps" in capsys.readouterr().out
    environment = json.loads((tmp_path / "run/env.json").read_bytes())
    assert (environment["execution"], environment["processes"]) == ("eager", 1)
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match=r"train\.execution must be 'auto' or 'eager' here"):
            train(recipe(tmp_path), out=tmp_path / "graph", execution="graph", quiet=True)
        assert not (tmp_path / "graph").exists()
