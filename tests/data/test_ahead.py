"""Pages of a mapped text are asked for before they are read: the right ones, and nothing else."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from atento.data import sets
from atento.data.ahead import mapped
from atento.data.batches import AHEAD, random_windows
from atento.data.config import Data
from atento.data.corpus import corpus

HEADER, COUNT, CONTEXT = 128, 500_009, 13

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_WILLNEED"), reason="no advice is taken")


class Watched(mmap.mmap):
    """A mapping that remembers what it was asked for."""

    def madvise(self, option: int, start: int, length: int) -> None:
        assert option == mmap.MADV_WILLNEED
        super().madvise(option, start, length)  # a wrong range is an error here
        self.asked.append((start, start + length))


@pytest.fixture
def page(tmp_path: Path) -> Watched:
    numbers = np.arange(COUNT).astype("<u2")
    (tmp_path / "x.tokens").write_bytes(b" " * HEADER + numbers.tobytes())
    with (tmp_path / "x.tokens").open("rb") as file:
        made = Watched(file.fileno(), 0, access=mmap.ACCESS_READ)
    made.asked = []
    return made


def test_the_windows_of_a_later_step_are_asked_for(page: Watched) -> None:
    tokens = np.ndarray((COUNT,), "<u2", buffer=page, offset=HEADER)
    for part, skipped in ((tokens, 0), (tokens[1001:-77], 1001)):
        page.asked.clear()
        random_windows(part, CONTEXT, 7, seed=3, step=5)
        asked = page.asked[:]
        assert len(asked) == 7
        later = random_windows(np.arange(len(part)), CONTEXT, 7, seed=3, step=5 + AHEAD)
        for (first, last), window in zip(asked, later, strict=True):
            assert first % mmap.PAGESIZE == 0
            assert first <= HEADER + 2 * (skipped + window[0]) < first + mmap.PAGESIZE
            assert last == HEADER + 2 * (skipped + window[-1] + 1) <= len(page)


def test_what_is_seen_is_the_same_as_in_memory(page: Watched) -> None:
    tokens = np.ndarray((COUNT,), "<u2", buffer=page, offset=HEADER)
    for step in range(3):
        found = random_windows(tokens, CONTEXT, 7, seed=3, step=step)
        assert (found == random_windows(np.array(tokens), CONTEXT, 7, seed=3, step=step)).all()


def test_a_text_in_memory_is_asked_for_nothing_and_a_mapped_one_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "cache_folder", lambda: tmp_path / "cache")
    assert mapped(np.arange(9)) is None
    assert mapped(np.arange(9)[2:5]) is None
    file = tmp_path / "livro.txt"
    file.write_text("o rato roeu a roupa\n" * 99, encoding="utf-8", newline="\n")
    assert mapped(corpus(Data(source=str(file))).tokens) is None
    large = corpus(Data(source=str(file)), memory=0).tokens
    assert isinstance(mapped(large), mmap.mmap)
    assert isinstance(mapped(large[5:-5]), mmap.mmap)
