"""Numbers as they are written on pages and terminals."""

from __future__ import annotations

import math

__all__ = ["number", "spelled"]


def number(value: float, digits: int) -> str:
    """The value with so many decimals; no −0.000, and ∞ and "no number" by their signs."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def spelled(text: str, lang: str) -> str:
    """A number written as in English, as it is written in the language: 1,234.5 or 1.234,5."""
    return text.translate(_SWAPPED) if lang == "pt" else text


_SWAPPED = str.maketrans(",.", ".,")
