"""How torch's threads wait for each other; to be said before torch is imported."""

import os
import sys

__all__ = ["spin_briefly"]


def spin_briefly() -> None:
    """Lets waiting threads sleep soon, unless the environment says how they should wait.

    GNU OpenMP's threads spin for milliseconds at each barrier, and so hold up the very thread they
    wait for where another program wants the same cores. 100 steps of lecture 003's model on 2 busy
    cores: 30–52 s by default, 7 s so; on 2 idle cores a step takes 25.2 ms instead of 24.4
    (2026-11).
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
