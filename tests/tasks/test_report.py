"""A run's page holds what was asked and what came of it, in both languages, whatever the text."""

import json
import math
import re
import shutil
import string
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from atento.errors import UserError
from atento.tasks import Run, load, train
from atento.tasks.report import Report, shown
from atento.tasks.texts import table
from tasks.books import OPTIONS, recipe

HOSTILE = [
    "</pre><script>alert('x')</script> & \"quotes\" <b>bold</b>",
    "\u202eright to left\u202c שלום مرحبا",
    "emoji 👩\u200d🚀🍕 and a" + "very" * 40 + "longword",
    "control \x01\x1b[31m\x7f characters {braces} %s \\n",
]


class Reader(HTMLParser):
    """What a page shows, by the class of what it stands in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text, self.open = "", [""]
        self.by_class: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        kind = dict(attrs).get("class") or tag
        self.open.append(kind)
        self.by_class.setdefault(kind, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        for kind in set(self.open[1:]):
            self.by_class[kind][-1] += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("report")
    return train(recipe(folder), out=folder / "run", quiet=True)


def read(run: Run, lang: str) -> Reader:
    return Reader(Report(run, lang).page())


def written(value: float, digits: int, lang: str) -> str:
    text = f"{value:,.{digits}f}"
    return text if lang == "en" else text.replace(",", ";").replace(".", ",").replace(";", ".")


@pytest.mark.parametrize("lang", ["pt", "en"])
def test_the_page_has_what_was_asked_and_what_came_of_it(run: Run, lang: str) -> None:
    page = read(run, lang)
    asked, answer = page.by_class["asked"][0], page.by_class["answer"][0]
    parameters = sum(p.numel() for p in run.model.parameters())
    for part in ("livro.txt", written(parameters, 0, lang), "2", "16", "8"):
        assert part in asked
    best = min(run.metrics, key=lambda record: record["val_loss"])
    counted = json.loads((run.folder / "env.json").read_text("utf-8"))["data"]["baselines"]
    bits = best["val_loss"] / math.log(2)
    assert str(best["step"]) in answer
    for value, digits in ((best["val_loss"], 3), (bits, 2), (counted["bigram"], 3)):
        assert written(value, digits, lang) in answer
    names = {"uniform", "unigram", "bigram", "trigram"} if lang == "en" else {"uniforme", "bigrama"}
    for name in names:
        assert re.search(rf"{name} \d[.,]\d{{3}}", page.text)
    assert page.text.count("val") > 2
    head, before = page.text.split(asked)[1], page.text.split(asked)[0]
    assert answer in head
    assert "livro.txt" in before, "the title says it too"
    assert str(run.folder.parent) not in before + asked, "and without its folders"
    for value in run.recipe.flat().values():
        assert str(value) in page.text
    for name in ("torch", "python", "system", "device"):
        assert name in page.text


def test_the_map_is_a_validation_sentences_and_its_axes_are_tokens(run: Run) -> None:
    (picture,) = re.findall(
        r'<svg[^>]*class="heatmap squares">.*?</svg>', Report(run, "en").page(), re.DOTALL
    )
    letters = re.findall(r'class="label">(.*?)</text>', picture)
    sentence = json.loads((run.folder / "env.json").read_text("utf-8"))["data"]["sentence"]
    shown = sentence[:8].replace(" ", "␣")
    assert letters == list(shown) * 2, "the context is 8"
    text = (run.folder.parent / "livro.txt").read_text(encoding="utf-8")
    assert sentence in text[len(text) * 9 // 10 - 1 :]
    coloured = len(re.findall(r"<rect[^>]*fill=", picture))
    assert coloured == 8 * 9 // 2, "what may not be looked at has no colour"


def test_samples_over_time_are_those_of_the_records(run: Run) -> None:
    page = read(run, "en")
    said = [record["sample"] for record in run.metrics]
    assert len(set(said)) == 3
    rows = page.by_class["sample"]
    assert rows[1:] == said
    assert len(rows[0]) == 200


def test_what_it_says_is_kept_and_touches_no_generator(run: Run, tmp_path: Path) -> None:
    again = train(run.recipe, out=tmp_path / "again", quiet=True)
    assert [r["sample"] for r in again.metrics] == [r["sample"] for r in run.metrics]
    silent = [dict(record) for record in run.metrics]
    assert all(len(record["sample"]) == 60 for record in silent)
    state = torch.get_rng_state()
    run.report()
    assert torch.equal(torch.get_rng_state(), state)


def test_training_writes_the_page_and_reports_write_it_again(run: Run) -> None:
    file = run.folder / "report.html"
    first = file.read_bytes()
    start = time.perf_counter()
    assert run.report() == file
    assert time.perf_counter() - start < 10
    assert file.read_bytes() == first
    assert len(first) < 500_000
    assert run.report("pt") == file
    assert b'<html lang="pt">' in file.read_bytes()
    file.write_bytes(first)
    with pytest.raises(UserError, match="lang must be one of pt, en; got 'fr'"):
        run.report("fr")


def test_it_needs_the_run_folder_alone(run: Run, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(run.folder, moved, ignore=shutil.ignore_patterns("checkpoint", "report.html"))
    page = load(moved).report("en").read_text("utf-8")
    assert page == Report(run, "en").page()


def test_a_run_of_before_there_were_reports_has_a_page_too(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(run.folder, old, ignore=shutil.ignore_patterns("checkpoint"))
    environment = json.loads((old / "env.json").read_text("utf-8"))
    del environment["data"]
    (old / "env.json").write_text(json.dumps(environment), encoding="utf-8")
    records = [{k: v for k, v in r.items() if k != "sample"} for r in run.metrics]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (old / "metrics.jsonl").write_text(lines, encoding="utf-8")
    page = read(load(old), "en")
    assert "kept no sentence" in page.text
    assert "trigram" not in page.text
    (old / "recipe.toml").unlink()
    with pytest.raises(UserError, match=r"no recipe\.toml"):
        load(old).report()


def test_in_a_notebook_a_run_is_one_fragment_that_asks_for_nothing(run: Run) -> None:
    for html in (run._repr_html_(), shown(run, "pt")):
        page = Reader(html)
        assert html.startswith('<div class="atento" lang="')
        assert page.open == [""], "every element is closed"
        assert page.tags[0] == "div"
        assert not {"html", "body", "script", "link", "iframe", "img", "meta"} & set(page.tags)
        assert not re.search(r"https?:|src=|href=|@import|url\(|\bon\w+=", html)
        for part in ("asked", "answer", "curves wide", "sample", "heatmap squares"):
            assert part in page.by_class


@pytest.mark.parametrize("attention", ["dot", "none"])
def test_a_hostile_text_is_shown_as_text(attention: str, tmp_path: Path) -> None:
    file = tmp_path / "a<b>&'\"{x} %s.txt"
    file.write_text("\n".join(HOSTILE * 30), encoding="utf-8")
    options = OPTIONS | {"source": str(file), "attention": attention, "steps": 3}
    done = train("text", out=tmp_path / "run", quiet=True, **options)
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    seen = Reader(page)
    assert not {"script", "b", "a"} & set(seen.tags)
    assert file.name in seen.by_class["asked"][0]
    assert "\x01" not in page
    assert "\x1b" not in page
    assert ("heatmap squares" in seen.by_class) == (attention != "none")
    assert done.metrics


TEXTS = [(name, key, parts) for name, keys in table().items() for key, parts in keys.items()]


@pytest.mark.parametrize(("name", "key", "parts"), TEXTS, ids=[f"{n}.{k}" for n, k, _ in TEXTS])
def test_each_text_is_whole_in_both_languages(
    name: str, key: str, parts: dict[str, dict[str, str]]
) -> None:
    def places(words: str) -> set[str]:
        return {place for _, place, _, _ in string.Formatter().parse(words) if place}

    assert parts.keys() == {"pt", "en"}
    assert parts["pt"].keys() == parts["en"].keys()
    for part, words in parts["pt"].items():
        assert words.strip()
        assert places(words) == places(parts["en"][part])


def test_an_encoder_has_a_page_too(tmp_path: Path) -> None:
    options = {"kind": "encoder", "mask": "Full()", "steps": 6, "evaluate_every": 3}
    done = train(recipe(tmp_path).with_options(options), out=tmp_path / "run", quiet=True)
    page = Reader((tmp_path / "run" / "report.html").read_text("utf-8"))
    holed, full = page.by_class["sample"][0].split("\n", 1)
    assert "▁" in holed
    assert len(full) == len(holed)
    kept = [(a, b) for a, b in zip(holed, full, strict=True) if a != "▁"]
    assert all(a == b for a, b in kept)
    assert "hidden" in page.by_class["answer"][0] or "escondido" in page.by_class["answer"][0]
    assert "heatmap squares" in page.by_class
    assert done.metrics[0]["sample"].startswith(holed)
