"""Recipes beside each other: the same data, nothing trained twice, and what differs is marked."""

import json
import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

import atento
from atento.errors import UserError
from atento.tasks import Comparison, Recipe, Run, compare, load, train
from atento.tasks.comparison import load_comparison
from atento.training.loop import read_metrics
from tasks.books import OPTIONS, book, recipe
from tasks.test_report import Reader


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def made(home: Path) -> Comparison:
    """With and without attention, two seeds each."""
    options = OPTIONS | {"source": str(book(home)), "steps": 12, "evaluate_every": 6, "seed": 5}
    without = home / "without.toml"
    recipe = Recipe.read("text").with_options({"attention": "none", "source": "book"})
    without.write_text(recipe.to_toml(), encoding="utf-8")
    return compare("text", str(without), seeds=2, out=home / "out", quiet=True, **options)


def test_each_recipe_is_trained_with_each_seed_under_the_same_options(made: Comparison) -> None:
    assert [(g.name, [r.folder.name for r in g.runs]) for g in made.groups] == [
        ("text", ["text-5", "text-6"]),
        ("without", ["without-5", "without-6"]),
    ]
    for group, attention in zip(made.groups, ("dot", "none"), strict=True):
        for n, run in enumerate(group.runs):
            assert run.recipe.model.attention == attention
            assert run.recipe.train.seed == 5 + n
            assert run.recipe.train.steps == 12
    flat = [run.recipe.flat() for group in made.groups for run in group.runs]
    same = {k for k in flat[0] if len({str(f[k]) for f in flat}) == 1}
    assert flat[0].keys() - same == {"model.attention", "train.seed"}


def test_the_table_is_what_the_metrics_say(made: Comparison) -> None:
    rows = {row.name: row for row in made.table}
    assert list(rows) == ["text", "without", "uniform", "unigram", "bigram", "trigram"]
    means = []
    for name in ("text", "without"):
        each = [read_metrics(made.folder / f"{name}-{seed}") for seed in (5, 6)]
        losses = [min(record["val_loss"] for record in records) for records in each]
        row = rows[name]
        assert row.val_loss == pytest.approx(sum(losses) / 2)
        assert row.deviation == pytest.approx(abs(losses[0] - losses[1]) / math.sqrt(2))
        assert row.bits_per_character == pytest.approx(row.val_loss / math.log(2))
        assert row.tokens == 12 * 5 * 8
        seconds = [records[-1]["seconds"] for records in each]
        assert row.seconds == pytest.approx(statistics.fmean(seconds))
        means.append(row.val_loss)
    assert rows["text"].difference is None
    assert rows["without"].difference == pytest.approx(means[1] - means[0])
    assert rows["without"].parameters < rows["text"].parameters
    assert rows["uniform"].parameters is None
    difference = re.escape(f"{means[1] - means[0]:+.4f}")
    assert re.search(rf"without .*{means[1]:.4f} ± .*{difference}", repr(made))


def test_the_page_shows_every_recipe_and_asks_for_nothing(made: Comparison) -> None:
    for lang in ("pt", "en"):
        text = made.report(lang).read_text("utf-8")
        page = Reader(text)
        assert not {"script", "img", "link", "iframe"} & set(page.tags)
        for name in ("text", "without"):
            assert name in page.by_class["answer"][0]
            assert re.search(rf"{name} \d[.,]\d{{3}}", page.by_class["curves wide"][0])
        assert len(page.by_class["sample"]) == 2
        assert "warning" not in page.by_class
        assert len(text) < 500_000
    fragment = made._repr_html_()
    assert Reader(fragment).open == [""]
    assert not re.search(r"https?:|src=|href=|@import|url\(|\bon\w+=", fragment)


def test_what_is_written_is_read_back(made: Comparison) -> None:
    content = json.loads((made.folder / "compare.json").read_text("utf-8"))
    assert (content["format"], content["version"]) == ("atento", 1)
    assert content["runs"]["text"] == ["text-5", "text-6"]
    assert content["table"][0]["val_loss"] == made.table[0].val_loss
    again = load_comparison(made.folder)
    assert again.table == made.table
    assert again.flat()["without.val_loss"] == made.table[1].val_loss
    assert again.flat()["same_conditions"] is True


def test_what_is_trained_is_not_trained_again(
    made: Comparison, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [*made.folder.glob("*/model.safetensors"), *made.folder.glob("*/metrics.jsonl")]
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}
    options = OPTIONS | {"source": home / "livro.txt", "steps": 12, "evaluate_every": 6, "seed": 5}
    recipes = ("text", home / "without.toml")
    again = compare(*recipes, seeds=2, out=made.folder, **options)
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files} == before
    assert again.table == made.table
    said = capsys.readouterr().out
    assert said.count("trained already") == 4
    assert "step " not in said
    with pytest.raises(UserError, match=r"--train\.rate must stay 0\.01"):
        compare(*recipes, seeds=2, out=made.folder, **options | {"rate": 0.5})
    with pytest.raises(UserError, match="got one run, whose seed is what it is"):
        compare(made.folder / "text-5", seeds=2, quiet=True)


