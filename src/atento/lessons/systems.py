"""Every system, exercise, number, claim and figure of the lectures: where it is, what proves it.

The rows stand in systems.toml. `python -m atento.lessons.systems` makes docs/systems.md of them.
No torch is imported, so that a listing is there at once.
"""

import os
import re
import sys
import tempfile
import tomllib
import unicodedata
from collections import Counter
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Saying", "System", "systems", "find", "listing", "page"]

FILE = Path(__file__).with_name("systems.toml")
PAGE = Path(__file__).parents[3] / "docs" / "systems.md"

STATES = ("planned", "works")
VERDICTS = (
    *("true", "imprecise", "false", "empirical", "question"),
    *("ok", "wrong", "not reproduced", "missing", "ambiguous"),
)
_ID = re.compile(r"[SENCF][1-9][0-9]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """The lecture's own words, our verdict on them, and the figure or reason behind it."""

    words: str
    verdict: str
    figure: str
    figure_pt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One row: a system (S), exercise (E), number (N), claim (C) or figure (F) of the lectures."""

    id: str
    lectures: tuple[str, ...]
    pt: str
    en: str
    state: str
    check: str
    object: tuple[str, ...] = ()  # import paths, "package.module:Name"
    command: str = ""
    snippet: str = ""
    tests: tuple[str, ...] = ()  # pytest's node ids
    said: tuple[Saying, ...] = ()

    @property
    def kind(self) -> str:
        return self.id[0]

    @property
    def where(self) -> tuple[str, ...]:
        return (*self.object, *([self.command] if self.command else []))

    @property
    def verdicts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(saying.verdict for saying in self.said))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lecture:
    id: str
    pt: str
    en: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    first: str
    pt: str
    en: str


@dataclass(frozen=True, slots=True)
class _Book:
    lectures: tuple[_Lecture, ...]
    groups: tuple[_Group, ...]
    rows: tuple[System, ...]
    texts: dict[str, dict[str, Any]]


# ------------------------------------------------------------------ reading


def systems() -> tuple[System, ...]:
    """The rows of systems.toml, in its order."""
    return _book().rows


@cache
def _book() -> _Book:
    return read(FILE)


def read(file: Path) -> _Book:
    """The lectures, groups and rows of a file; a ValueError names what is wrong and where."""
    with file.open("rb") as opened:
        data = tomllib.load(opened)
    if (data.get("format"), data.get("version")) != ("atento", 1):
        raise ValueError(f'{file.name}: expected format = "atento" and version = 1.')
    unknown = sorted(data.keys() - {"format", "version", "lecture", "texts", "group", "row"})
    if unknown:
        raise ValueError(f"{file.name}: unknown table {unknown[0]!r}.")
    lectures = tuple(_made(_Lecture, table, file.name) for table in data.get("lecture", []))
    groups = tuple(_made(_Group, table, file.name) for table in data.get("group", []))
    rows = tuple(_row(table, file.name) for table in data.get("row", []))
    _whole(lectures, groups, rows, file.name)
    return _Book(lectures, groups, rows, data.get("texts", {}))


_Made = TypeVar("_Made")


def _made(kind: type[_Made], table: dict[str, Any], place: str) -> _Made:
    """The dataclass of a table whose keys are exactly its fields; lists become tuples."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        raise ValueError(
            f"{place}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}."
        )
    needed = {name for name, field in known.items() if field.default is MISSING}
    missing = sorted(needed - table.keys())
    if missing:
        raise ValueError(f"{place}: the key {missing[0]!r} is missing.")
    values = {name: _value(known[name].type, value) for name, value in table.items()}
    for name, value in values.items():
        if value is None or value == "" or value == ():
            raise ValueError(f"{place}: {name} = {table[name]!r}; expected {known[name].type}.")
    return kind(**values)


def _value(kind: Any, value: Any) -> Any:
    """The value as its field's type has it, or None where it is of another type."""
    if kind is str:
        return value if isinstance(value, str) else None
    values = (value,) if isinstance(value, str) else tuple(value)
    item = Saying if kind == tuple[Saying, ...] else str
    return values if all(isinstance(one, item) for one in values) else None


