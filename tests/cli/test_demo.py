"""`atento demo` trains on what is already here, and says what it did and what comes next."""

import math
import re
from pathlib import Path

import pytest

from atento.cli import main
from atento.data import sets


@pytest.mark.parametrize(
    ("lang", "says"),
    [
        ("en", ["is not installed", "uniform guess", "What next"]),
        ("pt", ["não está instalada", "palpite uniforme", "E agora"]),
    ],
)
def test_the_demo_trains_speaks_and_points_on(
    lang: str,
    says: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sets, "installed", lambda name: False)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--steps", "3", "--lang", lang]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(words in out for words in says)
    size, uniform = re.search(r"ln (\d+) = (\d\.\d+)", out).groups()
    assert float(uniform) == pytest.approx(math.log(int(size)), abs=1e-3)
    assert len(re.findall(r"^  atento \w+", out, re.M)) == 3
    assert (tmp_path / "runs" / "demo-1" / "model.safetensors").is_file()
