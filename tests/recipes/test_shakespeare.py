"""What the recipes of lecture 003's experiment promise of each other, before any training."""

from dataclasses import replace

import pytest
import torch

from atento.models.build import build
from atento.models.count import counts
from atento.tasks.recipe import Recipe, named_recipes

LECTURE = Recipe.read("shakespeare-lecture")
WITHOUT = Recipe.read("shakespeare-no-attention")
LAPTOP = Recipe.read("shakespeare-laptop")
VOCABULARY = 66  # Tiny Shakespeare's 65 characters and <PAD>


def tokens_seen(recipe: Recipe) -> int:
    train = recipe.train
    return train.steps * train.accumulate * train.batch * recipe.model.context


def parameters(recipe: Recipe) -> int:
    config = replace(recipe.model, vocabulary=VOCABULARY)
    return counts(config)[config.attention].total


def test_without_attention_is_the_lectures_recipe_but_for_one_word() -> None:
    model = replace(LECTURE.model, attention="none")
    assert replace(LECTURE, model=model) == WITHOUT


def test_the_kings_bible_is_trained_as_the_lecture() -> None:
    data = replace(LECTURE.data, source="kjv")
    same = replace(LECTURE.train, evaluate_every=Recipe.read("kjv-lecture").train.evaluate_every)
    assert Recipe.read("kjv-lecture") == replace(LECTURE, data=data, train=same)


def test_the_laptops_budget_is_the_lectures() -> None:
    assert LAPTOP.model.context == LECTURE.model.context == 16
    assert tokens_seen(LAPTOP) == tokens_seen(LECTURE) == 1_228_800
    for whole in (412_800, parameters(LECTURE)):
        assert abs(parameters(LAPTOP) / whole - 1) <= 0.05


def test_the_long_recipe_is_the_short_one_with_more_of_it() -> None:
    short, long = (Recipe.read(name).flat() for name in ("shakespeare", "shakespeare-long"))
    differ = {key for key in short if short[key] != long[key]}
    assert differ <= {
        "train.steps",
        "train.decay",
        "train.evaluate_every",
        "train.checkpoint_every",
        "model.dropout",
    }
    assert long["train.steps"] > short["train.steps"]
    assert long["model.dropout"] > short["model.dropout"]


def test_exchanging_earlier_characters_changes_nothing_without_attention() -> None:
    torch.manual_seed(3)
    tokens = torch.randint(1, VOCABULARY, (7, 16))
    exchanged = tokens[:, [*torch.randperm(15).tolist(), 15]]
    assert not torch.equal(tokens, exchanged)
    logits = {}
    for recipe in (LECTURE, WITHOUT):
        model = build(replace(recipe.model, vocabulary=VOCABULARY)).eval()
        with torch.no_grad():
            logits[recipe.model.attention] = [model(x)[:, -1] for x in (tokens, exchanged)]
    assert torch.equal(*logits["none"])
    assert not torch.allclose(*logits["dot"])


@pytest.mark.parametrize("name", [name for name in named_recipes() if "shakespeare" in name])
def test_they_are_all_judged_on_the_same_split(name: str) -> None:
    recipe = Recipe.read(name)
    assert (recipe.data.source, recipe.data.tokenizer) == ("shakespeare", "characters")
