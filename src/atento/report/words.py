"""Words in Portuguese and English, from a table in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["read", "said_in"]


@cache
def read(file: Path) -> dict[str, Any]:
    """page → key → language → part → words."""
    with file.open("rb") as opened:
        data = tomllib.load(opened)
    if (data.pop("format", None), data.pop("version", None)) != ("atento", 1):
        raise ValueError(f'{file.name}: expected format = "atento" and version = 1.')
    return data


def said_in(parts: Mapping[str, str], part: str, values: Mapping[str, str] | None = None) -> str:
    """The words of a part, with `values` in their places; empty where there is no such part."""
    return " ".join(parts.get(part, "").split()).format(**(values or {}))
