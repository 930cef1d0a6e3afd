"""The guides of docs/ run as they stand, on a copy of the package with the files that they add."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```python(?: file=(\S+))?\n(.*?)```", re.DOTALL)
GUIDES = sorted((ROOT / "docs").glob("*.md"))
WITH_CODE = [guide for guide in GUIDES if BLOCK.search(guide.read_text(encoding="utf-8"))]
RECIPE = """
from atento.core.masks import Causal
from atento.models.mask import mask_from
assert mask_from("Causal() & Checkers(2)").parts[0] == Causal()
"""


@pytest.mark.parametrize("guide", WITH_CODE, ids=lambda guide: guide.stem)
def test_a_guide_runs_as_it_stands(guide: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    script = []
    for file, code in BLOCK.findall(guide.read_text(encoding="utf-8")):
        if file:
            (tmp_path / file).write_text(code, encoding="utf-8")
        else:
            script.append(code)
    if guide.stem == "adding-to-the-door":
        script.append(RECIPE)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(script)],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PYTHONUTF8": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr
