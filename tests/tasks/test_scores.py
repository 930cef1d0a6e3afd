"""Scores of a split: sacreBLEU's own, and intervals that are what they say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import atento
from atento.cli import main
from atento.errors import UserError
from atento.tasks.scores import interval, scores
from tasks.test_translation import train

sacrebleu = pytest.importorskip("sacrebleu")  # of the extra metrics


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return train(tmp_path_factory.mktemp("scores") / "run", **{"model.attention": "dot"})


def test_scores_are_sacrebleus_own(run) -> None:
    found = scores(run, "validation", 2)
    pairs = run.pairs()
    said = [made[0].text for made in run.translate([s for s, _ in pairs], 2)]
    wanted = [target for _, target in pairs]
    assert found.bleu.value == pytest.approx(sacrebleu.corpus_bleu(said, [wanted]).score)
    assert found.chrf.value == pytest.approx(sacrebleu.corpus_chrf(said, [wanted]).score)
    same = sum(a == b for a, b in zip(said, wanted, strict=True)) / len(pairs)
    assert found.exact_match.value == same
    assert "tok:13a" in found.bleu_signature
    assert "case:mixed" in found.bleu_signature
    assert "chrF2" in found.chrf_signature or "nc:6" in found.chrf_signature
    assert found.bleu.low <= found.bleu.value <= found.bleu.high
    assert sum(count for count, _ in found.by_length.values()) == len(pairs)
    assert found.loss == min(record["val_loss"] for record in run.metrics)


def test_cut_text_is_scored_as_it_stands(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atento.tasks.scores._is_cut", lambda name: True)
    found = scores(run, "validation", 1)
    assert "tok:none" in found.bleu_signature
    assert "tok:13a" in found.bleu_cased_signature


def test_the_interval_of_a_share_is_that_of_the_binomial() -> None:
    rows = np.zeros((400, 1))
    rows[:100] = 1.0
    found = interval(rows, lambda summed: float(summed[0]) / 400)
    spread = 1.96 * (0.25 * 0.75 / 400) ** 0.5
    assert found.value == 0.25
    assert found.low == pytest.approx(0.25 - spread, abs=0.006)
    assert found.high == pytest.approx(0.25 + spread, abs=0.006)


def test_eval_prints_one_flat_object(run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run.folder), "--json", "--beam", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    for name in ("val_loss", "exact_match", "bleu", "bleu_signature", "chrf", "bleu_low"):
        assert name in found
    assert all(not isinstance(value, dict | list) for value in found.values())


def test_without_sacrebleu_the_rest_is_there_and_how_to_get_it(
    run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    assert main(["eval", str(run.folder), "--beam", "1"]) == 0
    said = capsys.readouterr().out
    assert "val_loss" in said
    assert "exact_match" in said
    assert "pip install 'atento[metrics]'" in said
    assert "chrf " not in said


def test_a_split_that_is_not_there_is_one_sentence(run) -> None:
    with pytest.raises(UserError, match="has no test pairs"):
        scores(run, "test", 1)


def test_pairs_that_changed_are_refused(tmp_path: Path) -> None:
    held = train(tmp_path / "run")
    file = tmp_path / "frases.tsv"
    file.write_text(file.read_text(encoding="utf-8") + "um\tUM\n", encoding="utf-8")
    with pytest.raises(UserError, match="its content has changed since"):
        atento.load(held.folder).evaluate()
