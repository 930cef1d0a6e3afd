"""The demo's words and numbers in one language, from one table: demo.toml."""

from pathlib import Path

from atento.report.numbers import spelled
from atento.report.words import read, said_in

__all__ = ["FILE", "Wording"]

FILE = Path(__file__).with_name("demo.toml")


class Wording:
    """What is said, and how numbers are written, in a language: pt or en."""

    def __init__(self, lang: str) -> None:
        self.lang = lang

    def __call__(self, key: str, part: str, **values: str) -> str:
        """The words of a part, with `values` in their places."""
        return said_in(read(FILE)["demo"][key][self.lang], part, values)

    def number(self, value: float, digits: int = 0, sign: str = "-") -> str:
        """A number with so many decimals; sign "+" shows that of positive ones too."""
        return spelled(f"{value:{sign},.{digits}f}", self.lang)

    def quoted(self, text: str) -> str:
        """The text between the language's quotation marks."""
        return f"«{text}»" if self.lang == "pt" else f"“{text}”"
