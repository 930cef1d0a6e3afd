"""Both READMEs run as they stand, say the same, and promise nothing that is not there."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import atento
from atento.cli import VERBS
from atento.tasks.recipe import named_recipes, options

ROOT = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.pt-BR.md")
FRONT = (*READMES, "CONTRIBUTING.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMENT = re.compile(r"[ \t]+# .*$", re.MULTILINE)

# Each figure of the page, and where its record has it. Records are made anew on other days and
# machines, so a figure may be off by a quarter; more, and the page is to be written anew.
MEASURED = {
    ("window_cpu", "8.0 ×"): ("float32 times faster than sdpa",),
    ("window_cpu", "5.2 ×"): ("bfloat16 times faster than sdpa",),
    ("window_cpu", "37 MB"): ("peak MB beyond q, k, v", "4096"),
    ("window_cpu", "138 MB"): ("peak MB beyond q, k, v", "16384"),
    ("block_mask_cpu", "63 ×"): ("causal", "times faster"),
    ("block_mask_cpu", "114 ×"): ("window", "times faster"),
    ("lengths_cpu", "2 recomp"): ("recompiles",),
    ("lengths_cpu", "0 "): ("graph breaks",),
    ("door_cpu", "1.08 ×"): ("ratio no mask",),
    ("door_cpu", "1.08 × "): ("ratio causal",),
    ("door_cpu", "3.5 ×"): ("ratio window, beside the same dense mask",),
    ("step_cpu", "1.24 ×"): ("times as fast", "transformers"),
    ("step_cpu", "1.23 ×"): ("times as fast", "torch.nn"),
    ("run_cpu", "27.5 s"): ("median of seconds",),
    ("stream_cpu", "1.03 ×"): ("peak, large / small",),
}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[tuple[str, str]]:
    """Each fenced block as (language, text)."""
    return BLOCK.findall(read(name))


def prose(name: str) -> str:
    return BLOCK.sub("", read(name))


def commands(name: str) -> Iterator[list[str]]:
    """Each command that a page names, in a shell block or between backticks, as words."""
    for language, text in blocks(name):
        if language == "sh":
            yield from (line.split() for line in COMMENT.sub("", text).splitlines())
    yield from (span.split() for span in SPAN.findall(prose(name)))


def without_comments(language: str, text: str) -> str:
    if language == "python":
        return ast.dump(ast.parse(text))
    return COMMENT.sub("", text) if language == "sh" else text


@pytest.mark.parametrize("name", READMES)
def test_code_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    if name != READMES[0] and same_code():
        return  # what ran once need not run again
    script = "\n".join(text for language, text in blocks(name) if language == "python")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        # As the command line does: threads that spin hold up everything on a busy machine.
        env=os.environ | {"PYTHONUTF8": "1", "GOMP_SPINCOUNT": "1000"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rows = re.findall(r"^(.) ([·░▒▓█]{15})$", run.stdout, re.MULTILINE)
    assert "".join(letter for letter, _ in rows) == "The function is"
    assert all("█" not in row[n + 1 :] for n, (_, row) in enumerate(rows)), "it hears the future"
    whole, without = re.findall(r"^(\d\.\d+)$", run.stdout, re.MULTILINE)
    assert float(without) > float(whole), "the page says that a head less is worse"
    explained = next(text for _, text in blocks(name) if "preferred here" in text)
    if "not varlen: its kernel is for CUDA" in run.stdout:
        assert explained in run.stdout


def same_code() -> bool:
    one, other = ([without_comments(*block) for block in blocks(name)] for name in READMES)
    return one == other


def test_both_languages_have_the_same_code() -> None:
    assert same_code()
    assert [language for language, _ in blocks(READMES[0])].count("python") >= 5


@pytest.mark.parametrize(
    "found",
    [
        lambda text: [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)],
        lambda text: sorted(set(LINK.findall(text)) - set(READMES)),
        lambda text: re.findall(r"Claim: (\S+)", text),
        lambda text: [line.count("|") for line in text.splitlines() if line.startswith("|")],
    ],
    ids=["sections", "links", "claims", "tables"],
)
def test_both_languages_say_the_same(found: Callable[[str], list[object]]) -> None:
    one, other = (found(prose(name)) for name in READMES)
    assert one == other
    assert one


@pytest.mark.parametrize("name", FRONT)
def test_links_lead_somewhere(name: str) -> None:
    missing = [to for to in LINK.findall(read(name)) if not (ROOT / to.partition("#")[0]).exists()]
    assert not missing


@pytest.mark.parametrize("name", FRONT)
def test_commands_exist(name: str) -> None:
    targets = re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE)
    known = {option.dotted for option in options()}
    named = set()
    for words in commands(name):
        match words:
            case ["make", *rest]:
                assert not [target for target in rest if target not in targets], words
            case ["atento", verb, *rest] | [_, "-m", "atento", verb, *rest]:
                assert verb in VERBS, words
                named.add(verb)
                if verb == "train":
                    assert rest[0] in named_recipes(), words
            case _:
                rest = words
        dotted = [word[2:] for word in rest if word.startswith("--") and "." in word]
        assert not [option for option in dotted if option not in known], words
    assert name not in READMES or named >= {"demo", "train", "sample", "lesson"}


@pytest.mark.parametrize("name", READMES)
def test_every_name_of_the_door_exists(name: str) -> None:
    spans = " ".join(SPAN.findall(prose(name)))
    named = set(re.findall(r"\b[A-Z][a-z]+[A-Za-z0-9]*\b", spans)) - {"Era", "CUDA", "Ctrl"}
    assert named >= {"Causal", "Window", "Documents", "Dot", "Alibi", "GrowingCache"}
    assert not sorted(n for n in named if not hasattr(atento, n))


@pytest.mark.parametrize("name", READMES)
def test_every_mask_is_in_the_table(name: str) -> None:
    from atento.core.compose import Mask

    table = " ".join(line for line in prose(name).splitlines() if line.startswith("|"))
    masks = [n for n in dir(atento) if n[0].isupper() and is_mask(getattr(atento, n), Mask)]
    assert len(masks) > 10
    assert not [mask for mask in masks if f"`{mask}(" not in table]


def is_mask(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


@pytest.mark.parametrize("name", READMES)
@pytest.mark.parametrize(("record", "figure"), MEASURED)
def test_figures_are_those_of_the_records(name: str, record: str, figure: str) -> None:
    value = json.loads(read(f"bench/records/{record}.json"))
    for key in MEASURED[record, figure]:
        value = value[key]
    rows = [line for line in read(name).splitlines() if f"(bench/records/{record}.json)" in line]
    page = " ".join(rows)
    page = re.sub(r"(\d),(\d{1,2})\b", r"\1.\2", page)  # Portuguese writes 8,0
    assert figure in page, page
    stated = float(figure.split()[0])
    assert abs(value - stated) <= 0.25 * stated, f"the record has {value}; the page {figure}"


@pytest.mark.parametrize("name", READMES)
def test_every_figure_measured_carries_its_claim(name: str) -> None:
    for line in read(name).splitlines():
        if "](bench/records/" in line:
            (record,) = re.findall(r"\]\((bench/records/\w+\.json)\)", line)
            assert f"<!-- Claim: {record} -->" in line
