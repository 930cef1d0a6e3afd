"""Pairs by name and from files, split, and what their splits share."""

import importlib.util
import os
from pathlib import Path

import pytest

from atento.data.pairs import Pairs, Shared, read_pairs
from atento.errors import UserError

LINES = [(f"linha {n}", f"line {n}") for n in range(37)]
DATA = Path(os.environ.get("ATENTO_DATA") or Path(__file__).parents[3] / "shared" / "data")
HAS_VERSES = all(importlib.util.find_spec(f"pythonbible_{p}") for p in ("kjv", "web"))


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    return written(tmp_path / "x.tsv", LINES)


def written(file: Path, pairs: list[tuple[str, str]]) -> Path:
    file.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return file


def test_a_file_without_splits_is_split_in_order(tsv: Path) -> None:
    made = read_pairs(str(tsv))
    assert (made.training, made.validation, made.test) == (LINES[:34], LINES[34:], [])


def test_further_files_are_validation_and_test(tsv: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "y.tsv", [("linha 3", "line 3"), ("linha 4", "row 4"), ("", "x")])
    made = read_pairs(str(tsv), validation=str(other), test=str(other))
    assert made.training == LINES
    assert made.validation == made.test == [("linha 3", "line 3"), ("linha 4", "row 4"), ("", "x")]


def test_what_is_shared_with_training_is_counted() -> None:
    made = Pairs([("a", "x"), ("b", "y")], [("a", "z"), ("b", "y"), ("c", "x")], [("b", "y")] * 2)
    assert made.shared("validation") == Shared(sources=2, pairs=1)
    assert made.shared("test") == Shared(sources=2, pairs=2)


def test_the_sum_is_of_every_pair_and_its_place() -> None:
    one = Pairs([("a", "x")], [("b", "y")], [])
    assert one.sha256 == Pairs([("a", "x")], [("b", "y")], []).sha256
    others = [
        Pairs([("b", "y")], [("a", "x")], []),
        Pairs([("a", "x"), ("b", "y")], [], []),
        Pairs([("x", "a")], [("b", "y")], []),
    ]
    assert len({one.sha256, *(other.sha256 for other in others)}) == 4


@pytest.mark.parametrize("name", ["dates", "copy", "reverse"])
def test_generated_sets_share_no_pairs(name: str) -> None:
    made = read_pairs(name)
    assert made.shared("validation") == made.shared("test") == Shared(sources=0, pairs=0)


@pytest.mark.skipif(not HAS_VERSES, reason="pythonbible's packages are not installed")
def test_the_bibles_have_31099_verses_in_common() -> None:
    made = read_pairs("kjv-web")
    assert len(made.training) + len(made.validation) == 31_099
    assert len(made.validation) == 3_109
    assert made.training[0] == (
        "In the beginning God created the heaven and the earth.",
        "In the beginning God created the heavens and the earth.",
    )
    turned = read_pairs("kjv-web", languages="web,kjv")
    assert turned.validation[0] == made.validation[0][::-1]


@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason="Multi30k is not beside this checkout")
@pytest.mark.parametrize("name", ["multi30k", "multi30k-tok"])
def test_multi30k_is_found_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATENTO_DATA", str(DATA))
    made = read_pairs(name)
    assert [len(x) for x in (made.training, made.validation, made.test)] == [29_000, 1_014, 1_000]
    assert made.shared("validation") == Shared(sources=1, pairs=0)
    tok = name.endswith("tok")
    assert made.test[0][0] == (
        "a man in an orange hat starring at something ."
        if tok
        else "A man in an orange hat starring at something."
    )
    assert read_pairs(name, languages="de,en").test[0] == made.test[0][::-1]
    folder = DATA / ("multi30k/tok" if tok else "multi30k")
    assert read_pairs(str(folder), languages="en,de") == made


def test_another_file_in_a_sets_place_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.en").write_text("a\n", encoding="utf-8")
    monkeypatch.setenv("ATENTO_DATA", str(tmp_path))
    with pytest.raises(UserError, match="must have SHA-256 460a15fbd157…"):
        read_pairs("multi30k")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": ""}, "data.source must be pairs .* got nothing"),
        ({"source": "copy", "languages": "en"}, "such as en,de; got 'en'"),
        ({"source": "copy", "languages": "en,en"}, "such as en,de"),
        (
            {"source": "dates", "languages": "pt,en"},
            "must be written,iso or iso,written; got pt,en",
        ),
        ({"source": "dates", "test": "more.tsv"}, "would replace the test pairs"),
        ({"source": "nowhere.tsv"}, "nowhere.tsv cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        read_pairs(**given)
    assert "\n" not in str(caught.value)


def test_too_few_pairs_and_none_are_named(tmp_path: Path, tsv: Path) -> None:
    few = written(tmp_path / "few.tsv", LINES[:9])
    with pytest.raises(UserError, match=r"at least 10 pairs .* has 9"):
        read_pairs(str(few))
    nothing = written(tmp_path / "none.tsv", [])
    with pytest.raises(UserError, match=r"data.validation must hold pairs"):
        read_pairs(str(tsv), validation=str(nothing))
