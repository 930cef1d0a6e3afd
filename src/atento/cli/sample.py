"""`atento sample`: a run goes on with a prompt, as it is said."""

import argparse

from atento.cli.parser import Parser
from atento.cli.threads import spin_briefly

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Prints the prompt and what follows, token by token; further samples after the first."""
    options = _parser().parse_args(argv)
    spin_briefly()
    from atento.models.choose import Sampling
    from atento.tasks.run import load

    how = Sampling(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        repetition=options.repetition,
        seed=options.seed,
    )
    steps = load(options.run).streams(
        options.samples,
        options.prompt,
        options.tokens,
        how,
        stop=options.stop,
        slide=not options.no_slide,
    )
    said = ["" if options.quiet else options.prompt] * options.samples
    _heading(1, options)
    print(said[0], end="", flush=True)
    for pieces in steps:
        print(pieces[0], end="", flush=True)
        said = [text + piece for text, piece in zip(said, pieces, strict=True)]
    print()
    for n, text in enumerate(said[1:], 2):
        _heading(n, options)
        print(text)
    return 0


def _heading(n: int, options: argparse.Namespace) -> None:
    if options.samples > 1 and not options.quiet:
        print(f"--- {n} of {options.samples}" + ("" if n == 1 else ", made beside the first"))


def _parser() -> Parser:
    parser = Parser(prog="atento sample", description="Continue a prompt with a trained run.")
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of a run")
    add("--prompt", default="", help="what to continue; nothing: a new line")
    add("--tokens", type=int, default=300, help="how many to say at most (300)")
    add("--temperature", type=float, default=0.8, help="0: the likeliest; 1: as learned (0.8)")
    add("--top-k", type=int, metavar="K", help="among the K likeliest only")
    add("--top-p", type=float, metavar="P", help="among the fewest that have chance P together")
    add("--min-p", type=float, metavar="P", help="among those with P times the highest chance")
    add(
        "--repetition",
        type=float,
        default=1.0,
        metavar="R",
        help="above 1: what was said becomes less likely (1)",
    )
    add("--seed", type=int, help="the same seed says the same")
    add(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="stop before saying this; may be given several times",
    )
    add("--samples", type=int, default=1, metavar="N", help="how many, made at once (1)")
    add(
        "--no-slide",
        action="store_true",
        help="refuse to go beyond the trained context, instead of forgetting what was said first",
    )
    add("-q", "--quiet", action="store_true", help="only what is said: no prompt, no headings")
    return parser
