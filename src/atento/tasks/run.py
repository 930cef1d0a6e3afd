"""A run: a folder with all that a training left, and what can be done with it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from atento.data.corpus import corpus
from atento.data.text import Tokens, split
from atento.data.tokenizers import Characters, Tokenizer, load_tokenizer
from atento.errors import UserError
from atento.models.choose import Sampling
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from atento.models.generate import generate_several
from atento.models.storage import load_model
from atento.tasks.about import characters_of
from atento.tasks.filling import BLANK, Guess, filled, guesses
from atento.tasks.folder import RECIPE, TOKENIZER, RunFolder, check_source
from atento.tasks.language import bits, objective, perplexity, validation_loss
from atento.tasks.lengths import loss_at
from atento.tasks.recipe import Recipe
from atento.tasks.report import shown, write_report
from atento.tasks.speech import WARMTH, Speech, beginning, spoken
from atento.tasks.translation_run import TranslationRun, translation_run
from atento.training.device import device_here
from atento.training.loop import read_metrics

__all__ = ["Run", "load", "load_text", "of_text"]


@dataclass(frozen=True, repr=False)
class Run(RunFolder):
    """A model of one text, its tokenizer, its recipe (None for a bare model folder), its metrics.

    What turns one text into another is a `TranslationRun`.
    """

    model: Decoder | Encoder
    tokenizer: Tokenizer

    def encode(self, text: str) -> Tensor:  # Int[1, N]
        """A text as the model takes it."""
        tokens = torch.from_numpy(self.tokenizer.encode(text).copy())
        return tokens[None].to(next(self.model.parameters()).device)

    def sample(  # long: the options of `atento sample`, by the same names
        self,
        prompt: str = "",
        tokens: int = 200,
        *,
        temperature: float = WARMTH,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition: float = 1.0,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
    ) -> str:
        """The prompt, and what the model says next, up to a stop string, which is left out."""
        how = Sampling(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition=repetition,
            seed=seed,
        )
        return prompt + "".join(self.stream(prompt, tokens, how, stop=stop))

    def samples(
        self,
        count: int,
        prompt: str = "",
        tokens: int = 200,
        how: Sampling | None = None,
        *,
        stop: str | Sequence[str] = (),
    ) -> list[str]:
        """Several samples, made as one batch; the one at n is that of the seed + n alone."""
        said = [prompt] * count
        for pieces in self.streams(count, prompt, tokens, how, stop=stop):
            said = [text + piece for text, piece in zip(said, pieces, strict=True)]
        return said

    def stream(
        self,
        prompt: str = "",
        tokens: int = 200,
        how: Sampling | None = None,
        *,
        stop: str | Sequence[str] = (),
        slide: bool = True,
    ) -> Iterator[str]:
        """What follows the prompt, as it is said; without a prompt, what follows a line's end."""
        several = self.streams(1, prompt, tokens, how, stop=stop, slide=slide)
        return (piece for (piece,) in several)

    def streams(
        self,
        count: int,
        prompt: str = "",
        tokens: int = 200,
        how: Sampling | None = None,
        *,
        stop: str | Sequence[str] = (),
        slide: bool = True,
    ) -> Iterator[list[str]]:
        """What each of several samples says next, at each step; what stopped says nothing more."""
        if isinstance(self.model, Encoder):
            raise UserError(
                f"{str(self.folder)!r} holds an encoder, which reads both ways and goes on with "
                f"nothing; it fills in blanks: run.fill('The k{BLANK}ng'), or atento sample "
                f"{self.folder} --prompt 'The k{BLANK}ng'."
            )
        how = how or Sampling(temperature=WARMTH)
        how = replace(how, never=(*how.never, self.tokenizer.pad))
        start = self.encode(prompt)[0] if prompt else torch.tensor([beginning(self.tokenizer)])
        said = generate_several(self.model, start, tokens, how, samples=count, slide=slide)
        decode = self.tokenizer.decode
        return spoken(said, [Speech(decode, start.tolist(), stop) for _ in range(count)])

    def fill(self, text: str, *, blank: str = BLANK) -> str:
        """The text with each blank filled in by an encoder, one token for each, the surest first.

        A text that has the sign itself names another: `run.fill("snake_c▁se", blank="▁")`.
        """
        return filled(self._encoder(), self.tokenizer, text, blank)

    def guesses(self, text: str, count: int = 5, *, blank: str = BLANK) -> list[list[Guess]]:
        """For each blank of a text the likeliest tokens and their chances, while all are open."""
        return guesses(self._encoder(), self.tokenizer, text, count, blank)

    def _encoder(self) -> Encoder:
        if isinstance(self.model, Encoder):
            return self.model
        raise UserError(
            f"{str(self.folder)!r} holds a decoder, which goes on with a text: run.sample(…). Only "
            "an encoder fills in blanks: atento train masked-shakespeare."
        )

    def evaluate(
        self, contexts: Sequence[int] = (), *, extension: str = "none"
    ) -> dict[str, float]:
        """How well the saved model foretells the whole validation split of the run's own text.

        `val_loss`, `perplexity`, `bits_per_character` (and `bits_per_token` where tokens are not
        characters), and `context` and `val_tokens`: how many tokens were seen at once, and judged.
        Of an encoder, which foretells each token while it is hidden with others, also `masked`,
        their share. For each of `contexts` also `val_loss_at_N`, in windows of N, with rotary
        positions stretched by an extension where one is named.
        """
        validation, asking = self.validation(), objective(self.config, self.trained.train)
        loss = validation_loss(self.model, validation, self.config.context, asking)
        hidden = {"masked": self.trained.train.masked} if self.config.kind == "encoder" else {}
        each = len(validation) / characters_of(self.tokenizer, validation)  # 1 for characters
        of_tokens = {} if isinstance(self.tokenizer, Characters) else {"bits_per_token": bits(loss)}
        return {
            "val_loss": loss,
            "perplexity": perplexity(loss),
            **of_tokens,
            "bits_per_character": bits(loss) * each,
            "context": self.config.context,
            "val_tokens": asking.judged(len(validation)),
            **hidden,
            **{
                f"val_loss_at_{n}": loss_at(
                    self.model, self.config, validation, n, extension, asking
                )
                for n in contexts
            },
        }

    def validation(self) -> Tokens:
        """The tokens by which the run was judged, of its own text, which must be as it was."""
        held = corpus(self.trained.data, tokenizer=self.tokenizer)
        check_source(self.folder, held.source, held.sha256)
        return split(held.tokens, self.config.context)[1]

    def report(self, lang: str | None = None) -> Path:
        """Writes report.html into the run's folder, in `pt` or `en`, else as LANG says.

        One file that needs no other: what was asked, what came of it, curves, samples, where a head
        looks, the recipe, the data, the speed.
        """
        return write_report(self, lang)

    def _repr_html_(self) -> str:
        """The first screen of the report, for notebooks."""
        return shown(self)


