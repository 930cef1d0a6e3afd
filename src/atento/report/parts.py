"""Small parts of a page: boxes with a heading, facts, and what a model said."""

from __future__ import annotations

from collections.abc import Mapping

from atento.report.markup import Html, element

__all__ = ["box", "facts", "paragraph", "said"]


def box(heading: str, *parts: str) -> Html:
    """A framed figure under a heading."""
    return element("div", {"class": "figure"}, element("h3", None, heading), *parts)


def facts(pairs: Mapping[str, str]) -> Html:
    """Names with what they are, one below the other."""
    lines = [
        element(kind, {"dir": "auto"} if kind == "dd" else None, text)
        for pair in pairs.items()
        for kind, text in zip(("dt", "dd"), pair, strict=True)
    ]
    return element("dl", {"class": "facts"}, *lines)


def paragraph(words: str, kind: str = "") -> Html:
    """A paragraph; nothing where there are no words."""
    return element("p", {"class": kind} if kind else None, words) if words else Html("")


def said(text: str) -> Html:
    """A model's own words, whatever they are, with their lines and their direction."""
    return element("pre", {"class": "sample", "dir": "auto"}, text)
