"""`atento sample`: a run goes on with a prompt, as it is said, or fills in its blanks."""

import argparse
from typing import TYPE_CHECKING

from atento.cli.parser import Parser
from atento.cli.threads import spin_briefly
from atento.errors import UserError

if TYPE_CHECKING:
    from atento.tasks.run import Run

__all__ = ["run"]

OF_BOTH = ("run", "prompt", "quiet")
LIKELIEST = 3  # guesses shown for each blank


def run(argv: list[str]) -> int:
    """Prints the prompt and what follows, token by token; or the prompt with its blanks filled."""
    parser = _parser()
    options = parser.parse_args(argv)
    spin_briefly()
    from atento.tasks.run import load_text

    held = load_text(options.run)
    fills = held.config.kind == "encoder"
    for name, value in vars(options).items():
        if name not in OF_BOTH and (name == "blank") != fills and value != parser.get_default(name):
            raise UserError(
                f"--{name.replace('_', '-')} is for {'a decoder' if fills else 'an encoder'}; "
                f"{options.run} holds {'an encoder' if fills else 'a decoder'}. Leave it out."
            )
    return _fill(held, options) if fills else _continue(held, options)


def _fill(held: "Run", options: argparse.Namespace) -> int:
    """The filled text, then, for each blank, what it was likely to be while all were open."""
    text, blank = options.prompt, options.blank
    print(held.fill(text, blank=blank))
    if options.quiet:
        return 0
    print(f"\nWhile all blanks ({blank}) are open, the likeliest are:")
    for number, likeliest in enumerate(held.guesses(text, LIKELIEST, blank=blank), 1):
        shown = "  ".join(f"{guess.text!r} {guess.chance:.1%}" for guess in likeliest)
        print(f"{number:3}  {shown}")
    return 0


def _continue(held: "Run", options: argparse.Namespace) -> int:
    from atento.models.choose import Sampling

    how = Sampling(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        repetition=options.repetition,
        seed=options.seed,
    )
    steps = held.streams(
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
    parser = Parser(
        prog="atento sample",
        description="Continue a prompt with a trained run; or fill in its blanks, with an encoder.",
    )
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of a run")
    add("--prompt", default="", help="what to continue; nothing: a new line")
    add(
        "--blank",
        default="_",
        metavar="SIGN",
        help='of an encoder: what stands for each token to fill in, as in "The k_ng" (_)',
    )
    _add_drawing(parser)
    add("--samples", type=int, default=1, metavar="N", help="how many, made at once (1)")
    add(
        "--no-slide",
        action="store_true",
        help="refuse to go beyond the trained context, instead of forgetting what was said first",
    )
    add(
        "-q",
        "--quiet",
        action="store_true",
        help="only what is said: no prompt, no headings, no guesses",
    )
    return parser


def _add_drawing(parser: Parser) -> None:
    """How a decoder's next tokens are drawn, and until when."""
    add = parser.add_argument
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
