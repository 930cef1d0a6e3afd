"""The folder that every run has, whatever it learned: recipe, metrics, report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from atento.errors import UserError
from atento.models.config import ModelConfig
from atento.models.storage import read_json
from atento.tasks.recipe import Recipe

__all__ = ["ENVIRONMENT", "RECIPE", "TOKENIZER", "RunFolder", "check_source"]

RECIPE, ENVIRONMENT, TOKENIZER = "recipe.toml", "env.json", "tokenizer.json"


@dataclass(frozen=True)
class RunFolder:
    """A trained model, its recipe (None for a bare model folder), and its metrics."""

    folder: Path
    model: nn.Module
    config: ModelConfig
    recipe: Recipe | None
    metrics: list[dict[str, Any]]

    @property
    def trained(self) -> Recipe:
        """The recipe; where only a model was left, an error."""
        if self.recipe is None:
            raise UserError(
                f"{str(self.folder)!r} holds a model but no {RECIPE}, which says what it was "
                "trained on. Evaluate the folder of its run."
            )
        return self.recipe

    def __repr__(self) -> str:
        """As in `Run('runs/a-1', decoder of 412,800 parameters, 1,200 steps, val_loss 2.0023)`."""
        parts = [
            repr(str(self.folder)),
            f"{self.config.kind} of {sum(p.numel() for p in self.model.parameters()):,} parameters",
        ]
        if self.metrics:
            best = min(self.metrics, key=lambda record: float(record["val_loss"]))
            parts += [f"{self.metrics[-1]['step']:,} steps", f"val_loss {best['val_loss']:.4f}"]
        return f"{type(self).__name__}({', '.join(parts)})"


def check_source(folder: Path, source: str, sha256: str) -> None:
    """Refuses a source that is no longer what a run began with."""
    began = read_json(folder / ENVIRONMENT).get("source")
    if began != sha256:
        raise UserError(
            f"data.source {source!r} must be what {folder} was trained on; its content has "
            "changed since. Bring the old text back, or begin a new run."
        )
