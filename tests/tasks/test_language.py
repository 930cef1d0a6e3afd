"""The language task judges by the whole validation split, and draws nothing to do so."""

import math
from pathlib import Path

import pytest
import torch

from atento.data.config import Data
from atento.data.corpus import corpus
from atento.models.config import ModelConfig
from atento.tasks.language import AT_ONCE, language, validation_loss
from atento.training.config import Train

TEXT = "o rato roeu a roupa do rei de roma e a rainha riu\n" * 9
SETTINGS = ModelConfig(width=12, layers=2, heads=2, context=7, dropout=0.3)


@pytest.fixture
def source(tmp_path: Path) -> str:
    file = tmp_path / "rato.txt"
    file.write_text(TEXT, encoding="utf-8", newline="\n")
    return str(file)


def made(source: str):
    torch.manual_seed(0)
    return language(
        corpus(Data(source=str(source))), SETTINGS, Train(batch=3), device=torch.device("cpu")
    )


def test_validation_covers_every_token_once(source: str) -> None:
    task = made(source)
    task.model.eval()
    tokens = torch.from_numpy(task.validation.copy())
    losses = []
    for target in range(1, len(tokens)):  # each alone, with what its window shows of the past
        start = (target - 1) // 7 * 7
        logits = task.model(tokens[None, start:target])[0, -1].double()
        losses.append(-(logits - logits.logsumexp(0))[tokens[target]].item())
    expected = math.fsum(losses) / len(losses)
    assert len(losses) == len(TEXT) // 10 - 1
    assert task.evaluate()["val_loss"] == pytest.approx(expected, rel=1e-6)


def test_evaluation_touches_no_generator_and_leaves_the_mode(source: str) -> None:
    task = made(source)
    task.model.train()
    state = torch.get_rng_state()
    first = task.evaluate()
    assert task.model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert task.evaluate() == first


def test_how_much_is_evaluated_at_once_makes_no_difference(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = made(source)
    whole = validation_loss(task.model, task.validation, 7)
    monkeypatch.setattr("atento.tasks.language.AT_ONCE", 14)
    assert AT_ONCE > 14
    assert validation_loss(task.model, task.validation, 7) == pytest.approx(whole, rel=1e-6)


def test_untrained_it_is_as_good_as_a_uniform_guess(source: str) -> None:
    task = made(source)
    assert task.uniform == math.log(len(set(TEXT)) + 1)
    assert task.evaluate()["val_loss"] == pytest.approx(task.uniform, abs=0.1)


def test_a_batch_follows_from_its_step(source: str) -> None:
    task = made(source)
    task.model.eval()
    assert task.loss(4).item() == task.loss(4).item() != task.loss(5).item()
