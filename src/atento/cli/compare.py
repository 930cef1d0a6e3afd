"""`atento compare`: several recipes under equal conditions, beside each other."""

import json

from atento.cli.options import parsed_names
from atento.cli.threads import spin_briefly
from atento.errors import UserError

__all__ = ["run"]

USAGE = """usage: atento compare RECIPE|FILE.toml|RUN … [--seeds N] [--out DIR] [--train.steps N …]

Train recipes on the same data and set them side by side: a table (mean ± deviation over the seeds),
curves, samples. A run's folder is taken as it is. Recipes on different sources are refused;
whatever else differs is marked.

  --seeds N     train each recipe with so many seeds: its own, and those that follow (1)
  --out DIR     where the runs, compare.html and compare.json go; runs/compare-N unless given. With
                the folder of a comparison that was stopped: go on with it
  --json        one flat object on stdout
  -q, --quiet   say nothing
  -h, --help    this help

Any value of a recipe may be changed, for all of them, as for `atento train`."""


def run(argv: list[str]) -> int:
    """Trains what is not trained yet, prints the table, and says where the page is."""
    flags = ("-h", "--help", "-q", "--quiet", "--json")
    names, seen, given = parsed_names(argv, flags, "compare")
    if seen & {"-h", "--help"}:
        print(USAGE)
        return 0
    seeds, out = _count(given.pop("seeds", "1")), given.pop("out", None)
    if not names:
        raise UserError("RECIPE or RUN must be given; got none. See: atento compare --help")
    spin_briefly()
    from atento.tasks.comparing import compare

    quiet = bool(seen & {"-q", "--quiet"})
    found = compare(*names, seeds=seeds, out=out, quiet=quiet or "--json" in seen, **given)
    if "--json" in seen:
        print(json.dumps(found.flat(), ensure_ascii=False, indent=2))
    elif not quiet:
        print(found)
        print(f"{found.folder / 'compare.html'} shows it.")
    return 0


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"--seeds must be a whole number; got {text!r}.") from None
