"""Runs beside each other at several contexts: which positions go on beyond what was trained."""

from collections.abc import Sequence
from dataclasses import dataclass

from atento.errors import UserError
from atento.models.config import EXTENSIONS
from atento.tasks.language import objective
from atento.tasks.lengths import loss_at
from atento.tasks.run import Run

__all__ = ["LengthRow", "length_table"]


@dataclass(frozen=True)
class LengthRow:
    """One run's weights, with one extension, at each context: its loss, or why there is none."""

    run: str
    positions: str
    extension: str
    trained: int  # the context of the training
    losses: tuple[float | str, ...]


def length_table(
    runs: Sequence[Run], contexts: Sequence[int], extensions: Sequence[str] = EXTENSIONS[1:]
) -> list[LengthRow]:
    """A row for each run as it is, and for rotary ones also with each extension, weights the same.

    Each loss is that of the whole validation split, in windows of the context without overlap.
    Claim: test_lengths.py::test_yarn_goes_on_where_sinusoids_fail_and_learned_positions_end
    """
    if not runs or not contexts:
        raise UserError("a table of lengths needs a run and a context at least; got none.")
    rows = []
    for run in runs:
        tried = ["none", *extensions] if run.config.positions == "rotary" else ["none"]
        rows += [_row(run, contexts, extension) for extension in dict.fromkeys(tried)]
    return rows


def _row(run: Run, contexts: Sequence[int], extension: str) -> LengthRow:
    tokens, asking = run.validation(), objective(run.config, run.trained.train)
    losses: list[float | str] = []
    for context in contexts:
        try:
            losses.append(loss_at(run.model, run.config, tokens, context, extension, asking))
        except UserError as error:
            losses.append(str(error))
    config = run.config
    shown = extension if extension != "none" else config.extension
    return LengthRow(str(run.folder), config.positions, shown, config.context, tuple(losses))
