"""`atento describe`: what a run or a recipe is made of, who may attend to whom, what it costs."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from atento.cli.options import parsed
from atento.errors import UserError

if TYPE_CHECKING:
    from atento.tasks.describe import Description
    from atento.tasks.describe_pairs import PairsDescription

__all__ = ["run", "size"]

USAGE = """usage: atento describe RUN|RECIPE|FILE.toml [--model.width N …] [--json]

Show what a run or a recipe is made of: its parts and their parameters, who may attend to whom,
operations for each token, and memory. All of it is worked out, nothing is trained.

  --json        one flat object on stdout
  -h, --help    this help

Of a recipe any value may be changed, as for `atento train`."""


def run(argv: list[str]) -> int:
    """Prints the description."""
    target, flags, given = parsed(argv, ("-h", "--help", "--json"), "describe")
    if flags & {"-h", "--help"}:
        print(USAGE)
        return 0
    if target is None:
        raise UserError("RUN or RECIPE must be given; got none. See: atento describe --help")
    from atento.tasks.describe_pairs import described_pairs, is_of_pairs

    if is_of_pairs(target):
        pairs = described_pairs(target, given)
        if "--json" in flags:
            print(json.dumps(pairs.flat(), ensure_ascii=False, indent=2))
        else:
            print("\n".join(_pair_lines(pairs)))
        return 0
    from atento.tasks.describe import described, flat

    made, assumed = described(target, given)
    if "--json" in flags:
        print(json.dumps(flat(made), ensure_ascii=False, indent=2))
    else:
        print("\n".join(_lines(made, assumed)))
    return 0


def _pair_lines(made: "PairsDescription") -> list[str]:
    config, whole = made.config, made.parameters.total
    beside = (f"with {kind:9} {number:>14,}" for kind, number in made.beside.items())
    lines = [
        f"{config.kind}: {config.layers} layers of width {config.width}, attention "
        f"{config.attention}, vocabulary {config.vocabulary}",
        "",
        f"parameters      {whole:>14,}",
        *(
            f"  {part:13} {number:>14,}  {number / whole:5.1%}"
            for part, number in asdict(made.parameters).items()
            if number
        ),
        *(beside if len(made.beside) > 1 else ()),
        "",
        f"training        {made.training}",
    ]
    if made.formats:
        lines += ["", f"One day in each of the {len(made.formats)} ways in which it is written:"]
        lines += [f"  {text}" for text in made.formats]
    return lines


def _lines(made: "Description", assumed: str) -> list[str]:
    from atento.tasks.describe import mask_picture, mask_words

    config, whole = made.config, made.parameters.total
    lines = [
        f"{config.kind}: {config.layers} layers of width {config.width}, {config.heads} heads, "
        f"context {config.context}, vocabulary {config.vocabulary}",
        *([f"assuming {assumed}"] if assumed else []),
        "",
        f"parameters      {whole:>14,}",
        *(
            f"  {part:13} {number:>14,}  {number / whole:5.1%}"
            for part, number in asdict(made.parameters).items()
            if number
        ),
        f"with attention  {made.beside['dot']:>14,}",
        f"without it      {made.beside['none']:>14,}",
        "",
        f"who may attend to whom: {config.mask if config.attention != 'none' else 'nobody'}",
        f"  {mask_words(config)}",
        f"  On average a query sees {made.keys:.1f} keys. The first positions (rows attend):",
        *(f"    {row}" for row in mask_picture(config)),
        "",
        f"FLOPs per token {made.forward_flops:>14,}  forward",
        f"                {made.training_flops:>14,}  training",
        "",
        f"memory          {size(made.weights_bytes):>14}  weights",
        f"                {size(made.cache_bytes):>14}  cache of one sequence",
        f"                {size(made.training_bytes):>14}  training, about; activations "
        f"{size(made.activations_bytes)} of it",
        *(["", f"training: {made.training}"] if made.training else []),
    ]
    return lines


def size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"