def test_an_interrupted_comparison_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from atento.tasks.language import Language

    one, two = recipe(tmp_path), recipe(tmp_path).with_options({"attention": "none"})
    straight = compare(one, two, out=tmp_path / "straight", quiet=True, steps=12)
    judged = Language.evaluate
    calls = []

    def stopped(self: Language) -> dict[str, float]:
        calls.append(1)
        if len(calls) == 4:  # in the second run, after its checkpoint of step 6
            raise KeyboardInterrupt
        return judged(self)

    monkeypatch.setattr(Language, "evaluate", stopped)
    with pytest.raises(KeyboardInterrupt):
        compare(one, two, out=tmp_path / "out", steps=12)
    assert "--out" in capsys.readouterr().out.splitlines()[-1]
    assert not (tmp_path / "out" / "compare.html").exists()
    monkeypatch.setattr(Language, "evaluate", judged)
    first = (tmp_path / "out" / "recipe-1-0" / "model.safetensors").stat().st_mtime_ns
    went_on = compare(one, two, out=tmp_path / "out", quiet=True, steps=12)
    assert (tmp_path / "out" / "recipe-1-0" / "model.safetensors").stat().st_mtime_ns == first
    assert [r.val_loss for r in went_on.table] == [r.val_loss for r in straight.table]
    assert (tmp_path / "out" / "compare.html").is_file()


def test_what_is_not_the_same_is_marked(made: Comparison, tmp_path: Path, home: Path) -> None:
    longer = train(
        "text", out=tmp_path / "longer", quiet=True, **OPTIONS, source=home / "livro.txt"
    )
    found = compare(made.groups[0].runs[0].folder, longer, out=tmp_path / "out", quiet=True)
    assert found.differs == {"tokens": {"text-5": "480", "longer": "920"}}
    assert found.comparable
    assert found.table[1].difference is not None
    page = Reader((tmp_path / "out" / "compare.html").read_text("utf-8"))
    assert "480" in page.by_class["warning"][0]
    (tmp_path / "b.txt").write_text("ab" * 300, encoding="utf-8")
    other = train("text", out=tmp_path / "b", quiet=True, **OPTIONS, source=tmp_path / "b.txt")
    found = compare(longer, other, out=tmp_path / "out2", quiet=True)
    assert found.differs.keys() == {"source", "tokenizer"}
    assert not found.comparable
    assert found.table[1].difference is None
    assert len(found.table) == 2, "what counting reaches is not the same for both"
    assert "Not the same for all, source" in repr(found)


def test_bits_are_for_each_character_whatever_the_tokens(tmp_path: Path) -> None:
    text = recipe(tmp_path)
    pieces = text.with_options({"tokenizer": "bpe", "vocabulary_size": 270})
    found = compare(text, pieces, out=tmp_path / "out", quiet=True, steps=4)
    assert found.differs.keys() == {"tokenizer"}
    row, data = found.table[1], found.groups[1].runs[0].data
    assert data["validation_characters"] > data["validation_tokens"]
    shorter = data["validation_tokens"] / data["validation_characters"]
    assert row.bits_per_character == pytest.approx(row.val_loss / math.log(2) * shorter)
    alone = load(found.groups[1].runs[0].folder).evaluate()
    assert alone["bits_per_character"] == pytest.approx(row.bits_per_character, rel=1e-5)
    assert alone["bits_per_token"] == pytest.approx(row.val_loss / math.log(2), rel=1e-5)


def test_mistakes_are_said_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = recipe(tmp_path)
    (tmp_path / "other.txt").write_text("ab" * 300, encoding="utf-8")
    other = text.with_options({"source": "other.txt"})
    (tmp_path / "plain").touch()
    before = sorted(tmp_path.rglob("*"))
    piped = replace(text, data=replace(text.data, source="-"))
    for recipes, given, says in (
        ((), {}, "two or more recipes"),
        ((text,), {}, "two or more recipes"),
        ((text, text), {"seeds": 0}, "seeds must be between"),
        ((text, other), {}, r"data\.source must be the same"),
        ((text, "txet"), {}, "Did you mean 'text'"),
        ((text, text), {"stepz": 4}, "Did you mean 'steps'"),
        ((text, text), {"out": "plain"}, "out must be a folder"),
        ((piped, piped), {}, "read only once"),
    ):
        with pytest.raises(UserError, match=says) as caught:
            compare(*recipes, quiet=True, **given)
        assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_python_session_of_the_design_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    book(tmp_path)
    small = {k: v for k, v in OPTIONS.items() if k != "steps"}
    run = atento.train("text", source="livro.txt", steps=5, **small)
    assert run.sample("Era uma vez").startswith("Era uma vez")
    assert run.evaluate()["val_loss"] > 0
    assert run.report() == Path("runs/text-1/report.html")
    assert run.report().is_file()
    assert run.metrics[-1]["step"] == 5
    assert run.model.training is False
    again = atento.load("runs/text-1")
    assert isinstance(again, Run)
    assert again.sample("Era", seed=1) == run.sample("Era", seed=1)
    found = atento.compare("text", seeds=2, source="livro.txt", steps=3, quiet=True, **small)
    assert found.folder == Path("runs/compare-1")
    for shown in (run, again, found):
        html = shown._repr_html_()
        assert html.startswith('<div class="atento"')
        assert html.endswith("</div>")
        assert "<svg" in html
