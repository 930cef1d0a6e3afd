"""systems.toml is whole, true of the code, and what docs/systems.md was made from."""

import os
import subprocess
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from atento.lessons.systems import PAGE, System, find, listing, page, read, systems

ROOT = Path(__file__).parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"
WORKING = [row for row in systems() if row.state == "works"]
SAYINGS = [(row, saying) for row in systems() for saying in row.said]

WORKING_ROW = """
[[row]]
id = "S1"
lectures = ["000"]
pt = "Um"
en = "One"
state = "works"
check = "It is one."
object = "atento.lessons.systems:find"
tests = "tests/lessons/test_systems.py"
"""
HEAD = """
format = "atento"
version = 1
[[lecture]]
id = "000"
pt = "Aula"
en = "Lecture"
[[group]]
first = "S1"
pt = "Grupo"
en = "Group"
"""


def ids(rows: list[System]) -> list[str]:
    return [row.id for row in rows]


def spaced(text: str) -> str:
    """The text with every run of white space as one space: the slides break lines anywhere."""
    return " ".join(text.split())


@pytest.mark.parametrize(("kind", "count"), [("S", 138), ("E", 11), ("N", 17), ("C", 27), ("F", 5)])
def test_every_row_of_the_lectures_is_there_in_order(kind: str, count: int) -> None:
    found = [row.id for row in systems() if row.kind == kind]
    assert found == [f"{kind}{number}" for number in range(1, count + 1)]


def test_every_claim_has_words_and_figures_in_both_languages() -> None:
    assert {row.id for row, _ in SAYINGS} == {row.id for row in systems() if row.kind in "NC"}
    for row, saying in SAYINGS:
        wrong = saying.verdict in {"false", "wrong", "imprecise"}
        assert not wrong or saying.figure_pt != saying.figure, row.id


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the lectures' texts are not beside this checkout")
def test_quoted_words_stand_in_the_lecture() -> None:
    texts = {
        file.name[:3]: spaced(file.read_text(encoding="utf-8")) for file in SEEDS.glob("00*.txt")
    }
    for row, saying in SAYINGS:
        quoted = spaced(saying.words)
        assert any(quoted in texts[lecture] for lecture in row.lectures), (row.id, quoted)


@pytest.mark.parametrize("row", WORKING, ids=ids(WORKING))
def test_objects_of_working_rows_are_there(row: System) -> None:
    for path in row.object:
        module, _, name = path.partition(":")
        assert name, f"{path} names a module; write package.module:Name"
        assert reduce(getattr, name.split("."), import_module(module)) is not None


SHOWN = [row for row in WORKING if row.snippet]


@pytest.mark.parametrize("row", SHOWN, ids=ids(SHOWN))
def test_snippets_of_working_rows_run(row: System) -> None:
    assert len(row.snippet.strip().splitlines()) <= 3
    exec(compile(row.snippet, f"{row.id}.snippet", "exec"), {"__name__": row.id})


COMMANDS = sorted({row.command for row in WORKING if row.command})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_working_rows_run(command: str) -> None:
    program, verb, *rest = command.split()
    assert program == "atento"
    assert verb in ("lesson", "train"), "teach this test how to run other verbs"
    if verb == "train":
        rest.append("--help")  # of that recipe; the rows' own tests train it
    done = subprocess.run(
        [sys.executable, "-m", "atento", verb, *rest], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_named_tests_are_collected_by_pytest() -> None:
    named = {test for row in WORKING for test in row.tests}
    if not named:
        pytest.skip("no row works yet")
    options = ["-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider", "-m", ""]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, "tests"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        encoding="utf-8",
    )
    collected = {line.strip() for line in run.stdout.splitlines() if "::" in line}
    whole = collected | {test.partition("[")[0] for test in collected}
    assert named <= whole, f"not collected: {sorted(named - whole)}\n{run.stdout[-2000:]}"


