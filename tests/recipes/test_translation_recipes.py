"""The recipes of the lectures' chain: each can be built and learnt from, each link a word apart."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from atento.data.pair_corpus import TokenPairs
from atento.models.build import build
from atento.tasks.recipe import Recipe, named_recipes
from atento.tasks.translation import pair_loss

NAMES = [name for name in named_recipes() if Recipe.read(name).task == "translation"]


def test_each_link_of_the_chain_is_there_on_dates_and_on_captions() -> None:
    for place in ("dates", "multi30k"):
        links = [Recipe.read(f"{place}-{link}") for link in ("lstm", "bahdanau", "luong")]
        assert [recipe.model.attention for recipe in links] == ["none", "additive", "general"]
        assert {recipe.model.kind for recipe in links} == {"recurrent"}
        assert len({recipe.data for recipe in links}) == 1
    assert Recipe.read("dates-transformer").model.kind == "encoder-decoder"
    assert Recipe.read("multi30k-tiny").model.kind == "encoder-decoder"
    assert {"copy", "reverse", "kjv-web-transformer"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_one_makes_a_model_that_learns(name: str) -> None:
    torch.manual_seed(0)
    model = build(replace(Recipe.read(name).model, vocabulary=29, dropout=0.0))
    pairs = TokenPairs([("", "")] * 2, [np.array([3, 5, 7]), np.array([2])], [np.array([7, 5])] * 2)
    before = pair_loss(model, pairs, 64)
    source, told = torch.tensor([[3, 5, 7, 0]]), torch.tensor([[0, 7, 5]])
    logits = model(source, told, torch.tensor([4])).float()
    torch.nn.functional.cross_entropy(logits[0], torch.tensor([7, 5, 0])).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.01 * parameter.grad
    assert pair_loss(model, pairs, 64) < before
