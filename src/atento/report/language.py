"""The reader's language: Portuguese or English."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LANGUAGES", "language"]

LANGUAGES = ("pt", "en")


def language(environment: Mapping[str, str]) -> str:
    """pt where the environment speaks any Portuguese, else en.

    LC_ALL goes before LC_MESSAGES, and that before LANG, as everywhere.
    """
    named = (environment.get(key, "") for key in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "pt" if next(filter(None, named), "").casefold().startswith("pt") else "en"
