"""An encoder's run fills in blanks, and everything else that a run does."""

import math

import pytest
import torch

from atento.data.tokenizers import Characters
from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.tasks import Run, load, train
from atento.tasks.describe import described
from atento.tasks.filling import filled, guesses
from atento.tasks.start import dry_run
from tasks.books import OPTIONS, book, recipe

ENCODER = {"model.kind": "encoder", "model.mask": "Full()", "dropout": 0.0, "steps": 150}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    made = recipe(folder).with_options(ENCODER | {"context": 16, "evaluate_every": 50})
    return train(made, out=folder / "run", quiet=True)


def test_an_encoders_run_learns_and_is_judged_as_it_was_trained(run: Run) -> None:
    losses = [record["val_loss"] for record in run.metrics]
    assert losses[-1] < losses[0]
    assert losses[-1] < math.log(len(run.tokenizer)) - 0.3
    found = load(run.folder).evaluate()
    assert found["val_loss"] == pytest.approx(min(losses), rel=1e-6)
    assert found["masked"] == 0.15
    text = run.recipe.data.source
    with open(text, encoding="utf-8") as file:
        assert found["val_tokens"] == len(file.read()) // 10


def test_blanks_are_filled_with_characters_of_the_text(run: Run) -> None:
    text = "O rat_ roeu a r_upa do r_i. "
    told = run.fill(text)
    assert len(told) == len(text)
    kept = [n for n, c in enumerate(text) if c != "_"]
    assert [told[n] for n in kept] == [text[n] for n in kept]
    assert all(c in run.tokenizer.characters for c in told)
    assert run.fill(text) == told
    assert run.fill(text.replace("_", "▁"), blank="▁") == told
    likely = run.guesses(text, count=4)
    assert [len(each) for each in likely] == [4, 4, 4]
    for each in likely:
        chances = [guess.chance for guess in each]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) < 1 + 1e-9


def oracle(model, tokenizer, text: str) -> str:
    """By hand: every blank tried, the surest filled, and again; no window is left out."""
    tokens = [0 if c == "_" else int(tokenizer.encode(c)[0]) for c in text]
    while 0 in tokens:
        logits = model(torch.tensor([tokens]))[0].double()
        logits[:, 0] = -torch.inf
        chances = logits.softmax(-1)
        place = max((n for n, t in enumerate(tokens) if t == 0), key=lambda n: chances[n].max())
        tokens[place] = int(chances[place].argmax())
    return tokenizer.decode(tokens)


def spoken_model(context: int, positions: str = "learned"):
    torch.manual_seed(3)
    tokenizer = Characters("abcdefgh")
    config = ModelConfig(
        kind="encoder", width=12, layers=2, heads=2, context=context, positions=positions,
        vocabulary=9,
    )  # fmt: skip
    model = build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(7)  # so that what stands beside matters
    return model, tokenizer


@torch.inference_mode()
def test_the_surest_blank_is_filled_first() -> None:
    model, tokenizer = spoken_model(13)
    for text in ("a_b_c_d", "____", "hgfe_dcba", "_ab__cd_e"):
        assert filled(model, tokenizer, text) == oracle(model, tokenizer, text)
    first = guesses(model, tokenizer, "a_b_c_d", 1)
    assert {guess.text for (guess,) in first} <= set("abcdefgh")


def test_a_long_text_is_read_in_the_window_around_each_blank() -> None:
    model, tokenizer = spoken_model(5)
    text = "abcdefgh" * 4
    for place in (0, 1, 17, 30, 31):
        asked = text[:place] + "_" + text[place + 1 :]
        start = min(max(place - 2, 0), len(text) - 5)
        with torch.inference_mode():
            window = oracle(model, tokenizer, asked[start : start + 5])
        assert filled(model, tokenizer, asked) == asked.replace("_", window[place - start])


def test_filling_leaves_the_mode_and_the_generator(run: Run) -> None:
    run.model.train()
    state = torch.get_rng_state()
    run.fill("O r_to")
    assert run.model.training
    assert torch.equal(torch.get_rng_state(), state)
    run.model.eval()


def test_what_each_kind_cannot_do_names_the_other(run: Run, tmp_path) -> None:
    with pytest.raises(UserError, match=r"encoder.*run\.fill.*atento sample .*--prompt"):
        run.sample("Era")
    with pytest.raises(UserError, match="must have a blank, '_'"):
        run.fill("O rato")
    with pytest.raises(UserError, match="blank must be a sign"):
        run.fill("O r_to", blank="")
    with pytest.raises(UserError, match="count must be at least 1"):
        run.guesses("O r_to", 0)
    with pytest.raises(UserError, match="'€'"):
        run.fill("€_")
    decoder = train(recipe(tmp_path), out=tmp_path / "run", quiet=True, steps=1)
    with pytest.raises(UserError, match=r"decoder.*masked-shakespeare"):
        decoder.fill("O r_to")


def test_an_encoder_resumes_bit_for_bit(tmp_path) -> None:
    steady = {"schedule": "constant", "warmup": 0, "dropout": 0.2}
    made = recipe(tmp_path).with_options(ENCODER | steady | {"steps": 12})
    whole = train(made, out=tmp_path / "whole", quiet=True)
    half = train(made.with_options({"steps": 6}), out=tmp_path / "half", quiet=True)
    again = train(half.recipe, out=half.folder, resume=True, quiet=True, steps=12)
    assert again.metrics[-1]["step"] == 12
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_it_is_described_and_rehearsed(run: Run, tmp_path) -> None:
    made, _ = described(str(run.folder), {})
    assert made.config.kind == "encoder"
    assert made.cache_bytes == 0
    options = OPTIONS | ENCODER | {"source": str(book(tmp_path))}
    found, _, _ = dry_run("text", out=tmp_path / "run", **options)
    assert found.evaluation_seconds > 0
    assert not (tmp_path / "run").exists()


def test_beside_its_losses_stand_those_of_the_left_only(
    tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(recipe(tmp_path).with_options(ENCODER | {"steps": 1}), out=tmp_path / "run")
    assert "from the left only" in capsys.readouterr().out
