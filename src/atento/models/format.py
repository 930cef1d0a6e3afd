"""The mark on what atento writes, and the refusal of what it cannot read."""

from collections.abc import Mapping
from typing import Any

from atento.errors import UserError

__all__ = ["FORMAT", "MARK", "VERSION", "check_format"]

FORMAT, VERSION = "atento", 1
MARK: dict[str, Any] = {"format": FORMAT, "version": VERSION}


def check_format(content: Mapping[str, Any], where: str) -> None:
    """Refuses what atento did not write, and what a later atento wrote."""
    if content.get("format") != FORMAT:
        raise UserError(
            f'{where}: format must be "{FORMAT}"; got {content.get("format")!r}. Is it a file of '
            f'atento? Those begin with format = "{FORMAT}" and version = {VERSION}.'
        )
    if content.get("version") != VERSION:
        raise UserError(
            f"{where}: version must be {VERSION}, the one this atento reads; got "
            f"{content.get('version')!r}. Update atento."
        )
