"""Masks written as in Python, `"Causal() & Window(255)"`, read without running anything.

The text is parsed; names, calls, `&`, `|`, `~`, and integers, None, lists and tuples of integers as
arguments are all that is read. The names are those of every core file's `__all__` that make masks,
so a new mask there is known here. Masks that need tensors say so: they belong to batches.
"""

import ast
import difflib
import importlib
import inspect
import typing
from collections.abc import Callable
from functools import cache
from pkgutil import iter_modules
from typing import Any

from atento import core
from atento.core.compose import Mask
from atento.errors import UserError

__all__ = ["mask_from"]

LONGEST, DEEPEST = 500, 20  # characters, nested brackets or signs: more is a mistake, or malice
LARGEST = 2**31  # of an integer: positions are int64, and masks add to them


def mask_from(text: str) -> Mask:
    """The mask that a recipe's `mask` writes.

    Claim: test_mask_from.py::test_hostile_texts_are_refused
    """
    if len(text) > LONGEST:
        raise UserError(f"model.mask must have at most {LONGEST} characters; got {len(text)}.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UserError(
            f'model.mask must be written as in Python, such as "Causal() & Window(255)"; got '
            f"{text!r}: {why}."
        ) from error
    if _depth(tree.body) > DEEPEST:
        raise UserError(f"model.mask must be nested at most {DEEPEST} deep; got {text!r}.")
    return _mask(tree.body, text)


def _depth(node: ast.expr) -> int:
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [c for n in level for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr)]
    return deepest


@cache
def _known() -> dict[str, Callable[..., Mask]]:
    files = [importlib.import_module(f"atento.core.{m.name}") for m in iter_modules(core.__path__)]
    offered = {name: getattr(file, name) for file in files for name in file.__all__}
    return {name: value for name, value in offered.items() if _makes_masks(value)}


def _makes_masks(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, Mask)
    made = typing.get_type_hints(value).get("return") if inspect.isfunction(value) else None
    return isinstance(made, type) and issubclass(made, Mask)


def _mask(node: ast.expr, text: str) -> Mask:
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _mask(left, text) & _mask(right, text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _mask(left, text) | _mask(right, text)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_mask(operand, text)
        case ast.Call(func=ast.Name(id=name)):
            return _called(name, node, text)
        case ast.Name(id=name) if name in _known():
            raise UserError(f"model.mask: write {name}(), with its arguments; got {text!r}.")
    raise UserError(
        f"model.mask is made of masks joined by &, | and ~, such as "
        f'"Causal() & Window(255)"; got {ast.unparse(node)!r}.'
    )


def _called(name: str, node: ast.Call, text: str) -> Mask:
    known = _known()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
        raise UserError(f"model.mask: {name!r} is no mask. {hint}")
    positional = [_argument(name, value) for value in node.args]
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            what = "**" if keyword.arg is None else f"argument {keyword.arg!r} twice"
            raise UserError(f"model.mask: {name} was given {what}; name each argument once.")
        named[keyword.arg] = _argument(name, keyword.value)
    signature = inspect.signature(known[name])
    for argument in named:
        if argument not in signature.parameters:
            raise UserError(
                f"model.mask: {name} has no argument {argument!r}; it is {name}{_plain(signature)}."
            )
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        raise UserError(f"model.mask: {name}{_plain(signature)}: {error}.") from error
    try:
        return known[name](*positional, **named)
    except (ValueError, TypeError) as error:
        raise UserError(f"model.mask: {error}") from error


def _argument(name: str, node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value < LARGEST:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            raise UserError(f"model.mask: {name} takes no negative numbers; got −{value}.")
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_argument(name, part) for part in parts]
    raise UserError(
        f"model.mask: {name} takes whole numbers below 2³¹, None, or lists of them; got "
        f"{ast.unparse(node)!r}."
    )


def _plain(signature: inspect.Signature) -> str:
    """(before, after=0): the arguments without their types."""
    shown = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in signature.parameters.values()
    ]
    return f"({', '.join(shown)})"
