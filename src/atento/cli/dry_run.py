"""`atento train … --dry-run`: what a training would take, from three of its steps."""

import time

from atento.cli.describe import size
from atento.cli.options import parsed
from atento.cli.threads import spin_briefly
from atento.errors import UserError
from atento.tasks.recipe import named_recipes

__all__ = ["run"]

USAGE = """usage: atento train RECIPE|FILE.toml --dry-run [--train.steps N …] [--out DIR]

Say what a training would take, and write nothing: parameters, memory, the time of a step (the
median of three, after a first one), and when it would end.

`atento train --help` lists the options."""


def run(argv: list[str]) -> int:
    """Prints what was found; the run's folder is not made."""
    flags = ("--dry-run", "-h", "--help", "-q", "--quiet", "--resume")
    recipe, seen, given = parsed(argv, flags, "train")
    if seen & {"-h", "--help"}:
        print(USAGE)
        return 0
    if "--resume" in seen:
        raise UserError("--dry-run is of a new run; got --resume too. Leave one of them out.")
    if recipe is None:
        raise UserError(
            f"recipe must be given: {', '.join(named_recipes())}, or a .toml file; got none."
        )
    spin_briefly()
    from atento.tasks.start import dry_run

    quiet = bool(seen & {"-q", "--quiet"})
    found, folder, device = dry_run(recipe, out=given.pop("out", None), quiet=quiet, **given)
    if quiet:
        return 0
    made, task = found.described, found.task
    end = time.localtime(time.time() + found.seconds)
    parameters = sum(p.numel() for p in task.model.parameters())
    print(
        f"{folder} would hold one {task.config.kind} of {parameters:,} parameters, {task.sizes()}."
    )
    print(f"device       {device}")
    if made is not None:
        print(
            f"memory       about {size(made.training_bytes)}, {size(made.activations_bytes)} of it "
            "activations"
        )
    speed = found.tokens / found.step_seconds
    print(f"step         {found.step_seconds * 1000:.1f} ms, {speed:,.0f} tokens/s")
    print(f"evaluation   {found.evaluation_seconds:.1f} s, {found.evaluations} times")
    print(
        f"whole        {_duration(found.seconds)} for {found.steps:,} steps: it would end at "
        f"{time.strftime('%Y-%m-%d %H:%M', end)}"
    )
    print("Nothing was written.")
    return 0


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
