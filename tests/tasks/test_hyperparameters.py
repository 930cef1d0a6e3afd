"""The essential hyperparameters of a language model: each one, named as a user names it, counts."""

import pytest
import torch

from atento.data.corpus import corpus
from atento.errors import UserError
from atento.tasks.language import Language, language
from atento.tasks.recipe import Recipe
from tasks.books import recipe

# As the command line has it → what is compared to see that it changed what is trained.
SHAPES = {
    "model.layers": 3,
    "model.width": 24,
    "model.hidden": 40,
    "model.context": 11,
}
BEHAVIOUR = {
    "model.heads": 4,
    "model.dropout": 0.5,
    "model.mask": "Causal() & Window(2)",
    "train.batch": 7,
}
ELSEWHERE = {"train.rate": 0.02, "data.tokenizer": "bytes"}


def task(made: Recipe) -> Language:
    torch.manual_seed(0)
    return language(corpus(made.data), made.model, made.train, torch.device("cpu"))


@pytest.mark.parametrize(("option", "value"), [*(SHAPES | BEHAVIOUR | ELSEWHERE).items()])
def test_each_hyperparameter_changes_its_own_value_and_no_other(
    option: str, value: object, tmp_path
) -> None:
    before = recipe(tmp_path)
    after = before.with_options({option: str(value)})
    changed = {name for name, v in after.flat().items() if v != before.flat()[name]}
    assert changed == {option}
    assert after.flat()[option] == value
    (tmp_path / "again.toml").write_text(after.to_toml(), encoding="utf-8")
    assert Recipe.read(str(tmp_path / "again.toml")) == after


@pytest.mark.parametrize(("option", "value"), [*SHAPES.items()])
def test_each_size_changes_the_models_parameters(option: str, value: int, tmp_path) -> None:
    before = recipe(tmp_path)
    shapes = [
        {name: tuple(p.shape) for name, p in task(made).model.named_parameters()}
        for made in (before, before.with_options({option: value}))
    ]
    assert shapes[0] != shapes[1]


@pytest.mark.parametrize(("option", "value"), [*BEHAVIOUR.items()])
def test_what_has_no_parameters_changes_what_is_computed(
    option: str, value: object, tmp_path
) -> None:
    before = recipe(tmp_path)
    losses = []
    for made in (before, before.with_options({option: value})):
        here = task(made)
        with torch.no_grad():
            for parameter in here.model.parameters():
                parameter.mul_(5)  # drawn weights are small, and all would look alike
        torch.manual_seed(1)
        losses.append(here.loss(0).item())
    assert losses[0] != losses[1]


def test_the_tokenizer_changes_the_vocabulary(tmp_path) -> None:
    before = recipe(tmp_path)
    after = before.with_options({"data.tokenizer": "bytes"})
    assert task(before).config.vocabulary != task(after).config.vocabulary == 257


@pytest.mark.parametrize(("width", "heads"), [(16, 3), (15, 2), (7, 8)])
def test_a_width_that_the_heads_do_not_divide_is_an_error(width: int, heads: int, tmp_path) -> None:
    with pytest.raises(UserError, match=rf"multiple of model\.heads; got {width}, {heads}"):
        recipe(tmp_path).with_options({"width": width, "heads": heads})
