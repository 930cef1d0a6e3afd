"""One door for attention in sequences, images and graphs.

`attend` and every mask, score, bias and position that it takes are offered here, as are `train`,
`compare` and `load`. Nothing is imported until it is asked for, so `import atento` costs no torch.
"""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_HERE = Path(__file__).parent
_ABOVE_THE_DOOR = {
    "compare": "atento.tasks",
    "train": "atento.tasks",
    "load": "atento.tasks",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":  # from atento import *: the door, train, compare and load
        return sorted({*_ABOVE_THE_DOOR, *_door()})
    if name.startswith("_"):  # IPython and copy probe for names that no file offers
        raise AttributeError(f"module 'atento' has no attribute {name!r}")
    module = _ABOVE_THE_DOOR.get(name)
    if module is None and name in _subpackages():
        return importlib.import_module(f"atento.{name}")
    if module is None:
        module = _door().get(name)
    if module is None:
        raise AttributeError(f"module 'atento' has no attribute {name!r}{_hint(name)}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({"__version__", *_ABOVE_THE_DOOR, *_subpackages(), *_door()})


@cache
def _door() -> dict[str, str]:
    """Each public name of core → the module that defines it, by reading every `__all__`."""
    return {
        name: module
        for file in sorted((_HERE / "core").rglob("*.py"))
        for module in [_module_name(file)]
        for name in _names_in_all(file)
    }


@cache
def _subpackages() -> frozenset[str]:
    return frozenset(file.parent.name for file in _HERE.glob("*/__init__.py"))


def _module_name(file: Path) -> str:
    parts = file.relative_to(_HERE).with_suffix("").parts
    return ".".join(("atento", *parts)).removesuffix(".__init__")


def _names_in_all(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_bytes()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                yield from ast.literal_eval(value)


def _hint(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, __dir__(), n=1)
    return f". Did you mean {near[0]!r}?" if near else ""
