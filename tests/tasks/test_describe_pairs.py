"""A model of pairs is described without being trained."""

import json
from pathlib import Path

import pytest

from atento.cli import main
from atento.tasks.describe_pairs import described_pairs
from tasks.test_translation import train


def test_the_parts_make_the_whole(tmp_path: Path) -> None:
    run = train(tmp_path / "run", **{"model.attention": "additive"})
    made = described_pairs(str(tmp_path / "run"), {})
    total = sum(p.numel() for p in run.model.parameters())
    assert made.parameters.total == made.beside["additive"] == total
    assert made.beside["none"] < made.beside["dot"] < total
    assert not made.formats


def test_every_way_to_write_a_date_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "dates-bahdanau"]) == 0
    out = capsys.readouterr().out
    for text in ("5 de março de 2021", "March 5th, 2021", "05/03/21", "sexta-feira, 05/03/2021"):
        assert f"\n  {text}\n" in out
    assert main(["describe", "dates-bahdanau", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["formats"] >= 200
