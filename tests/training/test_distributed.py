"""Several processes, started by torchrun, train as one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from atento.training.checkpoint import latest, step_of
from atento.training.distributed import check_share, from_first, mean, processes, share
from atento.training.loop import read_metrics
from tasks.books import OPTIONS, book
from training import several
from training.toy import Toy, train

TESTS = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals are others there"),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]


def torchrun(count: int, *words: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, f"--nproc-per-node={count}", *words]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}


def several_do(count: int, folder: Path, *parts: str) -> None:
    words = torchrun(count, str(TESTS / "training/several.py"), str(folder), *parts)
    subprocess.run(words, env=environment(), check=True, timeout=300)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left, started once, for starting takes most of the time."""
    folder = tmp_path_factory.mktemp("two")
    several_do(2, folder, "alike:12", "stopping", "failing", "command")
    return folder


def as_one(folder: Path, done: Path, steps: int) -> None:
    several.alike(folder, steps)
    ours, theirs = (load_file(home / "gradients.safetensors") for home in (folder, done / "alike"))
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(theirs[name], ours[name], rtol=0, atol=1e-6, msg=name)
    losses = [[r["train_loss"] for r in read_metrics(home)] for home in (folder, done / "alike")]
    assert len(losses[0]) == len(losses[1]) == steps
    assert max(abs(a - b) for a, b in zip(*losses, strict=True)) <= 1e-5
    assert losses[0][-1] < losses[0][0]


def test_two_processes_train_as_one_with_the_same_global_batch(done: Path, tmp_path: Path) -> None:
    as_one(tmp_path / "one", done, 12)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_a_hundred_steps_of_several_processes_are_those_of_one(count: int, tmp_path: Path) -> None:
    several_do(count, tmp_path, "alike:100")
    as_one(tmp_path / "one", tmp_path, 100)


def stopped_alike(done: Path, count: int) -> None:
    """All heard what the last one was told, saved once, and went on to the same bits."""
    assert all((done / f"heard-{n}").exists() for n in range(count))
    for name in ("model", "checkpoint/step-00000017/model", "checkpoint/step-00000017/optimizer"):
        whole, run = (load_file(done / home / f"{name}.safetensors") for home in ("whole", "run"))
        assert whole.keys() == run.keys()
        assert all(torch.equal(whole[k], run[k]) for k in whole), name
    generators = {whole[k].numpy().tobytes() for k in whole if k.startswith("generator.cpu")}
    assert len(generators) == count  # each drew its own dropout
    losses = [[r["train_loss"] for r in read_metrics(done / name)] for name in ("whole", "run")]
    assert losses[0] == losses[1]


def test_two_processes_stop_and_resume_to_the_bit(done: Path) -> None:
    stopped_alike(done, 2)


@pytest.mark.slow
def test_any_number_of_processes_resumes_to_the_bit(tmp_path: Path) -> None:
    """With three the order of a sum matters, as it does not with two."""
    several_do(3, tmp_path, "stopping")
    stopped_alike(tmp_path, 3)


def test_what_one_process_cannot_do_ends_all_with_its_sentence(done: Path) -> None:
    said = [json.loads((done / f"lost-{n}.json").read_bytes()) for n in range(2)]
    assert said == ["the second process has lost its text."] * 2
    assert [step_of(p) for p in (done / "lost/checkpoint").iterdir()] == [3]


def test_a_batch_without_equal_shares_is_refused(done: Path) -> None:
    said = {json.loads((done / f"odd-{n}.json").read_bytes()) for n in range(2)}
    assert said == {
        "train.batch must be divisible by the number of processes, 2, which share it; got 5. Try "
        "--train.batch 4."
    }
    assert list((done / "odd").iterdir()) == []


def test_one_process_goes_on_where_two_began_and_says_so(done: Path) -> None:
    said: list[str] = []
    given = several.MIXED | {"batch": 6, "steps": 19}
    train(done / "whole", given, Toy(batch=6), hook=said.append)
    assert [line for line in said if "2 processes trained up to step 17, and 1 go on" in line]
    assert [r["step"] for r in read_metrics(done / "whole")] == [5, 10, 15, 17, 19]


def test_alone_nothing_is_shared() -> None:
    assert processes() == 1
    assert share([2, 3, 5]) == [2, 3, 5]
    x = torch.rand(3)
    assert mean(x) is x
    assert from_first(lambda: x) is x
    check_share(7)


def command(folder: Path, **given: object) -> list[str]:
    options = {"source": book(folder.parent), "batch": 6, "dropout": 0.2} | given
    words = ["-m", "atento", "train", "text", "--out", str(folder)]
    every = OPTIONS | options
    return torchrun(2, *words, *(w for k, v in every.items() for w in (f"--{k}", str(v))))


def trained(run: Path, said: str) -> None:
    assert json.loads((run / "env.json").read_bytes())["processes"] == 2
    assert [r["step"] for r in read_metrics(run)] == [10, 20, 23]
    assert len(re.findall(r"best val_loss \d", said)) == 1
    assert len(re.findall(r"^step 10/23", said, re.MULTILINE)) == 1
    assert not (run / ".lock").exists()


def test_the_command_trains_and_only_the_first_process_speaks(done: Path) -> None:
    trained(done / "book/run", (done / "said-0").read_text())
    assert (done / "said-1").read_text() == ""


@pytest.mark.slow
def test_torchrun_trains_by_the_command(tmp_path: Path) -> None:
    ran = subprocess.run(
        command(tmp_path / "run"), env=environment(), capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    trained(tmp_path / "run", ran.stdout)


@pytest.mark.slow
def test_the_commands_mistakes_are_one_line(tmp_path: Path) -> None:
    for given, says in (
        ({"batch": 5}, "train.batch must be divisible by the number of processes, 2"),
        ({"source": tmp_path / "nada.txt"}, "nada.txt"),
        ({"source": "-"}, "data.source - can be read by one process only; got 2"),
    ):
        words = command(tmp_path / "run", **given)
        ran = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=300)
        lines = [line for line in ran.stderr.splitlines() if line.startswith("atento: ")]
        assert len(lines) == 1, ran.stderr
        assert says in lines[0]
        assert re.search(r"exitcode *: 2 ", ran.stderr)
        assert not (tmp_path / "run").exists()


def reached(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    while (last := latest(folder)) is None or step_of(last) < step:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_signal_to_one_process_ends_the_other(name: str, tmp_path: Path) -> None:
    """Killed, the work since the last checkpoint is lost; told to end, it is saved once."""
    number, given = (
        getattr(signal, name),
        {"steps": 1000, "evaluate_every": 500, "checkpoint_every": 50},
    )
    words = command(tmp_path / "run", **given)
    with subprocess.Popen(
        words, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            reached(tmp_path / "run", 50, process)
            listed = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
            )
            os.kill(int(listed.stdout.split()[-1]), number)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode != 0
    assert not (tmp_path / "run/.lock").exists() or name == "SIGKILL"
    last = latest(tmp_path / "run")
    assert last is not None
    assert step_of(last) < 1000
    if name == "SIGTERM":
        assert len(re.findall(rf"saved in .* at step {step_of(last)}\.", out)) == 1
    else:
        assert step_of(last) % 50 == 0
    again = command(tmp_path / "run", **given | {"steps": 1050})
    subprocess.run([*again, "--resume"], env=environment(), check=True, timeout=300)
    assert [r["step"] for r in read_metrics(tmp_path / "run")][-1] == 1050