def _row(table: dict[str, Any], place: str) -> System:
    place = f"{place}, row {table.get('id', '(without id)')}"
    said = tuple(_made(Saying, one, f"{place}, said") for one in table.get("said", []))
    row = _made(System, {**table, **({"said": said} if said else {})}, place)
    if not _ID.fullmatch(row.id):
        raise ValueError(f"{place}: an id is S, E, N, C or F and a number, such as S29.")
    if row.state not in STATES:
        raise ValueError(f"{place}: state = {row.state!r}; expected {' or '.join(STATES)}.")
    if row.kind in "NC" and not said:
        raise ValueError(f"{place}: a number or a claim needs the lecture's words ([[row.said]]).")
    for saying in said:
        if saying.verdict not in VERDICTS:
            raise ValueError(
                f"{place}: verdict = {saying.verdict!r}; expected one of {', '.join(VERDICTS)}."
            )
    if row.state == "works" and not (row.tests and (row.where or row.snippet)):
        raise ValueError(f"{place}: works, so it needs tests, and an object, command or snippet.")
    return row


def _whole(
    lectures: tuple[_Lecture, ...], groups: tuple[_Group, ...], rows: tuple[System, ...], place: str
) -> None:
    """Raises where an id stands twice, or names a lecture or a row that is not there."""
    named = Counter(row.id for row in rows) + Counter(lecture.id for lecture in lectures)
    twice = [name for name, count in named.items() if count > 1]
    if twice:
        raise ValueError(f"{place}: the id {', '.join(twice)} stands more than once.")
    for row in rows:
        for lecture in row.lectures:
            if lecture not in {one.id for one in lectures}:
                raise ValueError(f"{place}, row {row.id}: no lecture {lecture!r}.")
    for group in groups:
        if group.first not in {row.id for row in rows}:
            raise ValueError(f"{place}: the group {group.en!r} begins at {group.first}, not a row.")
    if rows and (not groups or groups[0].first != rows[0].id):
        raise ValueError(f"{place}: the first group must begin at the first row, {rows[0].id}.")


# ------------------------------------------------------------------ finding


def find(word: str) -> tuple[System, ...]:
    """The rows that a slide's word, a row's id or a lecture's number stands for.

    Names in both languages and the lectures' quoted words are searched; case and accents do not
    matter, and of several words each must be found.
    """
    wanted = _folded(word).split()
    exact = tuple(row for row in systems() if [row.id.casefold()] == wanted)
    if exact or not wanted:
        return exact or systems()
    if wanted in [[lecture.id] for lecture in _book().lectures]:
        return tuple(row for row in systems() if wanted[0] in row.lectures)
    return tuple(row for row in systems() if all(one in _text(row) for one in wanted))


@cache
def _text(row: System) -> str:
    return _folded(" ".join([row.pt, row.en, *(saying.words for saying in row.said)]))


def _folded(text: str) -> str:
    """Lower case without accents; ᵀ and ₙ become letters."""
    apart = unicodedata.normalize("NFKD", text)
    return "".join(mark for mark in apart if not unicodedata.combining(mark)).casefold()


def _grouped(rows: tuple[System, ...]) -> list[tuple[_Group, list[System]]]:
    """The groups that hold any of the rows, with them."""
    starts = {group.first: group for group in _book().groups}
    of: dict[str, _Group] = {}
    group = _book().groups[0]
    for row in systems():
        group = starts.get(row.id, group)
        of[row.id] = group
    found: dict[_Group, list[System]] = {}
    for row in rows:
        found.setdefault(of[row.id], []).append(row)
    return list(found.items())


# ------------------------------------------------------------------ in words


def _texts(lang: str) -> dict[str, Any]:
    texts = _book().texts
    if lang not in texts:
        raise ValueError(f"lang = {lang!r}; expected one of {', '.join(texts)}.")
    return texts[lang]


