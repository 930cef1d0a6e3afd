"""The demo's story: one text, one network without and with attention, told as it happens."""

import json
import math
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from atento.cli.head_table import Head, head_table, heads_of
from atento.cli.terminal import Steps, Terminal
from atento.cli.wording import Wording
from atento.data.corpus import corpus
from atento.data.ngrams import baselines
from atento.data.survey import Survey
from atento.data.text import Tokens, split
from atento.errors import UserError
from atento.models.choose import Sampling
from atento.models.format import MARK
from atento.models.storage import write
from atento.report.language import language
from atento.tasks.comparison import Comparison, Group, Member
from atento.tasks.reading import reading
from atento.tasks.recipe import Recipe
from atento.tasks.run import Run, of_text
from atento.tasks.sentence import sentence
from atento.tasks.start import train

__all__ = ["CARRIED", "NUMBERS", "RECIPE", "Story"]

RECIPE = "shakespeare-laptop"
CARRIED = ("kjv", "pydoc")  # texts that are there without the user's doing
NUMBERS = "demo.json"
FOLDERS = {"without": "without-attention", "with": "with-attention"}
ATTENTION = {"without": "none", "with": "dot"}
LEAST = 2_000  # characters: with fewer, nothing that is measured would mean anything
FEW = 100_000  # characters: with fewer, the networks may learn the text by heart
HELD = 20_000  # held-out characters on which each head is missed, at most
SAID = 240  # characters of each sample
ALIKE = 0.1  # nats: what is nearer arrives at the same


@dataclass
class Numbers:
    """What was measured, as demo.json keeps it."""

    source: str
    sentence: str = ""
    losses: dict[str, float] = field(default_factory=dict)  # nats for each held-out character
    parameters: dict[str, int] = field(default_factory=dict)  # of tables of counts: their entries
    heads: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of each part, and of all


