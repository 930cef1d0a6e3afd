"""Several processes that train as one: torchrun starts them, and each has its share of a batch.

Gradients are averaged by NCCL between GPUs and by gloo between CPUs. What processes say to each
other goes by gloo, as JSON. A process that was started alone is the first of one, and nothing here
costs it anything.
"""

import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from atento.errors import UserError

__all__ = [
    "anywhere",
    "average_gradients",
    "everyones",
    "first",
    "check_share",
    "from_first",
    "in_turn",
    "joined",
    "mean",
    "processes",
    "rank",
    "share",
    "together",
]

T = TypeVar("T")
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(minutes=30)  # the others wait while the first one evaluates
LAST_WORD = timedelta(seconds=10)  # torchrun ends all once one has ended: the first speaks before


def processes() -> int:
    """How many train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is, from 0."""
    return dist.get_rank() if processes() > 1 else 0


def first() -> bool:
    """Whether this one writes and speaks."""
    return rank() == 0


def share(rows: T) -> T:
    """This process's rows of a global batch: every so-manieth, from its rank on."""
    return rows[rank() :: processes()]  # type: ignore[index,no-any-return]


def check_share(batch: int) -> None:
    """Refuses a batch that has no equal shares."""
    if batch % processes():
        near = max(1, round(batch / processes())) * processes()
        raise UserError(
            f"train.batch must be divisible by the number of processes, {processes()}, which share "
            f"it; got {batch}. Try --train.batch {near}."
        )


@contextmanager
def joined() -> Iterator[None]:
    """Within it the processes that torchrun started are one group; alone, nothing happens.

    Each process on a machine takes the GPU of its number there, where there are GPUs.
    """
    several = all(name in os.environ for name in LAUNCHED) and os.environ["WORLD_SIZE"] != "1"
    if not several or processes() > 1:
        yield
        return
    if not dist.is_available():
        raise UserError(
            "torchrun needs a torch that was built with torch.distributed; this one was not. Train "
            "with one process."
        )
    # Else the first step of an optimizer brings it in, and it holds on to the group, whose threads
    # then outlive the interpreter and abort it, now and then (torch 2.13).
    importlib.import_module("torch._dynamo")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=PATIENCE)
    try:
        with together():
            _take_a_gpu(gpus)
        yield
    except (UserError, KeyboardInterrupt):
        if not first():
            with suppress(RuntimeError):  # nothing comes but the end of the connection
                dist.irecv(torch.zeros(1), src=0).wait(LAST_WORD)  # type: ignore[union-attr]
        raise
    finally:
        dist.destroy_process_group()


def _take_a_gpu(gpus: int) -> None:
    number, here = (int(os.environ.get(f"LOCAL_{n}", "1")) for n in ("RANK", "WORLD_SIZE"))
    if gpus and here > gpus:
        raise UserError(
            f"torchrun --nproc-per-node must be at most {gpus}, the GPUs of this machine; got "
            f"{here}. Or hide the GPUs, CUDA_VISIBLE_DEVICES='', to train on its CPU."
        )
    if gpus:
        torch.cuda.set_device(number)


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Puts the mean of everyone's gradients in their place: the global batch's, from equal shares.

    All of them at once, in the model's order, so that sums never depend on when a run began.
    Claim: test_distributed.py::test_two_processes_train_as_one_with_the_same_global_batch
    Claim: test_distributed.py::test_any_number_of_processes_resumes_to_the_bit
    """
    if processes() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([x.flatten() for x in gradients])
    dist.all_reduce(flat)
    flat /= processes()
    torch._foreach_copy_(
        gradients,
        [
            part.view_as(x)
            for part, x in zip(flat.split([x.numel() for x in gradients]), gradients, strict=True)
        ],
    )


def mean(x: Tensor) -> Tensor:
    """The mean of everyone's x, on its device."""
    if processes() == 1:
        return x
    x = x.clone()
    dist.all_reduce(x)
    return x / processes()


def anywhere(asked: bool) -> bool:
    """Whether it is so on any process."""
    if processes() == 1:
        return asked
    flag = torch.tensor([int(asked)])
    dist.all_reduce(flag)
    return bool(flag)


@contextmanager
def together() -> Iterator[None]:
    """Within it a UserError on one process is raised on all of them, at its end.

    Every process passes through; so none waits for one that has given up.
    """
    if processes() == 1:
        yield
        return
    mine: UserError | None = None
    try:
        yield
    except UserError as error:
        mine = error
    if anywhere(mine is not None):
        said = _told(None if mine is None else str(mine))
        raise mine or UserError(next(line for line in said if line is not None))


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, which JSON can say, on all of them."""
    if processes() == 1:
        return make()
    made: T | None = None
    with together():
        if first():
            made = make()
    found: T = _told(made)[0]
    return found


def in_turn(make: Callable[[], T]) -> T:
    """What each process makes; the others begin when the first one has done."""
    made: list[T] = []
    for mine in (first(), not first()):
        with together():
            if mine:
                made.append(make())
    return made[0]


def everyones(tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Each process's tensors, by rank; they are on the CPU, of the same names and shapes."""
    if processes() == 1:
        return [dict(tensors)]
    found: list[dict[str, Tensor]] = [{} for _ in range(processes())]
    for name, x in tensors.items():
        parts = [torch.empty_like(x) for _ in found]
        dist.all_gather(parts, x)
        for held, part in zip(found, parts, strict=True):
            held[name] = part
    return found


def _told(value: object) -> list[Any]:
    """What each process says, by rank."""
    content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    sizes = [int(held["size"]) for held in everyones({"size": torch.tensor([len(content)])})]
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: len(content)] = content
    texts = [held["text"][:n] for held, n in zip(everyones({"text": padded}), sizes, strict=True)]
    return [json.loads(bytes(text.tolist())) for text in texts]
