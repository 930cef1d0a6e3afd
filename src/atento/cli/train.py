"""`atento train`: a recipe and its options, to a run."""

from typing import TYPE_CHECKING, Any

from atento.cli.options import parsed
from atento.cli.threads import spin_briefly
from atento.errors import UserError
from atento.tasks.recipe import Recipe, named_recipes, options

if TYPE_CHECKING:
    from atento.tasks.run import Run
    from atento.tasks.translation_run import TranslationRun

__all__ = ["run"]

USAGE = """usage: atento train RECIPE|FILE.toml [--train.steps N …] [--out DIR] [--resume] [-q]
       atento train RECIPE|FILE.toml --dry-run

Train a recipe, by name or from a TOML file. The run is a folder: recipe.toml, env.json,
metrics.jsonl, model.safetensors (the best by validation), config.json, tokenizer.json, checkpoint/.

  --out DIR     the run's folder; runs/RECIPE-N unless given
  --resume      go on with the run in --out, or with the last runs/RECIPE-N
  --resume-previous  likewise, from the checkpoint before the last where that is damaged
  --dry-run     say what it would take, from three steps, and write nothing
  -q, --quiet   say nothing
  -h, --help    this help; after a recipe, with that recipe's values

Any value of the recipe, whole or by its last part where that is unique:
"""


def run(argv: list[str]) -> int:
    """Trains, and says where the run is."""
    flags = ("-h", "--help", "-q", "--quiet", "--resume", "--resume-previous")
    recipe, seen, given = parsed(argv, flags, "train")
    if seen & {"-h", "--help"}:
        print(_help(recipe))
        return 0
    if recipe is None:
        raise UserError(
            f"recipe must be given: {', '.join(named_recipes())}, or a .toml file; got none. For "
            "example: atento train kjv-lecture"
        )
    spin_briefly()
    from atento.tasks.start import train

    quiet = bool(seen & {"-q", "--quiet"})
    named: dict[str, Any] = dict(given)  # options of the recipe
    done = train(
        recipe,
        out=named.pop("out", None),
        resume="--resume" in seen,
        resume_previous="--resume-previous" in seen,
        quiet=quiet,
        **named,
    )
    if not quiet:
        best = min((m["val_loss"] for m in done.metrics), default=float("nan"))
        print(
            f"{done.folder}: best val_loss {best:.4f}. See {done.folder / 'report.html'}, or try: "
            f"{_next(done)}"
        )
    return 0


def _next(done: "Run | TranslationRun") -> str:
    """What can be done with a run, as a command."""
    match done.config.kind:
        case "encoder":
            return f'atento sample {done.folder} --prompt "A text with bl_nks"'
        case "decoder":
            return f"atento sample {done.folder}"
        case _:
            return f"atento translate {done.folder}"


def _help(recipe: str | None) -> str:
    shown = (Recipe() if recipe is None else Recipe.read(recipe)).flat()
    width = max(len(option.dotted) for option in options())
    lines = [
        f"  --{option.dotted:{width}}  {option.help} ({shown[option.dotted]!r})"
        for option in options()
    ]
    return USAGE + "\n".join(lines)
