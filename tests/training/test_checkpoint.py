"""Checkpoints that are damaged, and disks that are full."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from atento.errors import UserError
from atento.models.storage import write
from atento.training.checkpoint import Damaged, latest, step_of
from atento.training.loop import read_metrics
from training.toy import Toy, train


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    train(folder)
    return folder


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def edited(file: Path) -> None:
    """Tampered with care: valid JSON, or the tensors of another checkpoint."""
    other = next(p for p in file.parent.parent.iterdir() if p != file.parent) / file.name
    if file.suffix == ".json":
        file.write_bytes(file.read_bytes().replace(b'"losses": ', b'"losses": 1'))
    else:
        shutil.copy(other, file)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", [cut, flip, edited, os.unlink])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_asked_for(
    damage, name: str, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    assert step_of(latest(folder) or folder) == 17
    damage(folder / "checkpoint/step-00000017" / name)
    before = snapshot(folder)
    with pytest.raises(Damaged, match=rf"step-00000017.{name}.*step-00000015.*--resume-previous"):
        train(folder)
    assert snapshot(folder) == before
    said: list[str] = []
    train(folder, resume_previous=True, hook=said.append)
    assert len(said) == 1
    assert f"step-00000017{os.sep}{name}" in said[0]
    assert same(folder, whole)
    names = sorted(os.listdir(folder / "checkpoint"))
    assert names == ["damaged-step-00000017", "step-00000015", "step-00000017"]


def test_a_whole_checkpoint_is_used_with_resume_previous_too(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    log = tmp_path / "log"
    train(tmp_path / "run", {"steps": 18}, Toy(log=log), resume_previous=True)
    assert log.read_text() == "17\n"


def test_without_a_whole_checkpoint_nothing_is_done(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    for checkpoint in (tmp_path / "run/checkpoint").iterdir():
        cut(checkpoint / "model.safetensors")
    before = snapshot(tmp_path / "run")
    with pytest.raises(Damaged, match="no checkpoint that is whole"):
        train(tmp_path / "run", resume_previous=True)
    shutil.rmtree(tmp_path / "run/checkpoint/step-00000015")
    with pytest.raises(Damaged, match="none before it"):
        train(tmp_path / "run")
    kept = {k: v for k, v in before.items() if "00000015" not in k}
    assert snapshot(tmp_path / "run") == kept


@pytest.mark.parametrize("when", ["write", "fsync"])
@pytest.mark.parametrize("after", range(0, 12, 2))
def test_a_full_disk_loses_nothing_that_was_saved(
    after: int, when: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, left = tmp_path / "run", [after]
    stopped(folder)
    before = snapshot(folder)

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if when == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr("atento.training.checkpoint.write", lambda *a: (full(0), write(*a)))
        with pytest.raises(UserError, match=r"No space left.*step-\d+ is whole") as caught:
            train(folder)
        assert "\n" not in str(caught.value)
    checkpoints = [p for p in sorted((folder / "checkpoint").iterdir()) if p.name[0] != "."]
    assert len(checkpoints) == 2
    kept = snapshot(folder)
    old = {k: v for k, v in before.items() if "step-00000006" in k and k in kept}
    assert all(kept[k] == v for k, v in old.items())
    assert not [k for k in kept if "/." in k]
    train(folder)
    assert records(folder) == records(whole)


def test_a_real_disk_that_is_full(whole: Path, small_disk: Path) -> None:
    folder = small_disk / "run"
    stopped(folder)
    before = snapshot(folder / "checkpoint")
    room = shutil.disk_usage(small_disk).free
    (small_disk / "ballast").write_bytes(bytes(max(0, room - 40_000)))
    with pytest.raises(UserError, match=r"cannot be written \(No space.*step-00000006 is whole"):
        train(folder)
    assert snapshot(folder / "checkpoint") == before
    (small_disk / "ballast").unlink()
    train(folder)
    assert same(folder, whole)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "disk"
    home.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home)]
    try:
        mounted = subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("a small tmpfs cannot be mounted here")
    yield home
    subprocess.run(["umount", str(home)], check=True)


def stopped(folder: Path) -> None:
    """A run that ended without a word after step 7; step 6 was saved."""

    class Stopped(Toy):
        def loss(self, number: int) -> torch.Tensor:
            if number == 7:
                raise SystemExit
            return super().loss(number)

    with pytest.raises(SystemExit):
        train(folder, task=Stopped())


def snapshot(folder: Path) -> dict[str, bytes]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def records(folder: Path) -> list[tuple[float, float]]:
    return [(r["train_loss"], r["val_loss"]) for r in read_metrics(folder)]


def same(a: Path, b: Path) -> bool:
    for name in ("model", "checkpoint/step-00000017/model", "checkpoint/step-00000017/optimizer"):
        left, right = (load_file(folder / f"{name}.safetensors") for folder in (a, b))
        assert left.keys() == right.keys()
        if not all(torch.equal(left[k], right[k]) for k in left):
            return False
    assert json.loads((a / "checkpoint/step-00000017/state.json").read_bytes())["step"] == 17
    return records(a) == records(b)
