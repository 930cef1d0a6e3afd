"""Each `Claim:` in a docstring, a README or a page names a test or a record that exists."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CLAIM = re.compile(r"\bClaim:[ \t]*(.*)")
TARGET = re.compile(r"[\w./-]+\.(?:py|jsonl?|md|toml)(?:::[\w.-]+)?")
WHERE = ("src/**/*.py", "src/**/*.toml", "bench/*.py", "README*.md", "docs/**/*.md", "web/**/*.ts")


def claims() -> Iterator[tuple[str, str]]:
    """Each claim as (file:line, what it names)."""
    for pattern in WHERE:
        for file in sorted(ROOT.glob(pattern)):
            if "node_modules" in file.parts:
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if found := CLAIM.search(line):
                    where = f"{file.relative_to(ROOT).as_posix()}:{number}"
                    targets = TARGET.findall(found[1]) or [found[1]]
                    yield from ((where, target) for target in targets)


def complaint(target: str, root: Path = ROOT) -> str | None:
    """Why a claim's target does not hold, or None."""
    path, _, name = target.partition("::")
    files = [file for file in (root / path, root / "tests" / path) if file.is_file()]
    files = files or sorted((root / "tests").rglob(path)) if path else []
    if not files:
        return f"no file {path!r} at the root or under tests/"
    if len(files) > 1:
        return f"{path!r} could be any of {', '.join(str(f.relative_to(root)) for f in files)}"
    if name and name not in _names(files[0]):
        return f"{path} has no {name!r}"
    if not name and files[0].suffix == ".py":
        return f"name the test: {path}::test_…"
    return None


@cache
def _names(file: Path) -> frozenset[str]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        nodes = ast.walk(ast.parse(text))
        return frozenset(n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef))
    if file.suffix == ".json":
        record = json.loads(text)
        return frozenset(record) if isinstance(record, dict) else frozenset()
    return frozenset(re.findall(r"[\w.-]+", text))


def test_every_claim_names_what_shows_it() -> None:
    complaints = [f"{where}: {why}" for where, target in claims() if (why := complaint(target))]
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("test_none.py::test_x", "no file"),
        ("test_claims.py::test_none", "has no 'test_none'"),
        ("test_claims.py", "name the test"),
        ("", "no file"),
    ],
)
def test_an_empty_claim_is_named(target: str, says: str) -> None:
    assert says in (complaint(target) or "")


def test_a_good_claim_passes() -> None:
    assert complaint("test_claims.py::test_a_good_claim_passes") is None
