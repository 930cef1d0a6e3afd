"""Perplexity and untrained losses: systems 88 and 134 of the lectures."""

import math
from pathlib import Path

import pytest
import torch

from atento.models.config import ModelConfig
from atento.tasks import Run, load, train
from atento.tasks.language import perplexity
from tasks.books import OPTIONS, recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    return train(recipe(folder), out=folder / "run", quiet=True)


@torch.inference_mode()
def chances_of_the_truth(run: Run) -> list[float]:
    """The oracle: each validation token's chance, alone, after what its window shows."""
    text = Path(run.recipe.data.source).read_text(encoding="utf-8")
    tokens = run.encode(text)[0]
    held_out = tokens[len(tokens) - len(tokens) // 10 :]
    context, model = run.config.context, run.model.double()
    chances = []
    for target in range(1, len(held_out)):
        start = (target - 1) // context * context
        logits = model(held_out[None, start:target])[0, -1]
        chances.append(float((logits - logits.logsumexp(0)).exp()[held_out[target]]))
    run.model.float()
    return chances


def test_perplexity_is_the_exponential_of_the_mean_nll(run: Run) -> None:
    chances = chances_of_the_truth(run)
    found = run.evaluate()
    # The geometric mean of 1/p, and the arithmetic mean of log2 1/p.
    product = math.prod(chance ** (-1 / len(chances)) for chance in chances)
    bits = math.fsum(-math.log2(chance) for chance in chances) / len(chances)
    assert found["perplexity"] == pytest.approx(product, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(found["val_loss"]))
    assert found["bits_per_character"] == pytest.approx(bits, rel=1e-5)
    assert found["val_tokens"] == len(chances)
    assert found["context"] == OPTIONS["context"]


def test_the_perplexity_of_a_uniform_guess_is_v(run: Run) -> None:
    same = load(run.folder)
    for parameter in same.model.parameters():
        parameter.data.zero_()
    size = len(same.tokenizer)
    found = same.evaluate()
    assert found["perplexity"] == pytest.approx(size, rel=1e-5)
    assert found["val_loss"] == pytest.approx(math.log(size), rel=1e-6)
    assert found["bits_per_character"] == pytest.approx(math.log2(size), rel=1e-6)


def test_the_perplexity_of_certainty_is_1_and_of_nonsense_infinite() -> None:
    assert perplexity(0.0) == 1.0
    assert perplexity(1e9) == math.inf


def test_untrained_is_about_ln_v_and_training_brings_both_curves_below(run: Run) -> None:
    start = train(run.recipe, out=run.folder.parent / "start", quiet=True, steps=1, rate=1e-12)
    ln_v = math.log(len(run.tokenizer))
    (first,) = start.metrics
    assert first["train_loss"] == pytest.approx(ln_v, abs=0.1)
    assert first["val_loss"] == pytest.approx(ln_v, abs=0.1)
    assert run.metrics[-1]["train_loss"] < first["train_loss"]
    assert run.metrics[-1]["val_loss"] < first["val_loss"]


def test_lecture_003_measured_an_untrained_loss_of_ln_66() -> None:
    """4.15–4.18 in the lecture, ln 66 = 4.19: what small weights give for any text."""
    from atento.models.build import build

    losses = []
    for seed in range(5):
        torch.manual_seed(seed)
        config = ModelConfig(vocabulary=66, context=16, width=128, layers=2, heads=2)
        tokens = torch.randint(66, (64, 17))
        with torch.inference_mode():
            logits = build(config)(tokens[:, :-1]).double()
        truth = logits.gather(-1, tokens[:, 1:, None])[..., 0]
        losses.append(float((logits.logsumexp(-1) - truth).mean()))
    assert all(abs(loss - math.log(66)) < 0.1 for loss in losses)


def test_seeded_samples_repeat(run: Run) -> None:
    options = {"temperature": 1.0, "top_p": 0.95, "seed": 11}
    first = run.sample("Era", 60, **options)
    assert (
        first == run.sample("Era", 60, **options) == load(run.folder).sample("Era", 60, **options)
    )
    assert first != run.sample("Era", 60, **(options | {"seed": 12}))