class Story:
    """What the demo does and says, part by part."""

    def __init__(
        self, source: str, folder: Path, steps: int | None, words: Wording, terminal: Terminal
    ) -> None:
        self.source, self.folder, self.words, self.terminal = source, folder, words, terminal
        self.options: dict[str, Any] = {"source": source}
        if steps is not None:
            self.options["train.steps"] = steps
        self.recipe = Recipe.read(RECIPE).with_options(self.options)
        self.numbers = Numbers(source)
        self.runs: dict[str, Run] = {}

    def tell(self) -> None:
        """All of it; Ctrl-C leaves runs that can go on."""
        began = time.monotonic()
        with self._timed("text"):
            validation = self.open()
        try:
            for network in FOLDERS:
                self.train(network)
            self.table()
            self.heads(validation)
            page = self.page()
            self.numbers.seconds["all"] = time.monotonic() - began
            self.keep()
            self.end(page)
        except KeyboardInterrupt:
            self.stopped()
            raise

    def open(self) -> Tokens:
        """The validation split, after the text was introduced and counted."""
        with reading(self.terminal.quiet) as far:
            found = corpus(self.recipe.data, progress=far)
        survey, context, numbers = found.survey, self.recipe.model.context, self.numbers
        if survey.characters < LEAST:
            raise UserError(
                f"data.source must have at least {LEAST:,} characters for the demo, a tenth of "
                f"them to judge by; {self.source!r} has {survey.characters:,}. Give a longer text; "
                "from 100,000 on the numbers say more."
            )
        training, validation = split(found.tokens, context)
        self.introduce(survey, len(validation))
        vocabulary = len(found.tokenizer)
        numbers.losses = baselines(training, validation, vocabulary)
        numbers.parameters = {name: vocabulary**n for n, name in enumerate(numbers.losses) if n}
        # As far as the network sees at once, and the character that it is to foretell.
        numbers.sentence = sentence(found.tokenizer, validation)[: context + 1]
        return validation

    @property
    def prompt(self) -> str:
        """The whole words of the sentence."""
        whole = self.numbers.sentence
        return whole.rpartition(" ")[0] or whole

    def introduce(self, survey: Survey, held: int) -> None:
        """What text it is, and what to mind."""
        say, words = self.terminal.say, self.words
        names = ", ".join(Path(name).name for name in survey.files)
        say(words("begin", self.source if self.source in CARRIED else "own", name=names))
        characters, distinct = words.number(survey.characters), words.number(len(survey.counts))
        size = {"characters": characters, "distinct": distinct, "held": words.number(held)}
        say(words("begin", "size", **size))
        if survey.characters < FEW:
            say(words("begin", "short"))
        for notice in survey.notices:
            where = {"owner": notice.owner, "line": str(notice.line), "file": notice.file}
            say(words("begin", "notice", **where))

    def train(self, network: str) -> None:
        """One of the two networks, and what it writes."""
        terminal, words, numbers = self.terminal, self.words, self.numbers
        terminal.head(words("train", network))
        about = {"layers": self.recipe.model.layers, "before": self.recipe.model.context - 1}
        terminal.say(
            words("train", f"about_{network}", **{k: words.number(n) for k, n in about.items()})
        )
        with self._timed(network):
            done = train(
                RECIPE,  # by its name, by which the run is resumed
                out=self.folder / FOLDERS[network],
                quiet=True,
                tell=Steps(terminal, words("train", "bar")),
                **self.options | {"model.attention": ATTENTION[network]},
            )
        self.runs[network] = run = of_text(done)
        numbers.losses[network] = min(record["val_loss"] for record in run.metrics)
        numbers.parameters[network] = sum(p.numel() for p in run.model.parameters())
        came_of_it = {
            "parameters": words.number(numbers.parameters[network]),
            "steps": words.number(self.recipe.train.steps),
            "seconds": words.number(numbers.seconds[network]),
            "prompt": words.quoted(self.prompt),
        }
        terminal.say(words("train", "done", **came_of_it))
        if not terminal.quiet:
            with self._timed("samples"):
                said = run.stream(self.prompt, SAID, Sampling(temperature=0.8, seed=0))
                terminal.type(said)

    def table(self) -> None:
        """Who guesses best, and what that means."""
        terminal, words, losses = self.terminal, self.words, self.numbers.losses
        terminal.head(words("table", "heading"))
        terminal.say(words("table", "meaning"))
        terminal.say()
        terminal.show(self.rows())
        terminal.say()
        near = abs(losses["without"] - losses["bigram"]) < ALIKE
        terminal.say(words("table", "alike" if near else "apart"))
        gain = losses["without"] - losses["with"]
        values = {
            "gain": words.number(gain, 2),
            "with": words.number(math.exp(losses["with"]), 1),
            "without": words.number(math.exp(losses["without"]), 1),
            "steps": words.number(self.recipe.train.steps),
        }
        terminal.say(words("table", "paid" if gain >= ALIKE else "unpaid", **values))

    def rows(self) -> Iterator[str]:
        """The table of losses, each with its bar."""
        words, losses, parameters = self.words, self.numbers.losses, self.numbers.parameters
        name, count, loss, among = (
            words("table", column) for column in ("name", "parameters", "loss", "among")
        )
        yield f"  {name:22} {count:>10} {loss:>7} {among:>7}"
        for key, value in losses.items():
            name = words("table", key)
            count = words.number(parameters[key]) if key in parameters else ""
            loss, among = words.number(value, 3), words.number(math.exp(value), 1)
            bar = self.terminal.bar(value / max(losses.values()), 26)
            yield f"  {name:22} {count:>10} {loss:>7} {among:>7}  {bar}"

    def heads(self, validation: Tokens) -> None:
        """Where each head looks in one sentence, and what is lost without it."""
        terminal, words = self.terminal, self.words
        with self._timed("heads"):
            heads = heads_of(self.runs["with"], self.numbers.sentence, validation[:HELD])
        self.numbers.heads = [head.numbers() for head in heads]
        if terminal.quiet:
            return
        most = max(heads, key=lambda head: head.text)
        terminal.head(words("heads", "heading"))
        terminal.say(words("heads", "meaning", **_named(most)))
        terminal.say()
        rows = most.seen.weights.tolist()
        terminal.show(
            terminal.map(self.numbers.sentence[:-1], [row[: n + 1] for n, row in enumerate(rows)])
        )
        terminal.say()
        held = words.number(min(len(validation), HELD))
        terminal.say(words("heads", "table", held=held))
        terminal.say()
        terminal.show(head_table(heads, words))
        terminal.say()
        terminal.say(words("heads", "care"))

    def page(self) -> Path:
        """The comparison as a page, and the runs' own pages in the language of the demo."""
        with self._timed("page"):
            groups = [
                Group(self.words("table", network), (Member.of(run.folder),))
                for network, run in self.runs.items()
            ]
            if self.words.lang != language(os.environ):
                for run in self.runs.values():
                    run.report(self.words.lang)
            return Comparison(self.folder, tuple(groups)).report(self.words.lang)

    def keep(self) -> None:
        """Writes what was measured."""
        content = json.dumps(MARK | asdict(self.numbers), indent=1, ensure_ascii=False) + "\n"
        write(self.folder / NUMBERS, content.encode())

    def end(self, page: Path) -> None:
        """Where everything is, and what can be done next."""
        terminal, words = self.terminal, self.words
        if terminal.quiet:
            terminal.show([str(page)])
            return
        terminal.say()
        terminal.show([words("end", "page"), f"    {page}"])
        seconds = words.number(self.numbers.seconds["all"])
        terminal.say(words("end", "took", seconds=seconds, folder=str(self.folder)))
        run, prompt = (shlex.quote(x) for x in (str(self.folder / FOLDERS["with"]), self.prompt))
        own = self.source not in CARRIED
        file = shlex.quote(self.source) if own else words("end", "file")
        commands = {
            "sample": f"sample {run} --prompt {prompt} --temperature 0.5",
            "train" if own else "own": f"train text --data.source {file}"
            if own
            else f"demo {file}",
            "lesson": "lesson multi-head",
        }
        for what, command in commands.items():
            # Not wrapped, as they are copied.
            terminal.show([f"  {words('end', what)}:", f"    atento {command}"])

    def stopped(self) -> None:
        """What is left, and how to go on."""
        terminal, words = self.terminal, self.words
        begun = [
            name for name in FOLDERS if (self.folder / FOLDERS[name] / "recipe.toml").is_file()
        ]
        if not begun:
            return
        terminal.say()
        terminal.say(words("end", "stopped", folder=str(self.folder)))
        if begun[-1] not in self.runs:
            run = shlex.quote(str(self.folder / FOLDERS[begun[-1]]))
            resume = f"atento train {RECIPE} --out {run} --resume"
            terminal.say(words("end", "resume", command=resume))
        terminal.say(words("end", "again"))

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        seconds = self.numbers.seconds
        seconds[part] = seconds.get(part, 0.0) + time.monotonic() - began


def _named(head: Head) -> dict[str, str]:
    return {"name": head.name, "layer": str(head.layer), "head": str(head.seen.head)}
