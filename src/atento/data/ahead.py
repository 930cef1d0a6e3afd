"""Pages of a mapped file asked for before they are read, so that no step waits for the disk.

Which windows a step sees follows from its number, so those of later steps are known by now. Without
this a fault for each window waits for the disk, and reads 128 KiB for a few hundred bytes.
"""

import mmap

import numpy as np
from numpy.typing import NDArray

from atento.data.text import Tokens

__all__ = ["ask_for", "mapped"]

WILL_NEED = getattr(mmap, "MADV_WILLNEED", None)  # not on Windows


def mapped(tokens: Tokens) -> mmap.mmap | None:
    """The mapping that an array looks into, where there is one that takes advice."""
    under: object = tokens
    while isinstance(under, np.ndarray):
        under = under.base
    return under if isinstance(under, mmap.mmap) and WILL_NEED is not None else None


def ask_for(page: mmap.mmap, tokens: Tokens, starts: NDArray[np.int64], length: int) -> None:
    """Asks for tokens[s : s + length] of each start; nothing waits, nothing is changed.

    Claim: bench/records/stream_cpu.json
    """
    if WILL_NEED is None:
        return
    # Where the array begins in the mapping: both addresses are those of this process.
    begin = tokens.ctypes.data - np.frombuffer(page, np.uint8).ctypes.data
    first = begin + starts * tokens.itemsize
    last = first + length * tokens.itemsize
    first -= first % mmap.PAGESIZE
    for start, size in zip(first.tolist(), (last - first).tolist(), strict=True):
        page.madvise(WILL_NEED, start, min(size, len(page) - start))
