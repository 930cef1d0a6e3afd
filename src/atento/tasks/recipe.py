"""Recipes: what to train, as a frozen object, as TOML, and with options laid over it.

Strict: a key that is not a recipe's, or a value of another type, is one line that says so.
"""

import contextlib
import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from atento.data.config import Data
from atento.errors import UserError
from atento.models.config import PAIRED, ModelConfig
from atento.models.format import FORMAT, VERSION, check_format
from atento.training.config import MASKED, Train

__all__ = ["Option", "Recipe", "find_option", "named_recipes", "options"]

TASKS = ("language", "translation")
SECTIONS = {"data": Data, "model": ModelConfig, "train": Train}
HOME = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A task, its data, its model, its training."""

    task: str = "language"
    data: Data = field(default_factory=Data)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: Train = field(default_factory=Train)

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise UserError(f"task must be one of {', '.join(TASKS)}; got {self.task!r}.")
        self._check_task()
        if self.model.kind != "encoder" and self.train.masked != MASKED:
            raise UserError(
                "train.masked is for an encoder, from which tokens are hidden; got "
                f"{self.train.masked} with model.kind {self.model.kind!r}. Leave it out, or try "
                "--model.kind encoder."
            )

    def _check_task(self) -> None:
        """Refuses what another task has a use for, so that no option is silently without effect."""
        for section in SECTIONS:
            held = getattr(self, section)
            for part in _fields(type(held)):
                of, value = part.metadata.get("task", self.task), getattr(held, part.name)
                if of != self.task and value != part.default:
                    raise UserError(
                        f"{section}.{part.name} is for the task {of}; got {value!r} with the task "
                        f"{self.task}. Leave it out."
                    )
        if self.task == "translation" and self.model.kind not in PAIRED:
            raise UserError(
                f"model.kind must be {' or '.join(PAIRED)} for the task translation; got "
                f"{self.model.kind!r}."
            )

    @classmethod
    def read(cls, name: str) -> "Recipe":
        """The recipe of a name, or of a TOML file."""
        file = _file_of(name)
        try:
            content = tomllib.loads(file.read_bytes().decode("utf-8"))
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{file} must be a recipe in TOML; it is not: {error}.") from error
        return cls.from_dict(content, str(file))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str = "the recipe") -> "Recipe":
        """The recipe that a parsed TOML file describes."""
        check_format(content, where)
        known = ["format", "version", "task", *SECTIONS]
        for key in content:
            if key not in known:
                raise UserError(_unknown(f"{where}: {key!r}", key, known))
        parts = {}
        for name, section in SECTIONS.items():
            table = content.get(name, {})
            if not isinstance(table, dict):
                raise UserError(f"{where}: {name} must be a table, [{name}]; got {table!r}.")
            parts[name] = _section(section, name, table, where)
        return cls(task=_typed("task", content.get("task", "language"), str), **parts)

    def with_options(self, given: Mapping[str, Any]) -> "Recipe":
        """The recipe with options laid over it: dotted, or the last part where that is unique."""
        changes: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        for name, value in given.items():
            option = find_option(name)
            if option.name in changes[option.section]:
                raise UserError(f"--{option.dotted} was given twice. Give it once.")
            changes[option.section][option.name] = _typed(
                option.dotted, _read(value, option.type), option.type
            )
        parts = {name: replace(getattr(self, name), **changes[name]) for name in SECTIONS}
        return replace(self, **parts)

    def to_toml(self) -> str:
        """The TOML file that `read` reads back as an equal recipe."""
        lines = [f'format = "{FORMAT}"', f"version = {VERSION}", f"task = {_toml(self.task)}"]
        for section in SECTIONS:
            lines += ["", f"[{section}]"]
            values = getattr(self, section)
            lines += [f"{f.name} = {_toml(getattr(values, f.name))}" for f in _fields(type(values))]
        return "\n".join(lines) + "\n"

    def flat(self) -> dict[str, Any]:
        """Each dotted option → its value."""
        return {o.dotted: getattr(getattr(self, o.section), o.name) for o in options()}


@dataclass(frozen=True)
class Option:
    """One value of a recipe, as the command line names it."""

    section: str
    name: str
    type: type
    help: str

    @property
    def dotted(self) -> str:
        return f"{self.section}.{self.name}"


def options() -> Iterator[Option]:
    """Every option there is, in the order of the recipe."""
    for section, kind in SECTIONS.items():
        types = get_type_hints(kind)
        for part in _fields(kind):
            yield Option(section, part.name, types[part.name], part.metadata.get("help", ""))


def find_option(name: str) -> Option:
    """The option of a dotted name, or of a last part that only one option has."""
    every = list(options())
    matches = [o for o in every if name in (o.dotted, o.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        could = " or ".join(o.dotted for o in matches)
        raise UserError(f"option {name!r} could be {could}; write it whole.")
    known = [*(o.dotted for o in every), *(o.name for o in every)]
    raise UserError(_unknown(f"option {name!r}", name, known))


def named_recipes() -> dict[str, Path]:
    """Each recipe that comes with atento → its file."""
    return {file.stem: file for file in sorted(HOME.glob("*.toml"))}


def _file_of(name: str) -> Path:
    recipes = named_recipes()
    if name in recipes:
        return recipes[name]
    file = Path(name).expanduser()
    if os.path.isfile(file / "recipe.toml"):  # False, not an error, where the name is too long
        return file / "recipe.toml"
    if file.suffix == ".toml" and os.path.isfile(file):
        return file
    if os.path.isfile(file):
        raise UserError(
            f"recipe must be a name or a .toml file; got {name!r}. To train on that file: "
            f"atento train text --data.source {name}"
        )
    near = difflib.get_close_matches(name, recipes, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "`atento recipes` lists them."
    raise UserError(
        f"recipe must be one of {', '.join(recipes)}, or a .toml file that exists; got {name!r}. "
        f"{hint}"
    )


def _section(kind: type, section: str, table: Mapping[str, Any], where: str) -> Any:
    types = get_type_hints(kind)
    known = [f.name for f in _fields(kind)]
    for key in table:
        if key not in known:
            raise UserError(_unknown(f"{where}: {section}.{key}", key, known))
    return kind(**{k: _typed(f"{section}.{k}", v, types[k]) for k, v in table.items()})


def _fields(kind: Any) -> list[Field[Any]]:
    return [f for f in fields(kind) if not f.metadata.get("from_data")]


def _typed(name: str, value: Any, kind: type) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is kind:
        return value
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    raise UserError(f"{name} must be {words[kind]}; got {value!r}.")


def _read(value: Any, kind: type) -> Any:
    """A value as its field's kind where it is one: all is text on the command line, and in Python a
    path may be a Path."""
    if kind is str and isinstance(value, Path):
        return str(value)
    if kind is bool:
        return {"true": True, "false": False}.get(value, value)
    if isinstance(value, str) and kind is not str:
        for number in (int, float):
            with contextlib.suppress(ValueError):
                return number(value)
    return value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # JSON's strings are TOML's basic strings, except that TOML also escapes DEL.
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _unknown(what: str, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    return f"{what} is not known. {hint}"
