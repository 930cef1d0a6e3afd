"""Steps that are captured as a CUDA graph are the eager ones."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from atento.models.config import ModelConfig
from atento.training.loop import read_metrics
from training.toy import Toy, train

pytestmark = pytest.mark.gpu
CHANGES = [{}, {"optimizer": "muon"}, {"accumulate": 2, "ema": 0.9}, {"precision": "bfloat16"}]
PLAIN = ModelConfig(width=12, layers=2, heads=2, context=7, vocabulary=11)


class OnCuda(Toy):
    def __init__(self, config: ModelConfig = PLAIN) -> None:
        super().__init__(config)
        self.model.cuda()

    def _loss(self, tokens: torch.Tensor) -> torch.Tensor:
        return super()._loss(tokens.cuda())


class Dropping(OnCuda):
    def __init__(self) -> None:
        super().__init__(ModelConfig(**(vars(PLAIN) | {"dropout": 0.2})))


def losses(folder: Path) -> list[float]:
    return [record["train_loss"] for record in read_metrics(folder)]


@pytest.mark.parametrize("given", CHANGES, ids=lambda given: "-".join(given) or "plain")
def test_captured_steps_have_the_losses_of_eager_ones(
    given: dict[str, object], tmp_path: Path
) -> None:
    for execution in ("eager", "graph"):
        more = {"execution": execution, "steps": 100, "evaluate_every": 1}
        state = train(tmp_path / execution, given | more, OnCuda())
        assert state.execution == execution
    rel = 2e-2 if given.get("precision") == "bfloat16" else 1e-3
    assert losses(tmp_path / "graph") == pytest.approx(losses(tmp_path / "eager"), rel=rel)
    assert losses(tmp_path / "graph")[-1] < losses(tmp_path / "graph")[0]


def test_a_replayed_dropout_draws_anew_in_each_step(tmp_path: Path) -> None:
    class Still(Dropping):
        """The same batch in each step, and weights that hardly move."""

        def drawn(self, number: int) -> tuple[torch.Tensor, ...]:
            return super().drawn(0)

    given = {"execution": "graph", "steps": 20, "evaluate_every": 1, "rate": 1e-9}
    train(tmp_path, given, Still())
    assert len(set(losses(tmp_path))) == 20


def test_a_captured_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    given = {"execution": "graph", "schedule": "constant", "warmup": 0}
    train(tmp_path / "whole", given | {"steps": 40}, Dropping())
    train(tmp_path / "run", given | {"steps": 21}, Dropping())
    train(tmp_path / "run", given | {"steps": 40}, Dropping())
    name = "checkpoint/step-00000040/model.safetensors"
    whole, run = (load_file(tmp_path / folder / name) for folder in ("whole", "run"))
    for key in whole:
        torch.testing.assert_close(run[key], whole[key], rtol=1e-3, atol=1e-4)
