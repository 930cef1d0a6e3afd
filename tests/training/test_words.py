"""What a training is said to be."""

from dataclasses import fields

import pytest

from atento.training.config import Train
from atento.training.words import training_words

# What says nothing of how weights are updated.
SILENT = {"seed", "evaluate_every", "checkpoint_every", "patience", "recompute", "precision"}
SILENT |= {"execution"}
SILENT |= {"masked"}  # what is asked of the model, not how it learns
SILENT |= {"tokens"}  # a batch of pairs, which is said below
CHANGED = {
    "optimizer": "muon",
    "schedule": "linear",
    "steps": 1213,
    "batch": 67,
    "accumulate": 3,
    "rate": 0.0017,
    "muon_rate": 0.019,
    "warmup": 29,
    "stable": 0.31,
    "floor": 0.13,
    "decay": 0.37,
    "decay_rest": 0.011,
    "beta2": 0.953,
    "clip": 1.9,
    "ema": 0.997,
    "smoothing": 0.07,
}


@pytest.mark.parametrize("name", CHANGED)
def test_every_setting_of_the_optimizer_is_said(name: str) -> None:
    base = Train(**({"optimizer": "muon"} if name == "muon_rate" else {}))
    changed = Train(**({"optimizer": base.optimizer} | {name: CHANGED[name]}))
    assert training_words(changed) != training_words(base)


def test_no_setting_is_forgotten() -> None:
    assert {field.name for field in fields(Train)} == SILENT | CHANGED.keys()


def test_the_sentence_of_each_optimizer() -> None:
    given = {k: v for k, v in CHANGED.items() if k != "optimizer"}
    after = (
        "29 steps of warmup, the full rate for 31% of the steps, linear to 0.13 of the rate · "
        "gradient norm ≤ 1.9 · weights averaged with memory 0.997 · "
        "targets smoothed by 0.07 · 1,213 steps of 3 × 67 windows"
    )
    adamw = "AdamW, β 0.9 and 0.953, rate 0.0017"
    decay = "decay 0.37 of linear maps, 0.011 elsewhere"
    assert training_words(Train(**given)) == f"{adamw}, {decay} · {after}"
    assert training_words(Train(**CHANGED)) == (
        "Muon for the matrices inside, rate 0.019, decay 0.37 · "
        f"{adamw} for the rest, {decay} · {after}"
    )


def test_what_is_not_done_is_not_said() -> None:
    plain = Train(schedule="constant", warmup=0, clip=0, steps=7, batch=5)
    assert training_words(plain) == (
        "AdamW, β 0.9 and 0.99, rate 0.001, decay 0.1 of linear maps, 0 elsewhere · constant · "
        "7 steps of 5 windows"
    )


def test_a_batch_of_pairs_is_so_many_tokens() -> None:
    said = training_words(Train(steps=7, tokens=1234, accumulate=2), paired=True)
    assert said.endswith("7 steps of 2 × 1,234 tokens of pairs")
    assert "windows" not in said
