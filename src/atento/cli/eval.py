"""`atento eval`: how well a run foretells the text that it has not seen."""

import json
import math

from atento.cli.parser import Parser
from atento.cli.threads import spin_briefly

__all__ = ["run"]

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
    """Prints the metrics of a run's own validation split."""
    parser = Parser(
        prog="atento eval",
        description="Measure a run on its whole validation split, in windows without overlap.",
    )
    parser.add_argument("run", metavar="RUN", help="the folder of a run")
    parser.add_argument("--json", action="store_true", help="one flat object on stdout")
    options = parser.parse_args(argv)
    spin_briefly()
    from atento.tasks.run import load

    metrics = load(options.run).evaluate()
    if options.json:
        finite = {k: v if math.isfinite(v) else None for k, v in metrics.items()}
        print(json.dumps({"run": options.run, **finite}, ensure_ascii=False, indent=2))
        return 0
    width = max(map(len, metrics))
    for name, value in metrics.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:{width}}  {shown:>10}  {WORDS.get(name, '')}".rstrip())
    return 0
