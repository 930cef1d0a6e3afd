"""HTML from elements: text is escaped where it enters, so that no page can be broken by a name."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from unicodedata import category

__all__ = ["Html", "element", "joined"]

_VOID = frozenset({"br", "circle", "hr", "img", "line", "link", "meta", "path", "rect"})

Attributes = Mapping[str, str | float]


class Html(str):
    """Markup that is finished: whatever is not `Html` is text and gets escaped."""

    __slots__ = ()


def element(name: str, attributes: Attributes | None = None, *children: str) -> Html:
    """<name attributes>children</name>; children that are not `Html` are escaped."""
    written = "".join(f' {key}="{_value(value)}"' for key, value in (attributes or {}).items())
    if name in _VOID:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Iterable[str], between: str = "") -> Html:
    """The children one after another, escaped where they are not `Html`."""
    return Html(
        between.join(child if isinstance(child, Html) else _text(child) for child in children)
    )


def _text(text: str) -> str:
    return html.escape(_sayable(text), quote=False)


def _value(value: str | float) -> str:
    if isinstance(value, float):
        value = f"{value:.2f}".rstrip("0").rstrip(".")
    return html.escape(_sayable(str(value)))


def _sayable(text: str) -> str:
    """The text with `�` for what no HTML page may hold: control characters, lone surrogates."""
    return "".join(
        mark if mark in "\t\n\r" or category(mark) not in ("Cc", "Cs") else "\ufffd"
        for mark in text
    )
