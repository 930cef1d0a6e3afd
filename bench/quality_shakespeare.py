"""What the recipes of context 16 reach on Tiny Shakespeare: the whole validation split, by seed.

Each run is the real command in a process of its own. The loss is the one after the last step, so
that nothing is chosen on the split that is reported. About 30 s a run on 2 cores, so the script is
not part of `make bench`:
    python bench/quality_shakespeare.py [--seeds 3] [--runs DIR] [RECIPE …]
Runs stay in DIR, and those that are finished there are not trained again.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from atento.data.batches import whole_windows
from atento.data.config import Data
from atento.data.corpus import corpus
from atento.data.ngrams import baselines
from atento.data.text import split
from atento.tasks.recipe import Recipe
from atento.training.loop import read_metrics
from measure import keep

RECIPES = ("shakespeare-lecture", "shakespeare-no-attention", "shakespeare-laptop")
GOALS = {
    "shakespeare-lecture": "≤ 2.00",
    "shakespeare-no-attention": "≤ bigram + 0.05, ≥ shakespeare-lecture + 0.25",
    "shakespeare-laptop": "≤ 1.75",
}
PEERS = {
    "nanoGPT, the lecture's model and budget (dropout .2, AdamW), one run": 2.004,
    "the same model without attention, two runs": [2.507, 2.512],
    "nanoGPT README, CPU: 4 layers, d 128, context 64, 2000 steps of 12": 1.88,
}
SOURCES = (
    "github.com/karpathy/nanoGPT: README for the CPU's 1.88, over 20 random batches; the others "
    "are nanoGPT with the lecture's settings, measured on 2 CPU cores in 2026-11"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/quality"))
    options = parser.parse_args()
    seeds, home = range(options.seeds), options.runs
    found = {name: _recipe(name, seeds, home) for name in options.recipes}
    results = {
        "claim": "validation loss of the whole split after the last step, mean ± deviation",
        "goals": GOALS,
        "baselines": _baselines(),
        "recipes": found,
        "peers": PEERS,
        "sources": SOURCES,
    }
    keep("shakespeare_quality_cpu", results)


def _recipe(name: str, seeds: range, home: Path) -> dict[str, Any]:
    runs = [_run(name, seed, home / f"{name}-{seed}") for seed in seeds]
    losses = [run["val_loss"] for run in runs]
    return {
        "command": f"atento train {name} --train.seed S",
        "seeds": list(seeds),
        "parameters": runs[0]["parameters"],
        "precision": runs[0]["precision"],
        "device": runs[0]["device"],
        "training": runs[0]["training"],
        "val_loss": [round(loss, 4) for loss in losses],
        "mean": round(statistics.mean(losses), 4),
        "deviation": round(statistics.stdev(losses), 4) if len(losses) > 1 else None,
        "train_loss, with dropout where there is any": [round(r["train_loss"], 4) for r in runs],
    }


def _run(name: str, seed: int, out: Path) -> dict[str, Any]:
    """The last record of a run, trained unless it is there, and what it was."""
    atento = [sys.executable, "-m", "atento"]
    wanted = Recipe.read(name).with_options({"train.seed": seed})
    if wanted.train.steps not in {record["step"] for record in read_metrics(out)}:
        argv = [*atento, "train", name, "--train.seed", str(seed), "--out", str(out), "-q"]
        subprocess.run(argv + ["--resume"] * out.exists(), check=True)
    if Recipe.read(str(out)) != wanted:
        raise SystemExit(f"{out} was trained by another recipe; name another --runs.")
    described = [*atento, "describe", str(out), "--json"]
    told = json.loads(subprocess.run(described, check=True, capture_output=True).stdout)
    environment = json.loads((out / "env.json").read_text(encoding="utf-8"))
    kept = {key: environment[key] for key in ("parameters", "precision", "torch", "device")}
    return read_metrics(out)[-1] | kept | {"training": told["training"]}


def _baselines() -> dict[str, float]:
    """Of the same split, which every loss stands beside."""
    text = corpus(Data(source="shakespeare"))
    training, validation = split(text.tokens, 16)
    judged = sum(windows[:, 1:].size for windows in whole_windows(validation, 16, 1024))
    found = baselines(training, validation, len(text.tokenizer))
    return {name: round(loss, 4) for name, loss in found.items()} | {"characters judged": judged}


if __name__ == "__main__":
    main()
