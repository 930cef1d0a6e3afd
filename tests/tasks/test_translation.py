"""The task of pairs: its loss, its batches, and that a run of it resumes to the bit."""

import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import atento
from atento.data.buckets import padded
from atento.data.config import Data
from atento.data.known import Known
from atento.data.pair_corpus import TokenPairs, pair_corpus
from atento.data.tokenizers import Characters
from atento.errors import UserError
from atento.models.config import ModelConfig
from atento.tasks.recipe import Recipe
from atento.tasks.translation import Translating, _cross_entropy, pair_loss, translating
from atento.training.config import Train
from tasks.phrases import OPTIONS, phrases, recipe_file
from tasks.test_resume import same

MODELS = [
    {"model.attention": "none", "model.unit": "gru"},
    {"model.attention": "additive"},
    {"model.attention": "dot"},
    {"model.kind": "encoder-decoder", "model.positions": "sinusoidal"},
]


class Fixed(torch.nn.Module):
    """Says the same logits whatever it reads."""

    limit = None

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(logits)

    def forward(self, source: Tensor, told: Tensor, lengths: Tensor) -> Tensor:
        return self.logits.expand(*told.shape, -1)


def pairs() -> TokenPairs:
    sources = [np.array([1, 2]), np.array([3])]
    targets = [np.array([1, 1, 2]), np.array([2])]
    return TokenPairs([("", "")] * 2, sources, targets)


def made(folder: Path, **given: Any) -> Translating:
    corpus = pair_corpus(Data(source=str(phrases(folder))))
    train = Train(tokens=220, seed=given.pop("seed", 0))
    torch.manual_seed(1)
    config = ModelConfig(kind="recurrent", width=10, layers=1, context=40, **given)
    return translating(corpus, config, train, torch.device("cpu"))


def train(folder: Path, **given: Any) -> Any:
    source = phrases(folder.parent)
    return atento.train(
        recipe_file(folder.parent),
        out=folder,
        quiet=True,
        **({"source": str(source)} | OPTIONS | given),
    )


def test_the_loss_is_that_of_each_target_token_by_hand() -> None:
    chances = [0.5, 0.25, 0.125, 0.125]  # of the end, 1, 2 and 3
    model = Fixed(torch.tensor(chances, dtype=torch.float64).log())
    # The end twice, 1 twice, 2 twice: bits 1, 2 and 3.
    expected = (2 * 1 + 2 * 2 + 2 * 3) / 6 * math.log(2)
    for tokens in (4, 8, 1000):  # one pair in each batch, or both: padding counts nowhere
        assert pair_loss(model, pairs(), tokens) == pytest.approx(expected, rel=1e-12)


def test_smoothing_by_hand() -> None:
    chances = [0.5, 0.25, 0.125, 0.125]
    model = Fixed(torch.tensor(chances, dtype=torch.float64).log())
    batch = padded(pairs().sources, pairs().targets, pad=0, end=0)
    total, count = _cross_entropy(model, batch, 0.2)
    # 0.8 of each target's own bits and 0.2 of the mean over four tokens: (1 + 2 + 3 + 3) / 4.
    expected = (0.8 * (2 * 1 + 2 * 2 + 2 * 3) + 0.2 * 6 * 2.25) * math.log(2)
    assert count == 6
    assert float(total.detach()) == pytest.approx(expected, rel=1e-12)


