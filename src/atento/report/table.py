"""A table of numbers or words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from atento.report.markup import Html, element

__all__ = ["table"]


def table(
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    columns: Sequence[str] = (),
    names: Sequence[str] = (),
    marked: Collection[tuple[int, int]] = (),
) -> Html:
    """The rows, with names beside them and above the columns; `marked` cells are outlined."""
    parts = [element("caption", None, caption)] if caption else []
    if columns:
        heads = [element("th", {"scope": "col"}, column) for column in columns]
        corner = [element("td")] if names else []
        parts.append(element("thead", None, element("tr", None, *corner, *heads)))
    body = []
    for r, row in enumerate(rows):
        name = [element("th", {"scope": "row"}, names[r])] if r < len(names) else []
        cells = [
            element("td", {"class": "marked"} if (r, c) in marked else None, cell)
            for c, cell in enumerate(row)
        ]
        body.append(element("tr", None, *name, *cells))
    return element("table", None, *parts, element("tbody", None, *body))
