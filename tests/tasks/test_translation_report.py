"""The page of a run of pairs."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

import atento
from tasks.test_translation import train


@pytest.mark.parametrize("lang", ["pt", "en"])
def test_the_page_shows_a_translation_and_its_alignment(lang: str, tmp_path: Path) -> None:
    run = train(tmp_path / "run", **{"model.attention": "additive"})
    page = run.report(lang).read_text(encoding="utf-8")
    line = str(run.metrics[-1]["sample"]).split("\n")[0]
    made = run.translate(line)[0][0]
    assert f"{line}\n→ {made.text}" in page
    drawn = page[page.index('class="heatmap squares"') :]
    drawn = drawn[: drawn.index("</svg>")]
    assert drawn.count("<rect") == (len(made.pieces) + 1) * (len(line) + 1)
    best = min(float(record["val_loss"]) for record in run.metrics)
    written = f"{best:.4f}"
    assert (written.replace(".", ",") if lang == "pt" else written) in page
    for part in ("frases.tsv", "recurrent", "additive"):
        assert part in page
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])


def test_a_model_that_does_not_look_back_says_so(tmp_path: Path) -> None:
    run = train(tmp_path / "run", **{"model.attention": "none"})
    page = run.report("en").read_text(encoding="utf-8")
    assert "does not look back" in page
    assert "heatmap squares" not in page
    assert "does not look back" in run._repr_html_() or "não olha" in run._repr_html_()


def test_the_report_verb_writes_it_again(tmp_path: Path) -> None:
    from atento.cli import main

    train(tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    assert main(["report", str(tmp_path / "run"), "--lang", "en"]) == 0
    assert "Alignment" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8") or (
        atento.load(tmp_path / "run").config.attention == "none"
    )
    assert main(["report", str(tmp_path / "run"), "--svg", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