def test_a_batch_follows_from_the_seed_and_the_step_alone(tmp_path: Path) -> None:
    first, second = made(tmp_path), made(tmp_path)
    steps = [0, 1, first.batches, 3 * first.batches + 1]
    seen = [first.drawn_pairs(step) for step in steps]
    for step, batch in reversed(list(zip(steps, seen, strict=True))):
        again = second.drawn_pairs(step)
        assert again.texts == batch.texts
        assert all(np.array_equal(a, b) for a, b in zip(again.sources, batch.sources, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(again.targets, batch.targets, strict=True))
    assert made(tmp_path, seed=1).drawn_pairs(0).texts != seen[0].texts


def test_an_epoch_has_each_pair_once(tmp_path: Path) -> None:
    task = made(tmp_path)
    for epoch in (0, 1):
        steps = range(epoch * task.batches, (epoch + 1) * task.batches)
        seen = [pair for step in steps for pair in task.drawn_pairs(step).texts]
        assert sorted(seen) == sorted(task.training.texts)


def test_a_hidden_word_is_a_placeholder_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atento.tasks.translation.PASSED_ON", 1.0)
    file = tmp_path / "nomes.tsv"
    file.write_text("".join(f"eu sou Ana {n}\tI am Ana {n}\n" for n in range(20)), encoding="utf-8")
    corpus = pair_corpus(Data(source=str(file)))
    config = ModelConfig(kind="recurrent", width=10, layers=1, context=40)
    task = translating(corpus, config, Train(), torch.device("cpu"))
    batch, known = task.drawn_pairs(0), task.sides
    for (source, target), one, other in zip(batch.texts, batch.sources, batch.targets, strict=True):
        said, heard = one.tolist(), other.tolist()
        assert said.count(known.source.placeholder) == 1
        assert heard.count(known.target.placeholder) == 1
        word = next(w for w in source.split() if known.source.decode(said, [w]) == source)
        assert known.target.decode(heard, [word]) == target


def test_what_no_target_has_is_never_said(tmp_path: Path) -> None:
    task = made(tmp_path)
    tokenizer = task.sides.target.tokenizer
    assert isinstance(tokenizer, Characters)
    unsaid = {tokenizer.decode([n]) for n in task.sides.unsaid}
    assert unsaid == set("umdoisgatblr") - set("UMDOISGATBLRX ") | {"x", "\n"}


@pytest.mark.parametrize("given", MODELS)
def test_a_run_of_pairs_resumes_to_the_bit(given: dict[str, str], tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("signals are others there")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    train(tmp_path / "a" / "run", **given)
    whole, before = Translating.loss, signal.signal(signal.SIGINT, signal.default_int_handler)

    def loss(self: Translating, step: int) -> Tensor:
        if step == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return whole(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translating, "loss", loss)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "b" / "run", **given)
    signal.signal(signal.SIGINT, before)
    assert not (tmp_path / "b" / "run" / "checkpoint" / "step-00000012").exists()
    atento.train(
        tmp_path / "b" / "frases.toml", out=tmp_path / "b" / "run", quiet=True, resume=True
    )
    assert same(tmp_path / "a" / "run", tmp_path / "b" / "run", OPTIONS["steps"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"train.batch": 7}, r"train\.batch is for the task language; got 7"),
        ({"model.kind": "decoder"}, r"model\.kind must be encoder-decoder or recurrent"),
        ({"data.joint": False}, r"model\.shared must be false"),
        ({"context": 2}, r"model\.context must have room for a pair; got 2"),
        ({"train.tokens": 3}, "a batch must have room for its longest pair"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    given: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says):
        train(tmp_path / "run", **given)
    assert not (tmp_path / "run" / "recipe.toml").exists()


def test_a_text_has_no_use_for_what_pairs_need() -> None:
    for option, value in (("data.languages", "en,de"), ("train.tokens", 99)):
        with pytest.raises(UserError, match=f"{option} is for the task translation"):
            Recipe().with_options({option: value})


def test_pairs_longer_than_the_context_are_left_out_and_counted(tmp_path: Path) -> None:
    task = made(tmp_path)
    corpus = pair_corpus(Data(source=str(phrases(tmp_path))))
    config = ModelConfig(kind="recurrent", width=10, layers=1, context=9)
    short = translating(corpus, config, Train(), torch.device("cpu"))
    fit = [p for p in task.training.texts if max(map(len, p)) < 9]
    assert short.training.texts == fit
    assert short.left_out == len(task.training) - len(fit) > 0
    assert f"{short.left_out} longer than the context left out" in short.sizes()
    assert len(short.validation) == len(task.validation)


def test_each_side_may_have_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    run = train(tmp_path / "run", **{"data.joint": False, "model.shared": False})
    again = atento.load(tmp_path / "run")
    for held in (run, again):
        assert isinstance(held.sides.source, Known)
        assert held.sides.source.tokenizer.characters == "\n abdgilmorstux"
        assert held.sides.target.tokenizer.characters == "\n ABDGILMORSTUX"
    assert [m[0].text for m in run.translate(["um gato"])] == [
        m[0].text for m in again.translate(["um gato"])
    ]
