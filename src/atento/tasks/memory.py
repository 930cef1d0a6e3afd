"""Running out of memory, said as what it is: a wish that this machine cannot meet."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from atento.errors import UserError
from atento.tasks.recipe import Recipe

__all__ = ["memory_for"]

# What torch says on a CPU, where it has no exception of its own for it; so too of sizes whose
# bytes no 64-bit number counts.
SAYS = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")


@contextmanager
def memory_for(recipe: Recipe) -> Iterator[None]:
    """Within it a failed allocation becomes a `UserError` that names the sizes to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        out_of_it = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not out_of_it and not any(words in str(error) for words in SAYS):
            raise
        model, train = recipe.model, recipe.train
        raise UserError(
            f"there is not enough memory for model.width {model.width}, model.layers "
            f"{model.layers}, model.context {model.context} and train.batch {train.batch}. Lower "
            "one of them; --dry-run says what others would take."
        ) from error
