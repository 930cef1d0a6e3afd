"""Activation checkpointing."""

import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from atento.errors import UserError
from atento.models.config import ModelConfig
from atento.training.recompute import recomputed
from training.toy import Toy, train

DEEP = ModelConfig(width=24, layers=7, heads=2, context=7, vocabulary=11, dropout=0.2)


class Live(TorchDispatchMode):
    """The bytes of the tensors that operators made and that still live, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor):
                self.count(x)
        return out

    def count(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if key in self.known or not size:
            return
        self.known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.forget, key, size)

    def forget(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def measured(what: str) -> tuple[list[Tensor], int]:
    task = Toy(DEEP)
    task.model.train()
    with recomputed(task.model, what), Live() as live:
        task._loss(task.tokens(101, 0)).backward()
    return [p.grad for p in task.model.parameters() if p.grad is not None], live.peak


def test_gradients_are_identical_and_the_peak_is_lower() -> None:
    stored, peak = measured("nothing")
    again, lower = measured("blocks")
    assert len(stored) == len(again) > 50
    assert all(torch.equal(a, b) for a, b in zip(stored, again, strict=True))
    assert lower < peak / 2


def test_the_whole_training_is_the_same(tmp_path: Path) -> None:
    tasks = []
    for what in ("nothing", "blocks"):
        tasks.append(Toy())
        train(tmp_path / what, {"recompute": what}, tasks[-1])
    pairs = zip(*(task.model.parameters() for task in tasks), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert "forward" not in vars(tasks[1].model.blocks[0])


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(UserError, match="has no blocks"), recomputed(nn.Linear(2, 2), "blocks"):
        pass
