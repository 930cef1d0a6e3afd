"""Recipes: strict TOML in, equal TOML out, options laid over."""

from pathlib import Path

import pytest

from atento.errors import UserError
from atento.tasks.recipe import Recipe, find_option, named_recipes, options

HEAD = 'format = "atento"\nversion = 1\n'


def written(folder: Path, text: str) -> str:
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("name", named_recipes())
def test_every_named_recipe_round_trips(name: str, tmp_path: Path) -> None:
    recipe = Recipe.read(name)
    assert Recipe.read(written(tmp_path, recipe.to_toml())) == recipe


def test_awkward_values_round_trip(tmp_path: Path) -> None:
    given = {"data.source": 'C:\\a "b"\n\x7f\té', "train.rate": 1e-17, "train.decay": 3}
    recipe = Recipe().with_options(given)
    assert Recipe.read(written(tmp_path, recipe.to_toml())) == recipe


def test_the_lecture_is_table_1() -> None:
    recipe = Recipe.read("shakespeare-lecture")
    model, train = recipe.model, recipe.train
    assert (model.context, model.width, model.layers, model.heads) == (16, 128, 2, 2)
    assert (model.dropout, train.rate, train.batch, train.steps) == (0.2, 3e-3, 64, 1200)
    other = Recipe.read("kjv-lecture")
    assert other.model == model
    assert other.data.source == "kjv"


def test_a_run_is_a_recipe_too(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(HEAD, encoding="utf-8")
    assert Recipe.read(str(tmp_path)) == Recipe()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "format must be"),
        ('format = "atento"\nversion = 2', "version must be 1"),
        (HEAD + "x = 1", "'x' is not known"),
        (HEAD + "[tain]\nsteps = 1", "Did you mean 'train'"),
        (HEAD + "[train]\nstep = 1", r"train\.step is not known. Did you mean 'steps'"),
        (HEAD + "[model]\nvocabulary = 9", "vocabulary is not known"),
        (HEAD + '[train]\nsteps = "9"', r"train\.steps must be a whole number; got '9'"),
        (HEAD + "[train]\nsteps = 9.0", "whole number"),
        (HEAD + "[train]\nsteps = true", "whole number"),
        (HEAD + "[train]\nrate = false", "a number"),
        (HEAD + "[train]\nrate = nan", "above 0"),
        (HEAD + "[data]\nsource = 3", r"data\.source must be text"),
        (HEAD + '[data]\ntokenizer = "words"', "one of characters"),
        (HEAD + 'task = "music"', "task must be one of language"),
        (HEAD + "train = 3", "must be a table"),
        ("[[[", "must be a recipe in TOML"),
    ],
)
def test_mistakes_are_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        Recipe.read(written(tmp_path, text))


def test_a_name_that_is_no_recipe_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'shakespeare-lecture'"):
        Recipe.read("shakespeare-lectur")
    book = tmp_path / "livro.txt"
    book.write_text("Era uma vez", encoding="utf-8")
    with pytest.raises(UserError, match=r"atento train text --data\.source"):
        Recipe.read(str(book))
    with pytest.raises(UserError, match="must be one of"):
        Recipe.read(str(tmp_path / "nada.toml"))


def test_options_are_dotted_or_short_and_typed() -> None:
    recipe = Recipe().with_options({"train.steps": "7", "rate": "1e-2", "width": 64, "decay": 0})
    assert (recipe.train.steps, recipe.train.rate, recipe.model.width) == (7, 0.01, 64)
    assert recipe.train.decay == 0.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"step": 1}, "Did you mean 'steps'"),
        ({"train.rat": 1}, r"Did you mean 'train\.rate'"),
        ({"steps": "many"}, r"train\.steps must be a whole number; got 'many'"),
        ({"steps": "1e3"}, "whole number"),
        ({"steps": None}, "whole number"),
        ({"steps": 5, "train.steps": 6}, "given twice"),
        ({"dropout": "2"}, "below 1"),
    ],
)
def test_wrong_options_are_one_sentence(given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Recipe().with_options(given)


def test_every_option_has_help_and_a_last_part_of_its_own() -> None:
    for option in options():
        assert option.help
        assert find_option(option.name) == option
