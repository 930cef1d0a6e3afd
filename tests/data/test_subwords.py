"""Pieces of words: any text comes back, training repeats itself, Viterbi finds the best cut."""

import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atento.data.tokenizers import (
    BYTE_NAMES,
    PAD,
    Tokenizer,
    load_tokenizer,
    save_tokenizer,
    tokenizer_from_json,
    trained,
)
from atento.errors import UserError

ENGLISH = "the cat sat on the mat, and the other cat that sat there saw the rat; then it ran.\n" * 9
UNSEEN = "Não há ações à míngua: Müller, 東京 e 🐈‍⬛ viram\r\n\tum <PAD> de \0\x1b[0m «maçã»  \n\n"
BOTH = pytest.mark.parametrize("kind", ["bpe", "unigram"])


@cache
def learnt(kind: str) -> Tokenizer:
    return trained(kind, [ENGLISH], 300)


@BOTH
def test_portuguese_never_seen_round_trips(kind: str) -> None:
    tokenizer = learnt(kind)
    numbers = tokenizer.encode(UNSEEN).tolist()
    assert tokenizer.decode(numbers) == UNSEEN
    assert tokenizer.pad not in numbers
    assert max(numbers) < len(tokenizer)


@BOTH
@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from([PAD, "\r\n", " "]))
def test_any_text_never_seen_round_trips(kind: str, text: str) -> None:
    tokenizer = learnt(kind)
    assert tokenizer.decode(tokenizer.encode(text).tolist()) == text


@BOTH
def test_what_was_seen_is_written_shorter(kind: str) -> None:
    tokenizer = learnt(kind)
    assert 258 < len(tokenizer) <= 300
    assert len(tokenizer.encode(ENGLISH)) < 0.6 * len(ENGLISH)


@BOTH
def test_the_file_brings_the_tokenizer_back(kind: str, tmp_path) -> None:
    tokenizer, file = learnt(kind), tmp_path / "tokenizer.json"
    save_tokenizer(tokenizer, file)
    again = load_tokenizer(file)
    assert (again.kind, len(again), again.to_json()) == (kind, len(tokenizer), tokenizer.to_json())
    assert again.encode(UNSEEN).tolist() == tokenizer.encode(UNSEEN).tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


@BOTH
def test_the_file_is_one_of_the_tokenizers_library(kind: str) -> None:
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_str(learnt(kind).to_json())
    numbers = theirs.encode(UNSEEN).ids
    assert numbers == learnt(kind).encode(UNSEEN).tolist()
    assert theirs.decode(numbers) == UNSEEN


SCRIPT = """
import hashlib, sys
from atento.data.tokenizers import trained
text = "\\n".join(f"word{i % 97} ação {i * i % 89}x çé{i % 13}ed" for i in range(3000))
for kind in ("bpe", "unigram"):
    print(hashlib.sha256(trained(kind, [text], 700).to_json().encode()).hexdigest())
"""


def test_training_twice_gives_the_same_file() -> None:
    """In three processes: the library's tables are ordered by chance, anew in each."""
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(3)
    }
    assert len(said) == 1
    assert len(set(said.pop().split())) == 2


def test_bpe_joins_the_most_frequent_neighbours() -> None:
    """Sennrich et al. 2016, by hand: ab stands in four words, (ab)c in three, (abc)d in two."""
    tokenizer = trained("bpe", ["ab\nabc\nabcd\nabcd"], 260)
    merges = json.loads(tokenizer.to_json())["model"]["merges"]
    assert merges == [["a", "b"], ["ab", "c"], ["abc", "d"]]
    assert len(tokenizer) == 260
    assert tokenizer.encode("abcd").tolist() == [259]
    assert tokenizer.encode("abc ab").tolist()[::2] == [258, 257]


def words() -> list[str]:
    return ["the", "thereat", "catsat", "rat", "mañana", "çã", "satter", "zzz", "theothe"]


def test_viterbi_finds_the_best_of_all_cuts() -> None:
    """Every way to cut a short word, tried one by one."""
    tokenizer = learnt("unigram")
    scores = dict(json.loads(tokenizer.to_json())["model"]["vocab"])
    names = list(scores)
    letters = ["".join(w) for n in (1, 2, 3, 4) for w in itertools.product("thea", repeat=n)]
    for word in [*words(), *letters]:
        spelt = "".join(BYTE_NAMES[b] for b in word.encode())
        best = max(_score(cut, scores) for cut in _cuts(spelt))
        found = [names[n] for n in tokenizer.encode(word)]
        assert "".join(found) == spelt
        assert math.isclose(_score(found, scores), best, abs_tol=1e-9)


def _cuts(word: str):
    for chosen in itertools.product([False, True], repeat=len(word) - 1):
        edges = [0, *(i for i, cut in enumerate(chosen, 1) if cut), len(word)]
        yield [word[a:b] for a, b in itertools.pairwise(edges)]


def _score(cut: list[str], scores: dict[str, float]) -> float:
    return sum(scores.get(piece, -math.inf) for piece in cut)


@BOTH
def test_a_file_that_is_changed_is_refused(kind: str) -> None:
    content = json.loads(learnt(kind).to_json())
    broken = [
        content | {"normalizer": {"type": "Lowercase"}},
        content | {"added_tokens": [{"id": 0, "content": PAD}]},
        content | {"model": content["model"] | {"byte_fallback": True}},
        content | {"model": content["model"] | {"vocab": []}},
    ]
    for other in broken:
        with pytest.raises(UserError, match=r"here\.json must be a tokenizer that atento wrote"):
            tokenizer_from_json(json.dumps(other), "here.json")


def test_half_a_character_is_named() -> None:
    with pytest.raises(UserError, match="position 1 is half a character"):
        learnt("bpe").encode("a\ud800")


@BOTH
def test_a_text_of_one_word_is_enough(kind: str) -> None:
    tokenizer = trained(kind, ["a"], 300)
    assert tokenizer.decode(tokenizer.encode(UNSEEN).tolist()) == UNSEEN


def test_the_text_of_every_byte_is_learnt_too() -> None:
    text = "".join(chr(c) for c in range(0x20, 0x800))
    digest = hashlib.sha256(text.encode()).hexdigest()
    for kind in ("bpe", "unigram"):
        tokenizer = trained(kind, [text, digest], 400)
        assert tokenizer.decode(tokenizer.encode(text).tolist()) == text
