"""Files that a command writes where its user says."""

from pathlib import Path

from atento.errors import UserError
from atento.report.file import write_bytes

__all__ = ["check_folder", "written"]


def check_folder(option: str, file: Path) -> None:
    """Before anything is computed: a folder that is not there is the likely mistake."""
    folder = file.parent
    if not folder.is_dir():
        raise UserError(
            f"{option}: there is no folder {str(folder)!r} to write {file.name!r} in. "
            "Make it, or name another."
        )


def written(option: str, file: Path, content: bytes) -> None:
    """Puts the content at the file, whole or not at all."""
    try:
        write_bytes(file, content)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{option} {str(file)!r} cannot be written: {why}. Name another file."
        ) from error
