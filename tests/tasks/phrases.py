"""A tiny language of pairs for tests: words, and the same words in capitals, backwards."""

from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("um", "dois", "gato", "bola", "sol", "mar", "x")
OPTIONS: dict[str, Any] = {
    "data.tokenizer": "characters",
    "model.kind": "recurrent",
    "width": 10,
    "layers": 1,
    "context": 40,
    "dropout": 0.1,
    "train.tokens": 220,
    "steps": 12,
    "rate": 0.01,
    "evaluate_every": 5,
    "checkpoint_every": 3,
}
RECIPE = 'format = "atento"\nversion = 1\ntask = "translation"\n[model]\nkind = "recurrent"\n'


def phrases(folder: Path, count: int = 60) -> Path:
    """A file of pairs."""
    draw = np.random.Generator(np.random.Philox(key=[3, 5]))
    lines = []
    for _ in range(count):
        said = [WORDS[n] for n in draw.integers(0, len(WORDS), int(draw.integers(1, 5)))]
        lines.append(f"{' '.join(said)}\t{' '.join(reversed(said)).upper()}\n")
    file = folder / "frases.tsv"
    file.write_text("".join(lines), encoding="utf-8")
    return file


def recipe_file(folder: Path) -> Path:
    """A recipe of pairs, for options to be laid over."""
    file = folder / "frases.toml"
    file.write_text(RECIPE, encoding="utf-8")
    return file
