"""A small text and a small recipe for tests."""

from pathlib import Path

from atento.tasks.recipe import Recipe

SENTENCES = (
    "Era uma vez um gato xadrez. ",
    "O rato roeu a roupa do rei. ",
    "Quem conta um conto?\n",
)
OPTIONS = {
    "width": 16,
    "layers": 2,
    "heads": 2,
    "context": 8,
    "dropout": 0.2,
    "batch": 5,
    "steps": 23,
    "evaluate_every": 10,
    "checkpoint_every": 6,
    "rate": 0.01,
    "positions": "learned",  # so that the context is a shape
    "floor": 0.1,  # so that the last steps still change something
}


def book(folder: Path, times: int = 40) -> Path:
    """A file of a few thousand characters that do not repeat exactly."""
    file = folder / "livro.txt"
    lines = (SENTENCES[n % 3] + str(n * n) for n in range(times))
    file.write_text("".join(lines), encoding="utf-8", newline="\n")
    return file


def recipe(folder: Path) -> Recipe:
    """What a test trains within a fraction of a second."""
    return Recipe.read("text").with_options({"source": str(book(folder)), **OPTIONS})
