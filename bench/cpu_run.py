"""Whole runs of `atento train shakespeare-lecture`, process start to exit, seeds 0, 1, 2."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from atento.training.loop import read_metrics
from measure import keep

RECIPE, SEEDS = "shakespeare-lecture", (0, 1, 2)


def main() -> None:
    seconds, training, losses = [], [], []
    with tempfile.TemporaryDirectory() as home:
        for seed in SEEDS:
            out = Path(home) / str(seed)
            command = [sys.executable, "-m", "atento", "train", RECIPE, "-q"]
            since = time.perf_counter()
            subprocess.run(
                [*command, "--train.seed", str(seed), "--out", str(out), *sys.argv[1:]], check=True
            )
            seconds.append(round(time.perf_counter() - since, 1))
            records = read_metrics(out)
            training.append(round(records[-1]["seconds"], 1))
            losses.append(round(min(record["val_loss"] for record in records), 4))
    keep(
        "run_adamw_cpu" if sys.argv[1:] else "run_cpu",
        {
            "measured": f"atento train {RECIPE}, process start to exit, 1,200 steps",
            "goal": "25 seconds",
            "seeds": SEEDS,
            "seconds": seconds,
            "of these within the loop": training,
            "median of seconds": statistics.median(seconds),
            "validation loss": losses,
            "mean of validation loss": round(statistics.fmean(losses), 4),
            "deviation": round(statistics.stdev(losses), 4),
        },
    )


if __name__ == "__main__":
    main()
