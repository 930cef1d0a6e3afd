"""The words of the lessons, in Portuguese and English, from one table: texts.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atento.report.words import read, said_in

__all__ = ["table", "text"]

FILE = Path(__file__).with_name("texts.toml")


def table() -> dict[str, Any]:
    """lesson → text → language → part → words; `page` holds what every lesson says."""
    return read(FILE)


def text(
    lesson: str, key: str, part: str, lang: str, values: Mapping[str, str] | None = None
) -> str:
    """The words of a part, with `values` in their places; empty where the part has none."""
    return said_in(table()[lesson][key][lang], part, values)
