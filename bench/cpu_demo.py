"""`atento demo` as a newcomer runs it: seconds of the whole process and of each part."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import keep

PARTS = ("text", "without", "with", "samples", "heads", "page")


def main() -> None:
    environment = os.environ | {"PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "atento", "demo", "--lang", "en"],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        whole = time.perf_counter() - start
        if done.returncode:
            sys.exit(done.stderr)
        kept = json.loads((Path(folder) / "runs/demo-1/demo.json").read_bytes())
    seconds = kept["seconds"]
    parts = {part: round(seconds[part], 1) for part in PARTS}
    keep(
        "demo_cpu",
        {
            "claim": "the whole demo on 2 CPU cores, from the process's start to its end: under "
            "120 s",
            "text": kept["source"],
            "seconds": round(whole, 1),
            "seconds of each part": parts | {"imports": round(whole - seconds["all"], 1)},
            "losses": {name: round(loss, 4) for name, loss in kept["losses"].items()},
            "parameters": kept["parameters"],
        },
    )


if __name__ == "__main__":
    main()