def _names(row: System | _Lecture | _Group, lang: str) -> tuple[str, str]:
    """The name in the reader's language, and in the other one."""
    return (row.pt, row.en) if lang == "pt" else (row.en, row.pt)


def listing(lang: str, word: str = "") -> str:
    """The rows that a word stands for, or all of them, as plain lines under their groups."""
    texts = _texts(lang)
    rows = find(word)
    if not rows:
        return texts["none"].format(word=word)
    wide = max(len(texts[state]) for state in STATES)
    lines = []
    for group, members in _grouped(rows):
        lines += ["", _names(group, lang)[0]]
        for row in members:
            said = ", ".join(texts["verdicts"][verdict] for verdict in row.verdicts)
            line = f"  {row.id:<5}{texts[row.state]:<{wide}}  {_names(row, lang)[0]}"
            line += f" [{' '.join(row.lectures)}]" + (f": {said}" if said else "")
            lines += [line, *(" " * (wide + 9) + f"→ {where}" for where in row.where)]
    works = sum(row.state == "works" for row in rows)
    lines += ["", texts["count"].format(works=works, total=len(rows))]
    return "\n".join(lines[1:])


# ------------------------------------------------------------------ the page


def page(lang: str = "en") -> str:
    """The Markdown page of all rows; docs/systems.md is the English one."""
    texts = _texts(lang)
    works = sum(row.state == "works" for row in systems())
    parts = [
        f"# {texts['title']}",
        texts["intro"],
        texts["count"].format(works=works, total=len(systems())),
        f"## {texts['lectures']}",
        _table(
            [texts["lecture"], ""],
            [[one.id, _both(one, lang)] for one in _book().lectures],
        ),
    ]
    for group, rows in _grouped(systems()):
        parts += [f"## {_names(group, lang)[0]}", _rows_table(rows, lang)]
        said = [row for row in rows if row.said]
        if said:
            parts.append(_said_table(said, lang))
    return "\n\n".join(parts) + "\n"


def _rows_table(rows: list[System], lang: str) -> str:
    texts = _texts(lang)
    head = [texts["row"], "", texts["lecture"], texts["state"], texts["check"]]
    cells = [
        [row.id, _both(row, lang), " ".join(row.lectures), texts[row.state], _proof(row, lang)]
        for row in rows
    ]
    return _table(head, cells)


def _said_table(rows: list[System], lang: str) -> str:
    texts = _texts(lang)
    cells = [
        [
            row.id,
            _quoted(saying.words),
            texts["verdicts"][saying.verdict],
            saying.figure_pt if lang == "pt" else saying.figure,
        ]
        for row in rows
        for saying in row.said
    ]
    return _table([texts["row"], texts["words"], texts["verdict"], texts["figure"]], cells)


def _proof(row: System, lang: str) -> str:
    """The check, then where the row is found, a snippet, and the tests that prove it."""
    texts = _texts(lang)
    lines = [row.check]
    if row.where:
        lines.append(f"{texts['where']}: " + ", ".join(f"`{where}`" for where in row.where))
    if row.snippet:
        lines += [f"`{line}`" for line in row.snippet.strip().splitlines()]
    if row.tests:
        lines.append(f"{texts['tests']}: " + ", ".join(f"`{test}`" for test in row.tests))
    return "<br>".join(lines)


def _both(row: System | _Lecture, lang: str) -> str:
    name, other = _names(row, lang)
    return name if name == other else f"**{name}**<br>*{other}*"


def _quoted(words: str) -> str:
    """Formulas as code, for their backslashes; sentences between the quotation marks of prose."""
    return f"`{words}`" if re.search(r"[\\$*_^&\[\]]", words) else f"«{words}»"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["-"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def write(file: Path = PAGE) -> None:
    """Puts the page at `file` whole or not at all."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(page("en"))
        os.chmod(name, 0o644)  # mkstemp's 600 would keep others from reading the page
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


if __name__ == "__main__":
    if not PAGE.parent.is_dir():
        sys.exit("docs/ is not beside this copy of atento; run this in a checkout of the sources.")
    write()