def test_the_committed_page_is_the_generated_one() -> None:
    if not PAGE.is_file():
        pytest.skip("docs/ is not beside an installed copy")
    again = "run `python -m atento.lessons.systems`"
    assert PAGE.read_text(encoding="utf-8") == page("en"), again


def test_pages_name_every_row_in_both_languages() -> None:
    for lang in ("pt", "en"):
        text = page(lang)
        for row in systems():
            assert f"| {row.id} |" in text
            assert row.pt.replace("|", "\\|") in text
            assert row.en.replace("|", "\\|") in text


def test_every_table_line_of_the_page_has_its_heads_cells() -> None:
    cells = 0
    for line in page("en").splitlines():
        here = line.replace("\\|", "").count("|")
        assert not cells or not here or here == cells, line
        cells = here


def test_find_ignores_case_and_accents() -> None:
    assert [row.id for row in find("MASCARA CAUSAL")] == ["S31", "C22"]
    assert [row.id for row in find("máscara causal")] == ["S31", "C22"]
    assert [row.id for row in find("s29")] == ["S29"]
    assert "S31" in [row.id for row in find("causal mask")]
    assert [row.id for row in find("sobreajuste")] == ["C27"]
    assert {row.id for row in find("004")} >= {"S34", "C12", "F5"}
    assert find("") == systems()
    assert find("xyzzy") == ()


def test_listing_speaks_both_languages() -> None:
    assert "Normalização de camada (LayerNorm) com γ e β" in listing("pt", "S44")
    assert "LayerNorm with γ and β" in listing("en", "S44")
    assert "false" in listing("en", "C12")
    assert "falso" in listing("pt", "C12")
    assert "xyzzy" in listing("pt", "xyzzy")
    for row in systems():
        assert f"  {row.id} " in listing("pt")
    with pytest.raises(ValueError, match="'fr'"):
        listing("fr")


def test_listing_imports_no_torch() -> None:
    code = (
        "import sys; from atento.lessons.systems import listing; listing('pt'); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (WORKING_ROW + 'colour = "red"\n', "row S1: unknown key 'colour'"),
        (WORKING_ROW.replace('en = "One"\n', ""), "row S1: the key 'en' is missing"),
        (WORKING_ROW + WORKING_ROW, "the id S1 stands more than once"),
        (WORKING_ROW.replace('"works"', '"done"'), "row S1: state = 'done'; expected planned or"),
        (WORKING_ROW.replace('id = "S1"', 'id = "X1"'), "row X1: an id is S, E, N, C or F"),
        (WORKING_ROW.replace('["000"]', '["007"]'), "row S1: no lecture '007'"),
        (WORKING_ROW.replace("object", "#"), "row S1: works, so it needs tests"),
        (WORKING_ROW.replace("tests =", "#"), "row S1: works, so it needs tests"),
        (WORKING_ROW.replace('check = "It is one."', "check = 1"), "row S1: check = 1"),
        (WORKING_ROW.replace('["000"]', "[]"), r"row S1: lectures = \[\]"),
        (WORKING_ROW.replace("S1", "C1"), "row C1: a number or a claim needs the lecture's words"),
        (WORKING_ROW.replace("S1", "S2"), "the group 'Group' begins at S1, not a row"),
    ],
)
def test_a_wrong_file_is_refused_with_the_row_and_the_key(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "systems.toml"
    file.write_text(HEAD + text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read(file)


def test_a_right_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "systems.toml"
    file.write_text(HEAD + WORKING_ROW, encoding="utf-8")
    (row,) = read(file).rows
    assert row.object == row.where == ("atento.lessons.systems:find",)
    assert row.tests == ("tests/lessons/test_systems.py",)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "systems.toml"
    file.write_text(HEAD.replace("version = 1", "version = 2"), encoding="utf-8")
    with pytest.raises(ValueError, match="version = 1"):
        read(file)
