"""A lesson's page in a real browser: it renders, and asks for nothing outside of itself."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from browser import COMPLAINTS, chromium

pytestmark = pytest.mark.web
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["pizza", "multi-head"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    argv = [sys.executable, "-m", "atento", "lesson", request.param, "--html", str(file)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    subprocess.run([*argv, "--lang", "pt"], env=environment, check=True, timeout=120)
    return file


def test_the_page_is_shown_and_breaks_no_policy(page: Path, tmp_path: Path) -> None:
    done = chromium(tmp_path, "--enable-logging=stderr", "--dump-dom", page.as_uri())
    assert done.returncode == 0, done.stderr
    assert "<svg" in done.stdout
    assert 'lang="pt' in done.stdout
    for complaint in COMPLAINTS:
        assert complaint not in done.stderr


def test_the_page_fills_a_screenshot(page: Path, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    size = (900, 1400)
    done = chromium(
        tmp_path / "profile",
        f"--screenshot={picture}",
        f"--window-size={size[0]},{size[1]}",
        page.as_uri(),
    )
    assert done.returncode == 0, done.stderr
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == size
    assert len(data) > 20_000, "an empty page packs into less"
