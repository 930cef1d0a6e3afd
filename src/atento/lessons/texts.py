"""The words of the lessons, in Portuguese and English, from one table: texts.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["table", "text"]

FILE = Path(__file__).with_name("texts.toml")


@cache
def table() -> dict[str, Any]:
    """lesson → text → language → part → words; `page` holds what every lesson says."""
    with FILE.open("rb") as opened:
        data = tomllib.load(opened)
    if (data.pop("format", None), data.pop("version", None)) != ("atento", 1):
        raise ValueError(f'{FILE.name}: expected format = "atento" and version = 1.')
    return data


def text(
    lesson: str, key: str, part: str, lang: str, values: Mapping[str, str] | None = None
) -> str:
    """The words of a part, with `values` in their places; empty where the part has none."""
    words = table()[lesson][key][lang].get(part, "")
    return " ".join(words.split()).format(**(values or {}))
