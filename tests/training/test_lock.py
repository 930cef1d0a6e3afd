"""One writer for a folder."""

import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

from atento.errors import UserError
from atento.training.lock import locked
from training.toy import train

HOLDS = """
import sys, time
from pathlib import Path
from atento.training.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline().strip() == b"held"
            with pytest.raises(UserError, match="is being trained now") as caught:
                train(tmp_path)
            assert "\n" not in str(caught.value)
            assert os.listdir(tmp_path) == [".lock"]
        finally:
            holder.kill()
    train(tmp_path, {"steps": 1})
    assert not (tmp_path / ".lock").exists()


def test_the_holder_may_take_it_again_and_another_thread_may_not(tmp_path: Path) -> None:
    refused: list[UserError] = []

    def second() -> None:
        try:
            with locked(tmp_path):
                pass
        except UserError as error:
            refused.append(error)

    def in_a_thread() -> int:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        return len(refused)

    with locked(tmp_path):
        with locked(tmp_path):
            pass
        assert in_a_thread() == 1
    assert in_a_thread() == 1


def test_a_file_that_its_holder_removed_is_not_the_lock(tmp_path: Path) -> None:
    """Between opening and locking the holder may go: the lock is then on a file without a name."""
    fcntl = pytest.importorskip("fcntl")
    flock, tries = fcntl.flock, []

    def late(descriptor: int, how: int) -> None:
        if not tries:
            (tmp_path / ".lock").unlink()
        tries.append(descriptor)
        flock(descriptor, how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", late)
        with locked(tmp_path):
            assert len(tries) == 2
            assert os.path.samestat(os.fstat(tries[1]), os.stat(tmp_path / ".lock"))


def test_windows_lock_is_used_where_fcntl_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def locking(descriptor: int, how: int, count: int) -> None:
        if taken:
            raise PermissionError(13, "Permission denied")
        taken.append(descriptor)

    msvcrt = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    with locked(tmp_path):
        thread_refused = []

        def second() -> None:
            with pytest.raises(UserError, match="is being trained now"), locked(tmp_path):
                pass
            thread_refused.append(True)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert thread_refused


HIDDEN = """
import sys
for name in ("fcntl", "msvcrt", "triton"):
    sys.modules[name] = None
from pathlib import Path
from training.toy import train
assert train(Path(sys.argv[1]), {"steps": 2}).step == 2
"""


def test_trains_with_fcntl_and_triton_hidden(tmp_path: Path) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    words = [sys.executable, "-c", HIDDEN, str(tmp_path)]
    subprocess.run(words, env=os.environ | {"PYTHONPATH": tests}, check=True)
    assert (tmp_path / "checkpoint/step-00000002").is_dir()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can be written"), locked(tmp_path / "nada"):
        pass
