"""The words of reports and comparisons, in Portuguese and English, from one table: texts.toml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atento.report.words import read, said_in

__all__ = ["Words", "table"]

FILE = Path(__file__).with_name("texts.toml")


def table() -> dict[str, Any]:
    """page → text → language → part → words."""
    return read(FILE)


class Words:
    """What a page says, in one language."""

    def __init__(self, page: str, lang: str) -> None:
        self.lang = lang
        self._texts = table()[page]

    def __call__(self, text: str, part: str, values: Mapping[str, str] | None = None) -> str:
        """The words of a part, with `values` in their places."""
        return said_in(self._texts[text][self.lang], part, values)
