"""What is learned follows from the kind of model; where the loss is taken; how it is smoothed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from atento.data.config import Data
from atento.data.corpus import corpus
from atento.data.questions import Hidden, NextToken, Questions
from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.tasks.language import Language, language, loss_of, objective, validation_loss
from atento.tasks.recipe import Recipe
from atento.training.config import Train
from tasks.books import book

SMALL = ModelConfig(width=12, layers=2, heads=2, context=13, vocabulary=11)
ENCODER = replace(SMALL, kind="encoder", mask="")


def task(tmp_path, config: ModelConfig, **train: object) -> Language:
    torch.manual_seed(0)
    text = corpus(Data(source=str(book(tmp_path))))
    return language(text, config, Train(batch=3, **train), torch.device("cpu"))


class Certain(torch.nn.Module):
    """The same logits for everything that it is shown."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(logits))

    def forward(self, shown: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(*shown.shape, -1)


def test_smoothing_by_hand() -> None:
    # p = (1/2, 1/4, 1/8, 1/8) and ε = 0.2, so q = 0.85 at the target and 0.05 at the other three.
    model = Certain([math.log(8), math.log(4), math.log(2), math.log(2)])
    ln2 = math.log(2)
    for target, plain, smooth in (
        (0, 1 * ln2, (0.85 * 1 + 0.05 * (2 + 3 + 3)) * ln2),
        (1, 2 * ln2, (0.85 * 2 + 0.05 * (1 + 3 + 3)) * ln2),
        (3, 3 * ln2, (0.85 * 3 + 0.05 * (1 + 2 + 3)) * ln2),
    ):
        asked = Questions(np.zeros((1, 1), np.int64), np.full((1, 1), target))
        assert loss_of(model, asked).item() == pytest.approx(plain, rel=1e-6)
        assert loss_of(model, asked, 0.2).item() == pytest.approx(smooth, rel=1e-6)


@pytest.mark.parametrize("config", [SMALL, ENCODER])
def test_training_is_smoothed_and_validation_never(tmp_path, config: ModelConfig) -> None:
    plain, smooth = task(tmp_path, config), task(tmp_path, config, smoothing=0.3)
    assert smooth.evaluate() == plain.evaluate()
    asked = plain.objective.drawn(plain.training, 13, 3, seed=0, step=5)
    assert smooth.loss(5).item() == pytest.approx(loss_of(plain.model, asked, 0.3).item())
    # With p nearly uniform all are near ln V; the smoothed one is another number nonetheless.
    assert smooth.loss(5).item() != plain.loss(5).item()


def test_the_objective_follows_from_the_kind_of_model() -> None:
    assert objective(SMALL, Train()) == NextToken()
    assert objective(ENCODER, Train(masked=0.4)) == Hidden(0.4)


def test_the_loss_is_taken_at_hidden_places_only() -> None:
    torch.manual_seed(0)
    model = build(ENCODER).eval()
    tokens = np.random.default_rng(0).integers(1, 11, 200)
    asked = Hidden(0.3).drawn(tokens, 13, 5, seed=0, step=0)
    everything = model(torch.from_numpy(asked.shown)).double().log_softmax(-1)
    truth = [
        everything[row, place, target].item()
        for row in range(5)
        for place, target in zip(asked.places[row], asked.targets[row], strict=True)
    ]
    assert len(truth) == 5 * 4
    assert loss_of(model, asked).item() == pytest.approx(-sum(truth) / len(truth), rel=1e-5)
    states: list[torch.Tensor] = []
    model.norm.register_forward_hook(lambda module, given, out: states.append(out))
    (gradient,) = torch.autograd.grad(loss_of(model, asked), states)
    moved = gradient.abs().sum(-1) > 0  # the last states that the loss depends on
    assert (moved.numpy() == (asked.shown == 0)).all()


def test_an_encoders_validation_hides_each_token_once(tmp_path) -> None:
    made = task(tmp_path, ENCODER)
    made.model.eval()
    losses = []
    for asked in Hidden(0.15).whole(made.validation, 13, 1):
        logits = made.model(torch.from_numpy(asked.shown))[0].double().log_softmax(-1)
        losses += [
            -logits[p, t].item() for p, t in zip(asked.places[0], asked.targets[0], strict=True)
        ]
    assert len(losses) == len(made.validation)
    state = torch.get_rng_state()
    assert made.evaluate()["val_loss"] == pytest.approx(math.fsum(losses) / len(losses), rel=1e-6)
    assert made.evaluate() == made.evaluate()
    assert torch.equal(torch.get_rng_state(), state)


def test_an_encoder_untrained_is_as_good_as_a_uniform_guess(tmp_path) -> None:
    made = task(tmp_path, ENCODER)
    found = validation_loss(made.model, made.validation, 13, made.objective)
    assert found == pytest.approx(made.uniform, abs=0.1)


@pytest.mark.parametrize("given", [{"smoothing": 1.0}, {"smoothing": -0.1}, {"masked": 0.0}])
def test_impossible_shares_are_named(given: dict[str, float]) -> None:
    (name,) = given
    with pytest.raises(UserError, match=rf"train\.{name} must be"):
        Train(**given)
    with pytest.raises(UserError, match=rf"train\.{name} must be"):
        Train(**{name: math.nan})


def test_masked_with_a_decoder_is_refused() -> None:
    with pytest.raises(UserError, match=r"train\.masked is for an encoder.*model\.kind encoder"):
        Recipe.read("text").with_options({"masked": 0.3})
