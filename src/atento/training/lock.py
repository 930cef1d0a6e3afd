"""One writer for a run's folder."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from atento.errors import UserError

__all__ = ["LOCK", "locked"]

LOCK = ".lock"
TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_held = threading.local()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it no other process or thread writes the folder; whoever tries is refused.

    The thread that holds it may take it again. The system holds the lock, so that a killed process
    leaves none; where neither flock nor Windows' lock is to be had, there is none.
    Claim: test_lock.py::test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock
    """
    mine: set[Path] = _held.__dict__.setdefault("folders", set())
    home = folder.resolve()
    if home in mine:
        yield
        return
    descriptor = _taken(home)
    mine.add(home)
    try:
        yield
    finally:
        mine.discard(home)
        # On POSIX removed while it is held, or the next writer's file would go; Windows lets none
        # remove an open file.
        with suppress(OSError):
            (home / LOCK).unlink()
        os.close(descriptor)
        with suppress(OSError):
            if os.name == "nt":
                (home / LOCK).unlink()


def _taken(home: Path) -> int:
    """The descriptor of the folder's lock file, locked."""
    while True:
        try:
            descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UserError(
                f"out must be a folder that can be written; {str(home)!r} cannot "
                f"({error.strerror}). Name another with --out."
            ) from error
        try:
            _lock(descriptor)
            # Its last holder may have removed the file between our opening and our locking.
            if os.path.samestat(os.fstat(descriptor), os.stat(home / LOCK)):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(descriptor)
            raise UserError(
                f"out must be a run that nothing else is writing; {str(home)!r} is being trained "
                "now. Wait until it is done or stop it, or name another --out."
            ) from error
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Raises OSError where someone else has it."""
    try:
        try:
            import fcntl
        except ImportError:
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return
    except OSError as error:
        if error.errno in TAKEN:
            raise
        # Some network and user-space file systems know no locks; training goes on without.
