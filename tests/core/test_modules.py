"""Masks and biases in exported programs, compiled code, modules and processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from atento.core.attend import attend
from atento.core.biases import T5Bias
from atento.core.compose import Mask
from atento.core.masks import Causal, Prefix
from atento.core.positions import Positions
from atento.core.rotary import Rotary
from atento.core.scores import Dot
from atento.core.tables import Dense, Documents, Padding
from core_oracle import EXACT, plain, qkv

B, H, Q, K, D = 2, 3, 5, 7, 11


class TakesMask(nn.Module):
    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        return attend(x, x, x, mask=mask)


EXPORTED = {
    "Documents": lambda n: Causal() & Documents(torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, n]])),
    "Padding": lambda n: Padding(torch.tensor([n, 3])),
    "keep": lambda n: Padding(torch.arange(Q)[None] < torch.tensor([[n], [3]])) | Prefix(1),
    "Dense": lambda n: Dense(torch.arange(Q)[:, None] >= torch.arange(Q) - n),
    "Not": lambda n: ~Prefix(torch.tensor([n, 0])),
    "two Documents": lambda n: (
        Documents(torch.tensor([0, 1, n, 0, 1])) | Documents(torch.tensor([0, 0, 1, 1, n]))
    ),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_export_takes_a_mask_as_input(name):
    x = torch.randn(B, H, Q, D, dtype=torch.float64)
    make = EXPORTED[name]
    program = torch.export.export(TakesMask(), (x, make(2)))
    for n in (2, 4, 1):
        mask = make(n)
        expected = plain(x, x, x, allow=mask.dense(Q, Q, B))
        assert (program.module()(x, mask) - expected).abs().max() < EXACT


def test_export_takes_positions_as_input():
    class Decode(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, at: Positions) -> Tensor:
            return attend(q, k, v, mask=Causal(), at=at)

    q, k, v = qkv()

    def at(first: int) -> Positions:
        return Positions(torch.arange(first, first + Q), torch.tensor([0, 1, 2, 3, -1, 5, 6]))

    program = torch.export.export(Decode(), (q, k, v, at(0)))
    for first in (0, 3):
        expected = plain(q, k, v, allow=Causal().dense(Q, K, at=at(first)))
        assert (program.module()(q, k, v, at(first)) - expected).abs().max() < EXACT


class Owner(nn.Module):
    """Owns tensors as parameters and buffers, and builds the objects in each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(H * D, 3 * H * D, bias=False)
        self.table = nn.Parameter(torch.randn(8, H) / 3)
        self.sink = nn.Parameter(torch.zeros(H))
        self.register_buffer("ids", torch.tensor([0, 0, 1, 1, 1]))
        self.register_buffer("frequencies", Rotary.standard(4).frequencies)

    def forward(self, x: Tensor) -> Tensor:  # [B, Q, H · D]
        q, k, v = self.project(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        q, k = Rotary(self.frequencies).rotate(q, k)
        mask = Causal() & Documents(self.ids)
        bias, score = T5Bias(self.table, bidirectional=False), Dot(sink=self.sink)
        return attend(q, k, v, mask=mask, bias=bias, score=score).transpose(1, 2).flatten(2)


def owner() -> Owner:
    torch.manual_seed(0)
    return Owner()


def test_export_of_a_module_that_builds_its_objects_from_buffers():
    model, x = owner().double(), torch.randn(B, Q, H * D, dtype=torch.float64)
    program = torch.export.export(model, (x,))
    other = torch.randn(B, Q, H * D, dtype=torch.float64)
    assert (program.module()(other) - model(other)).abs().max() < EXACT
    assert {"ids", "frequencies", "table", "sink", "project.weight"} == set(program.state_dict)


def test_an_exported_program_is_saved_and_loaded(tmp_path: Path):
    model, x = owner().double(), torch.randn(B, Q, H * D, dtype=torch.float64)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "p.pt2")
    loaded = torch.export.load(tmp_path / "p.pt2")
    assert (loaded.module()(x) - model(x)).abs().max() < EXACT


def test_compiled_code_takes_masks_and_sees_new_tensors():
    counter = CompileCounter()
    fn = torch.compile(lambda x, m: attend(x, x, x, mask=m), fullgraph=True, backend=counter)
    x = torch.randn(B, H, Q, D, dtype=torch.float64)
    for n in (2, 4, 1):
        mask = EXPORTED["Documents"](n)
        assert (fn(x, mask) - plain(x, x, x, allow=mask.dense(Q, Q, B))).abs().max() < EXACT
    assert counter.frame_count == 1


def test_compiled_code_joins_two_masks_of_equal_structure():
    fn = torch.compile(
        lambda x, a, b: attend(x, x, x, mask=Documents(a) | Documents(b)),
        fullgraph=True,
        backend="eager",
    )
    x = torch.randn(B, H, Q, D, dtype=torch.float64)
    a, b = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 1, 0, 2])
    expected = plain(x, x, x, allow=(Documents(a) | Documents(b)).dense(Q, Q))
    assert (fn(x, a, b) - expected).abs().max() < EXACT


# Modules


def test_state_dict_round_trip_of_a_module_that_owns_the_tensors():
    one, x = owner(), torch.randn(B, Q, H * D)
    with torch.no_grad():
        one.table.add_(1.0)
        one.ids.copy_(torch.tensor([0, 1, 1, 1, 1]))
    two = owner()
    assert not torch.equal(one(x), two(x))
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(x), two(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_module_to_a_dtype_keeps_integer_tables(dtype):
    model = owner().to(dtype)
    assert model.ids.dtype == torch.int64
    out = model(torch.randn(B, Q, H * D).to(dtype))
    assert out.dtype == dtype
    assert out.isfinite().all()


def test_module_to_meta_moves_everything():
    model = owner().to("meta")
    assert model(torch.empty(B, Q, H * D, device="meta")).shape == (B, Q, H * D)


WORKER = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
sys.path.insert(0, {here!r})
from test_modules import owner, H, D, Q

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}", rank=rank, world_size=2)
model = owner().double()
x = torch.randn(4, Q, H * D, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
model(x).square().mean().backward()
expected = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
shared = DistributedDataParallel(model)
for step in range(2):
    model.zero_grad()
    shared(x[2 * rank : 2 * rank + 2]).square().mean().backward()
for p, e in zip(model.parameters(), expected, strict=True):
    assert (p.grad - e).abs().max() < 1e-12, (p.grad - e).abs().max()
assert all(e.abs().sum() > 0 for e in expected)
print("equal", flush=True)
dist.barrier()
os._exit(0)  # gloo's threads sometimes end the interpreter's end with an abort
"""


def test_ddp_on_two_processes_gives_the_gradients_of_the_whole_batch():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    here = Path(__file__).resolve().parent
    paths = [str(here), str(here.parent), str(here.parents[1] / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GLOO_SOCKET_IFNAME": "lo"}
    env["OMP_NUM_THREADS"] = "1"
    code = WORKER.format(here=str(here), port=port)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    for process, (out, err) in zip(running, said, strict=True):
        assert process.returncode == 0, err[-3000:]
        assert out.strip() == "equal"
