"""`atento eval`: how well a run foretells the text that it has not seen."""

import argparse
import json
import math
from typing import TYPE_CHECKING

from atento.cli.parser import Parser
from atento.cli.threads import spin_briefly
from atento.errors import UserError

if TYPE_CHECKING:
    from atento.tasks.length_table import LengthRow
    from atento.tasks.translation_run import TranslationRun

__all__ = ["run"]

BEAM = 5
WORDS = {
    "val_loss": "nats for each token, over the whole validation split",
    "perplexity": "as many equally likely tokens would be as hard to foretell",
    "bits_per_character": "bits for each character",
    "bits_per_token": "bits for each token",
    "context": "tokens seen at once, at most",
    "val_tokens": "tokens foretold, each once",
    "masked": "share hidden at once, foretold from both sides: not comparable with a decoder's",
}


def run(argv: list[str]) -> int:
    """Prints the metrics of a run's own validation split, or its losses at several contexts."""
    options = _parser().parse_args(argv)
    contexts = _contexts(options)
    spin_briefly()
    from atento.tasks.length_table import length_table
    from atento.tasks.run import Run, load, load_text

    first = load(options.runs[0])
    if not isinstance(first, Run):
        return _translation(first, options)
    if options.split or options.beam:
        raise UserError(
            f"--{'split' if options.split else 'beam'} is for a run of pairs; {options.runs[0]} "
            "holds a model of one text, judged by its validation split. Leave it out."
        )
    rows = []
    if contexts:
        runs = [first, *(load_text(folder) for folder in options.runs[1:])]
        rows = length_table(runs, contexts, _extensions(options.extension))
    if options.json:
        numbers = first.evaluate() | {k: v for row in rows for k, v in _flat(row, contexts)}
        finite = {k: _finite(v) for k, v in numbers.items()}
        print(json.dumps({"run": options.runs[0], **finite}, ensure_ascii=False, indent=2))
    elif rows:
        print("\n".join(_table(rows, contexts)))
    else:
        _print(first.evaluate())
    return 0


def _translation(run: "TranslationRun", options: argparse.Namespace) -> int:
    """Prints what a run of pairs reaches on a split, with intervals and signatures."""
    from atento.tasks.scores import scores

    if options.contexts is not None:
        raise UserError(f"--contexts is for a run of one text; {options.runs[0]} has pairs.")
    found = scores(run, options.split or "validation", options.beam or BEAM)
    if options.json:
        print(json.dumps({"run": options.runs[0], **found.flat()}, ensure_ascii=False, indent=2))
    else:
        print("\n".join(found.lines()))
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="atento eval",
        description="Measure a run on its whole validation split, in windows without overlap.",
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="the folder of a run; several with --contexts")
    add("--json", action="store_true", help="one flat object on stdout")
    add(
        "--split",
        choices=("validation", "test"),
        help="of a run of pairs: what it is judged by (validation)",
    )
    add(
        "--beam",
        type=int,
        metavar="K",
        help=f"of a run of pairs: hypotheses kept at once, 1 is greedy ({BEAM})",
    )
    add(
        "--contexts",
        metavar="N,N",
        help="the loss in windows of these lengths, also beyond the trained one: 16,32,64",
    )
    add(
        "--extension",
        metavar="HOW",
        help="with --contexts: rotary positions stretched, in the same weights: none, linear, ntk, "
        "yarn, several with commas, or all (all)",
    )
    return parser


def _contexts(options: argparse.Namespace) -> list[int]:
    if options.contexts is None:
        if options.extension is not None:
            raise UserError("--extension is for --contexts. Add --contexts 16,32,64.")
        if len(options.runs) > 1:
            raise UserError(
                f"atento eval takes one run, or several with --contexts 16,32; got "
                f"{len(options.runs)}."
            )
        return []
    if options.json and len(options.runs) > 1:
        raise UserError(f"--json is of one run; got {len(options.runs)}. Name one.")
    words = options.contexts.split(",")
    if not all(word.strip().isdecimal() and int(word) for word in words):
        raise UserError(
            f"--contexts must be whole numbers above 0 with commas between them, such as 16,32; "
            f"got {options.contexts!r}."
        )
    return list(dict.fromkeys(int(word) for word in words))


def _extensions(given: str | None) -> list[str]:
    from atento.models.config import EXTENSIONS

    names = [name.strip() for name in (given or "all").split(",")]
    for name in names:
        if name not in (*EXTENSIONS, "all"):
            raise UserError(
                f"--extension must be among {', '.join(EXTENSIONS)} and all; got {name!r}."
            )
    return list(EXTENSIONS) if "all" in names else names


def _print(metrics: dict[str, float]) -> None:
    width = max(map(len, metrics))
    for name, value in metrics.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:{width}}  {shown:>10}  {WORDS.get(name, '')}".rstrip())


def _table(rows: "list[LengthRow]", contexts: list[int]) -> list[str]:
    """Losses in columns; what has none has a number, and its reason stands below."""
    reasons: dict[str, int] = {}
    lines = [["run", "positions", "trained", *(f"at {n}" for n in contexts)]]
    for row in rows:
        cells = [
            f"{x:.4f}"
            if isinstance(x, float)
            else f"error {reasons.setdefault(x, len(reasons) + 1)}"
            for x in row.losses
        ]
        stretched = "" if row.extension == "none" else f" + {row.extension}"
        lines.append([row.run, row.positions + stretched, str(row.trained), *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            f"{cell:{'<' if n < 2 else '>'}{width}}"
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return [
        "val_loss, nats for each token of the whole validation split, in windows without overlap:",
        *shown,
        *(f"error {number}: {reason}" for reason, number in reasons.items()),
    ]


def _flat(row: "LengthRow", contexts: list[int]) -> list[tuple[str, float | str]]:
    how = "" if row.extension == "none" else f"_{row.extension}"
    return [
        (f"{'val_loss' if isinstance(x, float) else 'error'}_at_{n}{how}", x)
        for n, x in zip(contexts, row.losses, strict=True)
    ]


def _finite(value: float | str) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
