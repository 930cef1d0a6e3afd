"""Stopping and going on gives, bit for bit, what never stopping gives."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import atento
from atento.errors import UserError
from atento.tasks import Recipe
from atento.tasks.language import Language
from tasks.books import OPTIONS, book


def train(folder: Path, **given: object) -> None:
    source = str(folder.parent / "livro.txt")
    atento.train("text", out=folder, quiet=True, **({"source": source} | OPTIONS | given))


def go_on(folder: Path, **given: object) -> None:
    atento.train("text", out=folder, quiet=True, resume=True, **given)


def numbers(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def same(a: Path, b: Path, steps: int = OPTIONS["steps"]) -> bool:
    """Whether two runs ended with the same numbers, weights and optimizer."""
    step = f"checkpoint/step-{steps:08}"
    for name in ("model", f"{step}/model", f"{step}/optimizer"):
        left, right = (load_file(folder / f"{name}.safetensors") for folder in (a, b))
        if left.keys() != right.keys() or not all(torch.equal(left[k], right[k]) for k in left):
            return False
    return numbers(a) == numbers(b)


def interrupt(step: int, patch: pytest.MonkeyPatch, number: int = signal.SIGINT) -> None:
    """Ctrl-C, or another signal, in the midst of a step."""
    whole = Language.loss

    def loss(self: Language, now: int) -> torch.Tensor:
        if now == step - 1:
            os.kill(os.getpid(), number)
        return whole(self, now)

    patch.setattr(Language, "loss", loss)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    book(folder)
    train(folder / "run")
    return folder / "run"


@pytest.fixture(autouse=True)
def heed_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [1, 7, 10, 12, 22])
def test_resuming_is_bit_identical_to_never_stopping(
    step: int, number: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book(tmp_path)
    with monkeypatch.context() as patch:
        interrupt(step, patch, number)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run")
    assert (tmp_path / f"run/checkpoint/step-{step:08}").is_dir()
    torch.rand(13)  # what happens in between makes no difference
    go_on(tmp_path / "run")
    assert same(tmp_path / "run", whole)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_the_command_is_killed_and_goes_on(name: str, tmp_path: Path) -> None:
    number, steps, source = getattr(signal, name), 300, str(book(tmp_path))
    options = OPTIONS | {"source": source, "steps": steps}
    atento.train("text", out=tmp_path / "whole", quiet=True, **options)
    words = [sys.executable, "-m", "atento", "train", "text", "-q", "--out", str(tmp_path / "run")]
    words += [word for key, value in options.items() for word in (f"--{key}", str(value))]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    for reached in (30, 150):
        resume = ["--resume"] * (tmp_path / "run/recipe.toml").exists()
        with subprocess.Popen([*words, *resume], env=environment) as process:
            while not any((tmp_path / "run").glob(f"checkpoint/step-*{reached:03}")):
                assert process.poll() is None
                time.sleep(0.001)
            process.send_signal(number)
        assert process.returncode == (130 if name == "SIGTERM" else -number)
    subprocess.run([*words, "--resume"], env=environment, check=True)
    assert same(tmp_path / "run", tmp_path / "whole", steps)


def test_a_process_that_was_killed_goes_on_from_its_last_checkpoint(
    whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    checkpoints = sorted((tmp_path / "run" / "checkpoint").iterdir())
    shutil.rmtree(checkpoints.pop())  # so step 18 of 23 is the last, after the record of step 10
    checkpoints[0].rename(checkpoints[0].with_name("step-00000018"))
    go_on(tmp_path / "run")
    assert same(tmp_path / "run", whole)


def test_without_a_checkpoint_it_starts_at_0(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    go_on(tmp_path / "run")
    assert same(tmp_path / "run", whole)


def test_steps_may_grow(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    go_on(tmp_path / "run", steps=30)
    assert [n["step"] for n in numbers(tmp_path / "run")] == [10, 20, 23, 30]
    assert atento.load(tmp_path / "run").recipe.train.steps == 30


def test_a_finished_run_is_left_as_it_is(whole: Path) -> None:
    before = numbers(whole)
    go_on(whole)
    assert numbers(whole) == before


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rate": 0.5}, r"--train\.rate must stay 0\.01"),
        ({"steps": 5}, r"--train\.steps must stay 23"),
        ({"train.seed": 1}, r"--train\.seed must stay 0"),
        ({"source": "pydoc"}, r"--data\.source must stay"),
    ],
)
def test_a_differing_option_is_refused(given: dict[str, object], says: str, whole: Path) -> None:
    with pytest.raises(UserError, match=says):
        go_on(whole, **given)


def test_the_same_options_are_welcome(whole: Path) -> None:
    source = os.path.relpath(whole.parent / "livro.txt")
    go_on(whole, rate=0.01, source=source)


def test_a_recipe_object_must_be_the_same_too(whole: Path) -> None:
    recipe = Recipe.read(str(whole))
    shutil.copytree(whole, whole.parent / "object")
    environment = whole.parent / "object" / "env.json"
    text = environment.read_text(encoding="utf-8").replace('"recipe": "text"', '"recipe": "run"')
    environment.write_text(text, encoding="utf-8")
    atento.train(recipe, out=environment.parent, resume=True, quiet=True)
    other = recipe.with_options({"width": 32})
    with pytest.raises(UserError, match=r"--model\.width must stay 16"):
        atento.train(other, out=environment.parent, resume=True, quiet=True)


def test_another_recipe_or_text_or_no_run_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="recipe must be 'text'"):
        atento.train("kjv-lecture", out=whole, resume=True)
    with pytest.raises(UserError, match=r"has no recipe\.toml"):
        go_on(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    shutil.copytree(whole, tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.toml"
    other = book(tmp_path, times=50)
    text = recipe.read_text(encoding="utf-8").replace(str(whole.parent), str(tmp_path))
    recipe.write_text(text, encoding="utf-8")
    assert other.is_file()
    with pytest.raises(UserError, match="content has changed"):
        go_on(tmp_path / "run")
