"""Language modelling: from the tokens so far, the next."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atento.data.batches import random_windows, whole_windows
from atento.data.corpus import Corpus
from atento.data.ngrams import baselines
from atento.data.text import Tokens, split
from atento.data.tokenizers import Tokenizer
from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.storage import save_model

__all__ = [
    "Language",
    "bits",
    "language",
    "perplexity",
    "validation_loss",
]

AT_ONCE = 16_384  # tokens evaluated together: enough to keep 2 cores busy, little memory


@dataclass(frozen=True)
class Language:
    """A decoder, the text it learns from, and the text it is judged by."""

    model: Decoder
    config: ModelConfig
    tokenizer: Tokenizer
    training: Tokens
    validation: Tokens
    batch: int
    seed: int

    def loss(self, step: int) -> Tensor:
        """The mean cross-entropy, in nats for each token, of a batch of random windows."""
        windows = random_windows(self.training, self.config.context, self.batch, self.seed, step)
        return _cross_entropy(self.model, windows)

    def evaluate(self) -> dict[str, float]:
        """`val_loss`, over the whole validation split."""
        return {"val_loss": validation_loss(self.model, self.validation, self.config.context)}

    def save(self, folder: Path) -> None:
        """model.safetensors and config.json."""
        save_model(self.model, self.config, folder)

    @property
    def uniform(self) -> float:
        """ln V: the loss of holding every token equally likely."""
        return math.log(len(self.tokenizer))

    def baselines(self) -> dict[str, float]:
        """What a uniform guess and n-grams lose on the same split: what a loss stands beside."""
        return baselines(self.training, self.validation, len(self.tokenizer))


def language(
    corpus: Corpus, settings: ModelConfig, batch: int, seed: int, device: torch.device
) -> Language:
    """The task of a text; weights are drawn from torch's generator."""
    training, validation = split(corpus.tokens, settings.context)
    config = replace(settings, vocabulary=len(corpus.tokenizer))
    model = build(config).to(device)
    if not isinstance(model, Decoder):
        raise UserError(
            f"model.kind must be decoder, to foretell the next token; got {config.kind!r}."
        )
    return Language(model, config, corpus.tokenizer, training, validation, batch, seed)


@torch.inference_mode()
def validation_loss(model: Decoder, tokens: Tokens, context: int) -> float:
    """Nats for each token, in non-overlapping windows of the context; all tokens count alike.

    Claim: test_language.py::test_validation_covers_every_token_once
    """
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for windows in whole_windows(tokens, context, max(1, AT_ONCE // context)):
        targets = windows.shape[0] * (windows.shape[1] - 1)
        total += float(_cross_entropy(model, windows).double()) * targets
        count += targets
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


def _cross_entropy(model: Decoder, windows: Tokens) -> Tensor:  # windows: [B, N + 1]
    tokens = torch.from_numpy(windows).to(next(model.parameters()).device)
    logits = model(tokens[:, :-1])
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
