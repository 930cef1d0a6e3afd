"""Tasks: data → model → loss, and what users hold: `Recipe`, `Run`, `Comparison`,
`train`, `compare`, `load`.

Nothing here imports torch until a name that needs it is asked for, so that recipes can be listed
and read without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atento.tasks.comparing import compare
    from atento.tasks.comparison import Comparison
    from atento.tasks.recipe import Recipe
    from atento.tasks.run import Run, load
    from atento.tasks.start import train

__all__ = ["Comparison", "Recipe", "Run", "compare", "load", "train"]

_HOMES = {
    "Comparison": "atento.tasks.comparison",
    "Recipe": "atento.tasks.recipe",
    "Run": "atento.tasks.run",
    "compare": "atento.tasks.comparing",
    "load": "atento.tasks.run",
    "train": "atento.tasks.start",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'atento.tasks' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
