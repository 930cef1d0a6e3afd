"""The loop on a task that is not language: it keeps the best, and stops where it diverges."""

import io
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from atento.errors import UserError
from atento.models.storage import write_tensors
from atento.training.checkpoint import latest, step_of
from atento.training.config import Train
from atento.training.interrupt import interruptible
from atento.training.loop import fit, read_metrics
from atento.training.progress import Bar, Plain, Quiet, progress


class Line:
    """Learns y = 2x; what it is judged by is given beforehand."""

    def __init__(self, judged: list[float] | None = None, bad_at: int | None = None) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(1, 3), nn.Dropout(0.5), nn.Linear(3, 1))
        self.judged = iter(judged or [])
        self.bad_at = bad_at

    def loss(self, step: int) -> Tensor:
        x = torch.full((5, 1), float(step % 3))
        loss = (self.model(x) - 2 * x).square().mean()
        return loss * float("nan") if step == self.bad_at else loss

    def evaluate(self) -> dict[str, float]:
        return {"val_loss": next(self.judged, 1.0)}

    def say(self) -> str:
        return f"{float(self.model[0].weight.detach().sum()):.12f}"

    def save(self, folder: Path) -> None:
        write_tensors(folder / "model.safetensors", self.model.state_dict())


def trained(task: Line, folder: Path, **given: int) -> None:
    config = Train(**({"evaluate_every": 2, "checkpoint_every": 3} | given))
    fit(task, config, folder, "a hash", Quiet())


def test_the_best_by_validation_is_kept(tmp_path: Path) -> None:
    weights = []

    class Watched(Line):
        def evaluate(self) -> dict[str, float]:
            weights.append(self.model[0].weight.detach().clone())
            return super().evaluate()

    trained(Watched([3.0, 1.0, 2.0]), tmp_path, steps=6)
    kept = load_file(tmp_path / "model.safetensors")["0.weight"]
    assert torch.equal(kept, weights[1])
    records = read_metrics(tmp_path)
    assert [(r["step"], r["val_loss"]) for r in records] == [(2, 3.0), (4, 1.0), (6, 2.0)]
    names = {"step", "train_loss", "val_loss", "seconds", "sample"}
    assert all(set(r) == names for r in records)


def test_train_loss_is_the_mean_since_the_last_record(tmp_path: Path) -> None:
    losses = []

    class Watched(Line):
        def loss(self, step: int) -> Tensor:
            loss = super().loss(step)
            losses.append(loss.item())
            return loss

    trained(Watched(), tmp_path, steps=5)
    got = [record["train_loss"] for record in read_metrics(tmp_path)]
    parts = [losses[0:2], losses[2:4], losses[4:5]]
    assert got == pytest.approx([sum(part) / len(part) for part in parts], rel=1e-12)


def test_the_last_two_checkpoints_are_kept_without_leftovers(tmp_path: Path) -> None:
    trained(Line(), tmp_path, steps=10)
    assert sorted(os.listdir(tmp_path / "checkpoint")) == ["step-00000009", "step-00000010"]
    files = sorted(os.listdir(tmp_path / "checkpoint" / "step-00000010"))
    assert files == ["model.safetensors", "optimizer.safetensors", "state.json"]


@pytest.mark.parametrize("bad_at", [1, 4, 13])
def test_a_loss_that_is_no_number_stops_and_says_why(bad_at: int, tmp_path: Path) -> None:
    given = {"steps": 40, "evaluate_every": 20, "checkpoint_every": 12}
    with pytest.raises(UserError, match=r"train_loss is no longer a number.*--train\.rate"):
        trained(Line(bad_at=bad_at), tmp_path, **given)
    checkpoint = latest(tmp_path)
    assert (checkpoint and step_of(checkpoint)) == (12 if bad_at == 13 else None)


def test_a_changed_source_is_refused(tmp_path: Path) -> None:
    trained(Line(), tmp_path, steps=3)
    with pytest.raises(UserError, match="content has changed"):
        fit(Line(), Train(steps=5), tmp_path, "another hash", Quiet())


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    trained(Line(), tmp_path, steps=3)
    other = Line()
    other.model = nn.Linear(7, 1)
    with pytest.raises(UserError, match="does not fit this run's model"):
        trained(other, tmp_path, steps=5)


def test_lines_cut_off_or_later_than_the_checkpoint_are_forgotten(tmp_path: Path) -> None:
    trained(Line(), tmp_path, steps=4)
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 9, "train_loss": 1, "val_loss": 1, "seconds": 1}\n{"step": 11, "tra')
    trained(Line(), tmp_path, steps=6)
    assert [r["step"] for r in read_metrics(tmp_path)] == [2, 4, 6]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_the_first_ctrl_c_waits_and_the_second_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interruptible() as interrupt:
            assert not interrupt.asked
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupt.asked
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_trains_in_a_thread_too(tmp_path: Path) -> None:
    thread = threading.Thread(target=trained, args=(Line(), tmp_path), kwargs={"steps": 2})
    thread.start()
    thread.join()
    assert len(read_metrics(tmp_path)) == 1


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(progress(quiet=True), Quiet)
    assert isinstance(progress(quiet=False), Plain)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(progress(quiet=False), Bar)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    fit(Line(), Train(steps=4, evaluate_every=2), tmp_path, "", Bar())
    assert "4/4" in sys.stderr.getvalue()
    assert capsys.readouterr().out.count("val_loss") == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"steps": 0}, r"train\.steps must be at least 1"),
        ({"rate": 0.0}, "above 0"),
        ({"rate": float("inf")}, "above 0"),
        ({"clip": -1.0}, r"train\.clip must be at least 0"),
        ({"decay": float("nan")}, r"train\.decay"),
        ({"floor": 2.0}, "at most 1"),
        ({"beta2": 1.0}, "below 1"),
        ({"seed": -1}, r"train\.seed"),
        ({"seed": 2**64}, r"train\.seed"),
    ],
)
def test_impossible_values_are_refused(given: dict[str, float], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Train(**given)


def test_what_the_task_says_is_kept_with_the_record_and_cut_back_with_it(tmp_path: Path) -> None:
    trained(Line(), tmp_path, steps=6)
    whole = [record["sample"] for record in read_metrics(tmp_path)]
    assert len(set(whole)) == 3, "what it says changes as it learns"
    (tmp_path / "checkpoint" / "step-00000006").rename(tmp_path / "aside")
    trained(Line(), tmp_path, steps=6)
    assert [record["sample"] for record in read_metrics(tmp_path)] == whole

    class Silent(Line):
        def say(self) -> str:
            return ""

    (tmp_path / "silent").mkdir()
    trained(Silent(), tmp_path / "silent", steps=2)
    assert "sample" not in read_metrics(tmp_path / "silent")[0]