def load(folder: str | Path) -> Run | TranslationRun:
    """The run of a folder, or a bare folder with config.json, model.safetensors, tokenizer.json."""
    home = Path(folder).expanduser()
    if not os.path.isdir(home):  # False, not an error, where the name is too long
        raise UserError(
            f"run must be a folder that `atento train` wrote; there is no {str(home)!r}."
        )
    if (home / RECIPE).is_file() and not (home / "model.safetensors").is_file():
        raise UserError(
            f"{str(home)!r} holds no model yet: its training stopped before the first evaluation. "
            f"Go on with: atento train {home / RECIPE} --out {home} --resume"
        )
    model, config = load_model(home, str(device_here()))
    recipe = Recipe.read(str(home / RECIPE)) if (home / RECIPE).is_file() else None
    metrics = read_metrics(home)
    if not isinstance(model, Decoder | Encoder):
        return translation_run(home, model, config, recipe, metrics)
    tokenizer = home / TOKENIZER
    if not tokenizer.is_file():
        raise UserError(f"{str(home)!r} must hold {TOKENIZER}; it does not. Copy it there too.")
    held = load_tokenizer(tokenizer)
    if len(held) != config.vocabulary:
        raise UserError(
            f"{tokenizer} has {len(held)} tokens, and the model {config.vocabulary}: they do "
            "not belong together."
        )
    return Run(home, model, config, recipe, metrics, held)


def load_text(folder: str | Path) -> Run:
    """The run of a folder, which must be one of a single text."""
    return of_text(load(folder))


def of_text(run: Run | TranslationRun) -> Run:
    """The run, which must be one of a single text; one of pairs is refused."""
    if isinstance(run, Run):
        return run
    raise UserError(
        f"run must hold a model of one text; {str(run.folder)!r} turns one text into another. Try: "
        f"atento translate {run.folder}"
    )
