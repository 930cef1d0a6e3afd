"""kill -9 at any moment costs the work since the last checkpoint, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from atento.training.loop import read_metrics

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, to start many processes quickly")
@pytest.mark.parametrize(
    ("moments", "steps"), [(3, 40), pytest.param(20, 300, marks=pytest.mark.slow)]
)
def test_killed_at_any_moment_and_resumed_ends_with_the_same_bits(
    moments: int, steps: int, tmp_path: Path
) -> None:
    words = [sys.executable, str(TESTS / "training/killed.py"), str(tmp_path)]
    done = subprocess.run(
        [*words, str(moments), str(steps)],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        check=True,
    )
    result = json.loads(done.stdout)
    assert result["repeated"] == []
    assert result["kills"] == moments
    assert result["resumed"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    step = f"checkpoint/step-{steps:08}"
    for name in ("model", f"{step}/model", f"{step}/optimizer"):
        left, right = (load_file(folder / f"{name}.safetensors") for folder in (whole, killed))
        assert left.keys() == right.keys()
        assert all(torch.equal(left[k], right[k]) for k in left), name
    losses = [[r["val_loss"] for r in read_metrics(folder)] for folder in (whole, killed)]
    assert losses[0] == losses[1]
    assert sorted(p.name for p in (killed / "checkpoint").glob(".*")) == []
    assert not (killed / ".lock").exists()
