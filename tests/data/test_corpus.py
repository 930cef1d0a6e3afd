"""A mapped text is the same as one in memory; a file cut off is not used; memory stays flat."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from atento.data import corpus as module
from atento.data import sets, tokenizers
from atento.data.batches import random_windows, whole_windows
from atento.data.config import Data
from atento.data.corpus import Corpus, corpus
from atento.data.text import read, split
from atento.errors import UserError

KINDS = pytest.mark.parametrize("kind", ["characters", "bytes", "bpe", "unigram"])


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "cache_folder", lambda: tmp_path / "cache")


def written(folder: Path, lines: int) -> Path:
    """Lines with accents, an emoji and both line ends; no two alike."""
    file = folder / "livro.txt"
    ends = ("\n", "\r\n", "\r\n")
    text = "".join(
        f"linha {i}: à míngua, {i * i % 977} maçãs 🐈{ends[i % 3]}" for i in range(lines)
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    return file


def token_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "tokens").iterdir())


@KINDS
def test_a_mapped_text_is_the_same_token_by_token(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of 1013 characters, so that there are many: 9,000 lines make 0.4 MB."""
    monkeypatch.setattr(tokenizers, "BLOCK", 1013)
    data = Data(source=str(written(tmp_path, 9_000)), tokenizer=kind)
    small, large = corpus(data), corpus(data, memory=100_000)
    assert small.file is None
    assert large.file is not None
    assert large.tokens.dtype == np.uint16
    assert np.array_equal(small.tokens, large.tokens)
    assert (small.sha256, small.survey, small.source) == (large.sha256, large.survey, large.source)
    assert small.tokenizer.to_json() == large.tokenizer.to_json()
    assert small.tokenizer.decode(large.tokens.tolist()) == read(data.source).content
    for one, other in zip(_windows(small), _windows(large), strict=True):
        assert one.dtype == other.dtype == np.int64
        assert np.array_equal(one, other)


def _windows(made: Corpus) -> list[np.ndarray]:
    training, validation = split(made.tokens, 17)
    return [random_windows(training, 17, 5, 3, 2), *whole_windows(validation[:1000], 17, 7)]


def test_numbers_above_65535_are_four_bytes(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    points = [c for c in range(0x20, 0x12000) if not 0xD800 <= c < 0xE000]
    file.write_text("".join(map(chr, points)), encoding="utf-8", newline="\n")
    made = corpus(Data(source=str(file)), memory=0)
    assert made.tokens.dtype == np.uint32
    assert made.tokenizer.decode(made.tokens.tolist()) == read(str(file)).content


def test_the_second_time_the_file_is_found(tmp_path: Path) -> None:
    data = Data(source=str(written(tmp_path, 500)), tokenizer="bytes")
    said: list[str] = []
    for _ in range(2):
        corpus(data, memory=0, progress=lambda what, done, whole: said.append(what))
    assert said.count("writing tokens") == 1
    assert said.count("reading") == 2
    assert len(token_files(tmp_path)) == 1
    written(tmp_path, 501)
    corpus(data, memory=0)
    assert len(token_files(tmp_path)) == 2


@pytest.mark.parametrize("change", ["cut", "header", "empty", "longer"])
def test_a_file_that_was_cut_off_is_never_used(change: str, tmp_path: Path) -> None:
    data = Data(source=str(written(tmp_path, 500)), tokenizer="bytes")
    right = corpus(data, memory=0)
    expected = np.array(right.tokens)
    del right
    (file,) = token_files(tmp_path)
    content = file.read_bytes()
    broken = {"cut": content[:-1], "header": b"x" + content[1:], "empty": b""}
    file.write_bytes(broken.get(change, content + b"\0"))
    assert np.array_equal(corpus(data, memory=0).tokens, expected)
    assert file.read_bytes() == content


def test_an_encoding_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Data(source=str(written(tmp_path, 500)))
    (tmp_path / "b.txt").write_text("x", encoding="utf-8")
    wanted = corpus(data).tokenizer
    with pytest.raises(UserError, match="got 'x'"):
        corpus(Data(source=str(tmp_path / "b.txt")), tokenizer=wanted, memory=0)
    assert token_files(tmp_path) == []

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        corpus(data, memory=0)
    assert token_files(tmp_path) == []


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    said: dict[str, tuple[int, int]] = {}
    data = Data(source=str(written(tmp_path, 500)))
    made = corpus(data, memory=0, progress=lambda what, *far: said.update({what: far}))
    characters = made.survey.characters
    assert said["writing tokens"] == (characters, characters)
    assert said["reading"][1] == (tmp_path / "livro.txt").stat().st_size


def test_pieces_are_learnt_from_the_first_nine_tenths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "".join(module._learnt_from(["abcdef", "ghij", "klmno", "pqrst"], 20)) == (
        "abcdefghijklmnopqr"
    )
    monkeypatch.setattr(module, "LEARNT_FROM", 9)
    assert list(module._learnt_from(["abcdef", "ghij", "klmno", "pqrst"], 20)) == [
        "abcdef",
        "klmno",
    ]


def test_a_text_of_blanks_is_refused_at_any_size(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b" \r\n" * 99)
    for memory in (0, 1000):
        with pytest.raises(UserError, match="holds no text"):
            corpus(Data(source=str(tmp_path / "x.txt")), memory=memory)


SCRIPT = """
import resource, sys, tracemalloc
from pathlib import Path
import numpy as np
from atento.data import sets
from atento.data.batches import random_windows
from atento.data.config import Data
from atento.data.corpus import corpus
home = Path(sys.argv[1])
sets.cache_folder = lambda: home / "cache"
line = "linha de um livro que não cabe na memória, nem precisa: à toa\\n"
for kind in ("characters", "bytes"):
    for million in (3, 24):
        file = home / f"{million}.txt"
        with file.open("w", encoding="utf-8", newline="\\n") as out:
            for i in range(million * 16):
                out.write(line * 1000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tracemalloc.start()
        made = corpus(Data(source=str(file), tokenizer=kind), memory=1 << 20)
        for step in range(20):
            random_windows(made.tokens, 64, 32, 0, step)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(peak, grown * 1024, len(made.tokens))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """3 MB and 24 MB; in memory the larger takes 24 MB of text and 190 MB of tokens."""
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    rows = [[int(n) for n in line.split()] for line in said.splitlines()]
    for (small, _, few), (large, grown, many) in zip(rows[::2], rows[1::2], strict=True):
        assert many == 8 * few > 20_000_000
        assert large < 1.3 * small + 2_000_000, said
        assert grown < 60_000_000, said
