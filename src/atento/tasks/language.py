"""Language modelling: from the tokens so far, the next; or from those around, the hidden ones."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atento.data.corpus import Corpus
from atento.data.ngrams import SMOOTHING, baselines
from atento.data.questions import Hidden, NextToken, Objective, Questions
from atento.data.text import Tokens, split
from atento.data.tokenizers import Tokenizer
from atento.models.build import build, for_text
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from atento.models.storage import save_model
from atento.tasks.saying import words_of
from atento.tasks.sentence import sentence
from atento.training.config import Train
from atento.training.distributed import share

__all__ = [
    "Language",
    "bits",
    "language",
    "loss_of",
    "objective",
    "perplexity",
    "validation_loss",
]

AT_ONCE = 16_384  # tokens evaluated together: enough to keep 2 cores busy, little memory
NEXT = NextToken()


@dataclass(frozen=True)
class Language:
    """A model, the text it learns from, and the text it is judged by."""

    model: Decoder | Encoder
    config: ModelConfig
    tokenizer: Tokenizer
    training: Tokens
    validation: Tokens
    batch: int
    seed: int
    objective: Objective = field(default=NEXT)
    smoothing: float = 0.0

    def loss(self, step: int) -> Tensor:
        """The mean cross-entropy, in nats for each token, of a batch of random windows."""
        return self.loss_on(self.drawn(step))

    def drawn(self, step: int) -> tuple[Tensor, ...]:
        """The windows of a step as `Questions`, of this process's share of the batch."""
        asked = self.objective.drawn(
            self.training, self.config.context, self.batch, self.seed, step
        )
        return tuple(torch.from_numpy(share(x)) for x in asked if x is not None)

    def loss_on(self, drawn: tuple[Tensor, ...]) -> Tensor:
        """The loss of what was drawn."""
        return _cross_entropy(self.model, *drawn, smoothing=self.smoothing)

    def evaluate(self) -> dict[str, float]:
        """`val_loss`, over the whole validation split, never smoothed."""
        return {"val_loss": self.judge(self.validation)}

    def judge(self, tokens: Tokens) -> float:
        """The `validation_loss` of some tokens."""
        return validation_loss(self.model, tokens, self.config.context, self.objective)

    def save(self, folder: Path) -> None:
        """model.safetensors and config.json."""
        save_model(self.model, self.config, folder)

    def say(self) -> str:
        """A few of its words, always asked for in the same way."""
        return words_of(self.model, self.tokenizer, self.sentence)

    @cached_property
    def sentence(self) -> str:
        """A sentence of the validation split."""
        return sentence(self.tokenizer, self.validation)

    @property
    def tokens_each_step(self) -> float:
        return self.batch * self.config.context

    def judge_a_part(self) -> float:
        """Judges the first windows of the validation split, and says which share of it they are."""
        part = self.validation[: AT_ONCE + 1]
        self.judge(part)
        return len(part) / len(self.validation)

    def sizes(self) -> str:
        """How much is learned from."""
        return (
            f"vocabulary {len(self.tokenizer)} · {len(self.training):,} training and "
            f"{len(self.validation):,} validation tokens"
        )

    def stands_beside(self) -> str:
        """The losses that every loss of this run stands beside."""
        found = "  ".join(f"{name} {loss:.4f}" for name, loss in self.baselines().items())
        aside = "" if self.config.kind == "decoder" else "; they foretell from the left only"
        return f"validation loss of {found} ({SMOOTHING}{aside})"

    @property
    def uniform(self) -> float:
        """ln V: the loss of holding every token equally likely."""
        return math.log(len(self.tokenizer))

    def baselines(self) -> dict[str, float]:
        """What a uniform guess and n-grams lose on the same split: what a loss stands beside."""
        return self._baselines

    @cached_property
    def _baselines(self) -> dict[str, float]:
        return baselines(self.training, self.validation, len(self.tokenizer))


def language(corpus: Corpus, settings: ModelConfig, train: Train, device: torch.device) -> Language:
    """The task of a text; weights are drawn from torch's generator."""
    training, validation = split(corpus.tokens, settings.context)
    config = replace(settings, vocabulary=len(corpus.tokenizer))
    return Language(
        model=for_text(build(config)).to(device),
        config=config,
        tokenizer=corpus.tokenizer,
        training=training,
        validation=validation,
        batch=train.batch,
        seed=train.seed,
        objective=objective(config, train),
        smoothing=train.smoothing,
    )


def objective(config: ModelConfig, train: Train) -> Objective:
    """What follows from the kind of model: a decoder foretells the next token, an encoder hidden
    ones."""
    match config.kind:
        case "encoder":
            return Hidden(train.masked)
        case _:
            return NEXT


@torch.inference_mode()
def validation_loss(
    model: Decoder | Encoder, tokens: Tokens, context: int, asking: Objective = NEXT
) -> float:
    """Nats for each token, in non-overlapping windows of the context; all tokens count alike.

    Claim: test_language.py::test_validation_covers_every_token_once
    """
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for asked in asking.whole(tokens, context, max(1, AT_ONCE // context)):
        total += float(loss_of(model, asked).double()) * asked.targets.size
        count += asked.targets.size
    model.train(was_training)
    return total / count


def perplexity(loss: float) -> float:
    """exp(loss): how many equally likely tokens would be as hard to foretell.

    Claim: test_perplexity.py::test_perplexity_is_the_exponential_of_the_mean_nll
    """
    return math.exp(loss) if loss < 700 else math.inf  # e^710 is beyond float64


def bits(loss: float) -> float:
    """loss / ln 2: a loss in nats, in bits.

    Claim: test_perplexity.py::test_perplexity_is_the_exponential_of_the_mean_nll
    """
    return loss / math.log(2)


def loss_of(model: Decoder | Encoder, asked: Questions, smoothing: float = 0.0) -> Tensor:
    """−Σ_v q_v ln p_v, the mean over all targets; q is 1 − ε at the target and ε / V everywhere.

    ε is `smoothing`, added at the target too; V counts all tokens, `<PAD>` among them.
    Ref: Szegedy et al. 2016, arXiv:1512.00567, section 7.
    Claim: test_objectives.py::test_smoothing_by_hand
    Claim: test_objectives.py::test_the_loss_is_taken_at_hidden_places_only
    """
    tensors = [torch.from_numpy(x) for x in asked if x is not None]
    return _cross_entropy(model, *tensors, smoothing=smoothing)


def _cross_entropy(
    model: Decoder | Encoder,
    shown: Tensor,
    targets: Tensor,
    places: Tensor | None = None,
    *,
    smoothing: float = 0.0,
) -> Tensor:
    device = next(model.parameters()).device
    shown, targets = shown.to(device), targets.to(device)
    logits = model(shown) if places is None else model(shown, places=places.to(device))
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
