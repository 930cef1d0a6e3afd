"""A text larger than memory beside a small one: memory while it is read, and steps of training.

    python bench/cpu_stream.py [GIGABYTES] [FOLDER]

The texts and their tokens, together three times the gigabytes, are written to the folder (a
temporary one unless given) and removed again. The peak is that of the process's own pages: those of
mapped files, which the system takes back as it likes, are not among them.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from atento.data import sets
from atento.data.config import Data
from atento.data.corpus import corpus
from atento.tasks.language import Language, language
from atento.tasks.recipe import Recipe
from atento.training.optim import optimizers
from measure import interleaved, keep, medians, ratio

SMALL = 100_000_000  # bytes; mapped too, and all of it stays in the system's memory
BASE = 1 << 24  # characters that the texts are cut from
PIECE = 1 << 20
STEPS = 150


def words() -> bytes:
    """Made-up words, frequent ones and rare ones, in lines."""
    draw = np.random.default_rng(0)
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
    spelt = [
        bytes(letters[np.minimum(draw.zipf(1.3, n), 26) - 1]) for n in draw.integers(1, 10, 4096)
    ]
    chosen = np.minimum(draw.zipf(1.2, BASE // 4), 4096) - 1
    ends = np.where(draw.random(len(chosen)) < 0.1, b"\n", b" ")
    return b"".join(spelt[w] + e for w, e in zip(chosen.tolist(), ends.tolist(), strict=True))[
        :BASE
    ]


def write(file: Path, size: int, base: bytes) -> None:
    """A text of so many bytes, in pieces from anywhere in the base."""
    draw = np.random.default_rng(size)
    with file.open("wb") as out:
        for first in range(0, size, PIECE):
            start = int(draw.integers(0, len(base) - PIECE))
            out.write(base[start : start + min(PIECE, size - first)])


@contextmanager
def own_pages() -> Iterator[Callable[[], int]]:
    """The most bytes of its own that the process has had at a time, looked at 20 times a second."""
    peak, over = 0, threading.Event()

    def look() -> None:
        nonlocal peak
        while not over.wait(0.05):
            for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, 1024 * int(line.split()[1]))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: peak
    finally:
        over.set()
        watcher.join()


def steps(task: Language) -> Callable[[], None]:
    """One step of training after another, each on windows of its own."""
    held, number = optimizers(task.model, RECIPE.train), iter(range(1 << 60))

    def step() -> None:
        task.loss(next(number)).backward()
        for optimizer in held:
            optimizer.step()
            optimizer.zero_grad()

    return step


RECIPE = Recipe.read("shakespeare-lecture")


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    home = Path(tempfile.mkdtemp(prefix="atento-stream-", dir=(sys.argv[2:] or [None])[0]))
    sets.cache_folder = lambda: home / "cache"
    try:
        keep("stream_cpu", measured(home, int(gigabytes * 1e9)))
    finally:
        shutil.rmtree(home)


def measured(home: Path, large: int) -> dict[str, object]:
    base, tasks, read = words(), {}, {}
    for name, size in (("small", SMALL), ("large", large)):
        write(home / name, size, base)
        with own_pages() as peak:
            start = time.perf_counter()
            text = corpus(Data(source=str(home / name)))
            torch.manual_seed(0)
            task = language(text, RECIPE.model, RECIPE.train, torch.device("cpu"))
            seconds = time.perf_counter() - start
            for _ in range(10):
                steps(task)()
        tasks[name] = task
        read[name] = {
            "bytes": size,
            "tokens": len(text.tokens),
            "token file, bytes": os.path.getsize(text.file) if text.file else 0,
            "seconds to read and tokenize": round(seconds, 1),
            "MB/s": round(size / 1e6 / seconds, 1),
            "peak of own pages, MB": round(peak() / 1e6),
        }
    # Alternating, so that whatever else the machine does hits both alike.
    times = interleaved({name: steps(task) for name, task in tasks.items()}, STEPS)
    tokens = RECIPE.train.batch * RECIPE.model.context
    return {
        "claim": "a text of many gigabytes takes no more memory than a small one, and trains "
        "within 10% of its tokens/s",
        "model": "shakespeare-lecture's, eager, float32",
        **read,
        "peak, large / small": round(
            read["large"]["peak of own pages, MB"] / read["small"]["peak of own pages, MB"], 3
        ),
        "tokens/s": {name: round(tokens / s) for name, s in medians(times).items()},
        "time of a step, large / small, median of turns": round(ratio(times, "large", "small"), 3),
    }


if __name__ == "__main__":
    main()
