"""A page on disk: whole, or not there."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

__all__ = ["write", "write_bytes"]


def write(file: Path, text: str) -> None:
    """`write_bytes` of a text in UTF-8."""
    write_bytes(file, text.encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Puts the content at `file` in one stroke; an OSError leaves what was there before.

    A link is followed. What is neither absent nor a plain file, such as a folder or a device, is
    refused with an OSError.
    """
    file = file.resolve()
    if file.exists() and not file.is_file():
        raise OSError(f"{file} is not a plain file")
    # A name of its own rather than mkstemp, whose files only their owner may read.
    beside = file.with_name(f".atento-{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(beside, file)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last through a power cut; systems that cannot open a folder do without."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
