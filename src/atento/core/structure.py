"""What masks, scores, biases and positions have in common: frozen values made of tensors.

A `Structured` is a frozen dataclass. A field that holds a tensor (or another `Structured`, or a
tuple with one) is a leaf of torch's pytrees; every other field is static. So an object passes
through `torch.compile`, `torch.export` and functions of pytrees, and its `structure` says, without
reading a tensor, whether two calls can share a compiled kernel.
"""

from __future__ import annotations

import ast
import numbers
from dataclasses import fields
from functools import lru_cache
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

__all__: list[str] = []

_KINDS: dict[str, type[Structured]] = {}


class Structured:
    """Base of the frozen values of the door; subclasses are `@dataclass(frozen=True, eq=False)`."""

    def __init_subclass__(cls, **kwargs: object) -> None:  # kwargs: Python's protocol
        super().__init_subclass__(**kwargs)
        name = f"{cls.__module__}:{cls.__qualname__}"
        # A notebook cell that is run again defines the same class anew; exports know the first.
        serialized = None if name in _KINDS else f"atento:{name}"
        _KINDS[name] = cls
        pytree.register_pytree_node(
            cls,
            _flatten,
            lambda values, context: _unflatten(cls, values, context),
            flatten_with_keys_fn=_flatten_with_keys,
            serialized_type_name=serialized,
            to_dumpable_context=repr if serialized else None,
            from_dumpable_context=ast.literal_eval if serialized else None,
        )

    @property
    def structure(self) -> tuple[object, ...]:
        """Hashable: the types, the static fields and the tensors' shapes and dtypes."""
        cls = type(self)
        parts = ((f.name, _outline(getattr(self, f.name))) for f in fields(self))  # type: ignore[arg-type]
        return (f"{cls.__module__}:{cls.__qualname__}", *parts)

    def __eq__(self, other: object) -> bool:
        """Equal structure and the very same tensors; no tensor is read."""
        if not isinstance(other, Structured) or self.structure != other.structure:
            return False
        mine, theirs = leaves(self), leaves(other)
        return len(mine) == len(theirs) and all(map(_same, mine, theirs))

    def __hash__(self) -> int:
        return hash(self.structure)

    def to(self, *args: Any, **kwargs: Any) -> Self:  # kwargs: those of nn.Module.to
        """The same object, its tensors moved; a floating dtype changes floating ones only."""
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"to takes a floating dtype; got {dtype}. Tables keep theirs.")

        def moved(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return x.to(device, dtype if x.is_floating_point() else None, non_blocking)

        made: Self = pytree.tree_map(moved, self)
        return made


def _same(a: Tensor, b: Tensor) -> bool:
    """The same tensor, or two equal views of the same memory."""
    if a is b:
        return True
    if torch.compiler.is_compiling():  # nothing there tells two views of one tensor apart
        return False
    alike = a.storage_offset() == b.storage_offset() and a.stride() == b.stride()
    return alike and bool(torch._C._is_alias_of(a, b))  # type: ignore[attr-defined]


def _dynamic(value: object) -> bool:
    if isinstance(value, tuple):
        return any(isinstance(x, (Tensor, Structured)) for x in value)
    return isinstance(value, (Tensor, Structured))


def _outline(value: object) -> object:
    if isinstance(value, Structured):
        return value.structure
    if isinstance(value, Tensor):
        return ("tensor", tuple(value.shape), value.dtype)
    if isinstance(value, tuple):
        return tuple(_outline(x) for x in value)
    return value


def _flatten(x: Structured) -> tuple[list[Any], Any]:
    pairs = [(f.name, getattr(x, f.name)) for f in fields(x)]  # type: ignore[arg-type]
    values = [value for _, value in pairs if _dynamic(value)]
    names = tuple(name for name, value in pairs if _dynamic(value))
    static = tuple(pair for pair in pairs if not _dynamic(pair[1]))
    return values, (names, static)


def _flatten_with_keys(x: Structured) -> tuple[list[tuple[Any, Any]], Any]:
    values, context = _flatten(x)
    keys = [pytree.GetAttrKey(name) for name in context[0]]
    return list(zip(keys, values, strict=True)), context


def _unflatten(cls: type[Structured], values: Any, context: Any) -> Structured:
    # Validation is skipped on purpose: transforms put placeholders where tensors were.
    names, static = context
    made = object.__new__(cls)
    for name, value in (*static, *zip(names, values, strict=True)):
        object.__setattr__(made, name, value)
    return made


def leaves(x: object) -> list[Tensor]:
    """The tensors of a structured value (or a tuple of them), in a fixed order."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, tuple):
        return [leaf for part in x for leaf in leaves(part)]
    if isinstance(x, Structured):
        return [leaf for f in fields(x) for leaf in leaves(getattr(x, f.name))]  # type: ignore[arg-type]
    return []


def spelled(x: object, tensors: list[Tensor]) -> str:
    """A text from which `read` makes x again; its tensors are appended to `tensors`.

    Operators of torch.library take tensors and plain values only, never objects.
    """
    if isinstance(x, Tensor):
        tensors.append(x)
        return f"('tensor', {len(tensors) - 1})"
    if isinstance(x, tuple):
        return "('tuple', " + "".join(spelled(part, tensors) + ", " for part in x) + ")"
    if isinstance(x, Structured):
        cls = type(x)
        parts = [
            f"('{f.name}', {spelled(getattr(x, f.name), tensors)}), "
            for f in fields(x)  # type: ignore[arg-type]
        ]
        return f"('{cls.__module__}:{cls.__qualname__}', " + "".join(parts) + ")"
    return f"('value', {_plain(x)})"


def _plain(x: object) -> str:
    """A literal: NumPy's numbers as Python's, and floats in a form that has infinities too."""
    if isinstance(x, (bool, str)) or x is None:
        return repr(x)
    if isinstance(x, numbers.Integral):
        return repr(int(x))
    return repr(float(x).hex()) + ", " + repr("float") if isinstance(x, numbers.Real) else repr(x)


def read(text: str, tensors: list[Tensor]) -> Any:
    """The value that `spelled` wrote."""
    return _built(_parsed(text), tensors)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    return ast.literal_eval(text)


def _built(node: Any, tensors: list[Tensor]) -> Any:
    kind, *rest = node
    if kind == "tensor":
        return tensors[rest[0]]
    if kind == "value":
        return rest[0] if len(rest) == 1 else float.fromhex(rest[0])
    if kind == "tuple":
        return tuple(_built(part, tensors) for part in rest)
    made = object.__new__(_KINDS[kind])
    for name, value in rest:
        object.__setattr__(made, name, _built(value, tensors))
    return made
