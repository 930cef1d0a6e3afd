"""Trains a Toy in real processes that are killed -9 at random moments; prints what came of it.

A process of its own, because it forks: here torch has no threads yet that a fork would lose.
Usage: killed.py FOLDER MOMENTS STEPS
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from atento.training.checkpoint import latest, step_of
from training.toy import Toy, train


def started(folder: Path, steps: int, log: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        given = {"steps": steps, "optimizer": "muon", "ema": 0.9, "accumulate": 2}
        train(folder, given, Toy(log=log))
    except BaseException as error:
        print(error, file=sys.stderr)
        os._exit(1)
    os._exit(0)


def wait(child: int, log: Path, batches: int, grace: float) -> int | None:
    """Until the child has drawn so many batches and a little longer; its status if it ended before.

    Moments are counted in the child's own work: on the clock, a slow machine would kill each child
    before its first checkpoint, and a fast one would let the first run to its end.
    """
    while not log.exists() or log.read_bytes().count(b"\n") < batches:
        if batches == 0:
            break
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    time.sleep(grace)
    return None


def main(home: Path, moments: int, steps: int) -> dict[str, object]:
    """How many were killed in time, whether one went on from a checkpoint, what was repeated."""
    assert os.waitpid(started(home / "whole", steps, home / "whole.log"), 0)[1] == 0
    log, kills, repeated, resumed = home / "killed.log", 0, [], False
    dice = random.Random(7)
    (home / "killed").mkdir()
    for moment in range(moments + 1):
        checkpoint = latest(home / "killed")
        done = step_of(checkpoint) if checkpoint else 0
        resumed = resumed or 0 < done < steps
        log.unlink(missing_ok=True)
        child = started(home / "killed", steps, log)
        status = None
        if moment < moments:  # the last one may finish
            batches = dice.randint(0, 2 * steps // moments)  # two batches a step
            status = wait(child, log, batches, dice.uniform(0, 0.02))
            if status is None:
                os.kill(child, signal.SIGKILL)
        if status is None:
            status = os.waitpid(child, 0)[1]
        kills += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        lines = log.read_text().split() if log.exists() else []
        repeated += [int(n) // 2 for n in lines if int(n) // 2 < done]
    return {"kills": kills, "repeated": repeated, "resumed": resumed}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
