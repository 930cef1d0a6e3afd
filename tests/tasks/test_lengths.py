"""Losses at contexts other than the trained one: by hand, with positions stretched, as a table."""

import json
import math
from pathlib import Path

import pytest
import torch

from atento.cli import main
from atento.core.rotary import Rotary
from atento.data.questions import Hidden
from atento.errors import UserError
from atento.tasks import Run, train
from atento.tasks.length_table import length_table
from atento.tasks.lengths import extended, loss_at
from tasks.books import recipe

QUICK = {"steps": 20, "evaluate_every": 20, "dropout": 0.0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    made = recipe(folder).with_options(QUICK)
    return {
        name: train(made, out=folder / name, quiet=True, positions=name)
        for name in ("rotary", "learned")
    }


def by_hand(run: Run, context: int) -> float:
    """The oracle: each target alone, after what its window of so many tokens shows."""
    tokens, losses = torch.from_numpy(run.validation().copy()), []
    for target in range(1, len(tokens)):
        start = (target - 1) // context * context
        logits = run.model(tokens[None, start:target])[0, -1].double().log_softmax(-1)
        losses.append(-logits[tokens[target]].item())
    return math.fsum(losses) / len(losses)


@torch.inference_mode()
@pytest.mark.parametrize("context", [1, 5, 8, 13, 29])
def test_the_loss_at_a_context_is_that_of_windows_of_it(runs: dict[str, Run], context: int) -> None:
    run = runs["rotary"]
    expected = by_hand(run, context)
    found = run.evaluate(contexts=[context])
    assert found[f"val_loss_at_{context}"] == pytest.approx(expected, rel=1e-6)
    assert found["val_loss"] == run.evaluate()["val_loss"]


@pytest.mark.parametrize("how", ["linear", "ntk", "yarn"])
def test_an_extension_changes_positions_and_no_weight(runs: dict[str, Run], how: str) -> None:
    run = runs["rotary"]
    made = extended(run.model, run.config, 24, how)
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, made.state_dict()[name]), name
    expected = {
        "linear": Rotary.linear(8, 3.0),
        "ntk": Rotary.ntk(8, 3.0),
        "yarn": Rotary.yarn(8, 3.0, 8),
    }[how]  # heads of 8, and 3 times the 8 tokens of the training
    turned: Rotary = made.blocks[1].attention.rotary()
    assert torch.equal(turned.frequencies, expected.frequencies)
    assert turned.amplitude == expected.amplitude
    tokens = torch.from_numpy(run.validation()[None, :24].copy())
    assert not torch.allclose(made(tokens), run.model(tokens))
    within = extended(run.model, run.config, 5, how)
    assert torch.equal(within(tokens), run.model(tokens))


def test_a_table_has_a_row_for_each_way_and_learned_positions_say_where_they_end(
    runs: dict[str, Run],
) -> None:
    rows = length_table([runs["learned"], runs["rotary"]], [8, 16])
    assert [(row.positions, row.extension) for row in rows] == [
        ("learned", "none"),
        *(("rotary", how) for how in ("none", "linear", "ntk", "yarn")),
    ]
    for row in rows:
        assert row.trained == 8
    within, beyond = rows[0].losses
    assert within == pytest.approx(min(m["val_loss"] for m in runs["learned"].metrics), rel=1e-6)
    assert "must be at most 8 tokens, whose positions were learned; got 16" in beyond
    assert len({row.losses[0] for row in rows[1:]}) == 1
    assert len({row.losses[1] for row in rows[1:]}) == 4
    with pytest.raises(UserError, match="whose positions were learned"):
        runs["learned"].evaluate(contexts=[16])


def test_an_encoder_is_asked_at_other_contexts_too(tmp_path: Path) -> None:
    made = recipe(tmp_path).with_options(QUICK)
    options = {"model.kind": "encoder", "model.mask": "Full()", "positions": "alibi"}
    run = train(made, out=tmp_path / "run", quiet=True, **options)
    expected = loss_at(run.model, run.config, run.validation(), 13, asking=Hidden(0.15))
    assert run.evaluate(contexts=[13])["val_loss_at_13"] == expected


def test_what_cannot_be_asked_is_named(runs: dict[str, Run]) -> None:
    with pytest.raises(UserError, match="contexts must be at least 1"):
        runs["rotary"].evaluate(contexts=[0])
    with pytest.raises(UserError, match="must be at least 1 and fit the"):
        runs["rotary"].evaluate(contexts=[10**6])
    with pytest.raises(UserError, match="extension must be one of"):
        runs["rotary"].evaluate(contexts=[9], extension="more")
    with pytest.raises(UserError, match=r"'yarn' stretches rotary positions.*'learned'"):
        runs["learned"].evaluate(contexts=[8], extension="yarn")
    with pytest.raises(UserError, match="needs a run and a context"):
        length_table([], [8])


def test_eval_prints_the_table(runs: dict[str, Run], capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(run.folder) for run in runs.values()]
    assert main(["eval", *folders, "--contexts", "8,16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {tuple(line.split()[1:-3]): line.split()[-2:] for line in lines[2:-1]}
    table = length_table(list(runs.values()), [8, 16])
    for row in table[:4]:
        key = ("rotary",) if row.extension == "none" else ("rotary", "+", row.extension)
        assert rows[key] == [f"{loss:.4f}" for loss in row.losses]
    assert lines[-2].endswith("error 1")
    assert lines[-1].startswith("error 1: the context must be at most 8 tokens")
    assert main(["eval", folders[0], "--contexts", "8, 16", "--extension", "ntk", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["val_loss_at_16_ntk"] == table[2].losses[1]
    assert found["val_loss_at_16"] == table[0].losses[1]
    assert main(["eval", folders[1], "--contexts", "16", "--json"]) == 0
    assert "positions were learned" in json.loads(capsys.readouterr().out)["error_at_16"]


@pytest.mark.slow
def test_yarn_goes_on_where_sinusoids_fail_and_learned_positions_end(tmp_path: Path) -> None:
    options = {
        "source": "pydoc",  # CPython's own reference: it is everywhere
        **{"width": 32, "layers": 2, "heads": 2, "context": 16, "dropout": 0.0},
        **{"batch": 32, "steps": 400, "evaluate_every": 400, "rate": 5e-3, "warmup": 30},
    }
    made = [
        train("text", out=tmp_path / name, quiet=True, positions=name, **options)
        for name in ("sinusoidal", "rotary", "alibi", "learned")
    ]
    rows = {(r.positions, r.extension): r.losses for r in length_table(made, [16, 32, 64])}
    assert len(rows) == 7
    for at in (1, 2):  # 2 and 4 times the trained context
        assert rows["rotary", "yarn"][at] < rows["sinusoidal", "none"][at] - 0.05
        assert "positions were learned" in rows["learned", "none"][at]
    assert rows["sinusoidal", "none"][1] > rows["sinusoidal", "none"][0]
