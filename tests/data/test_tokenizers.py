"""Characters become numbers and characters again, here and in the `tokenizers` library."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atento.data.tokenizers import (
    Bytes,
    Characters,
    Tokenizer,
    blocks,
    load_tokenizer,
    said,
    save_tokenizer,
    tokenizer_from_json,
    trained,
)
from atento.errors import UserError

TEXT = "Era uma vez…\n\tum <PAD> gato 🐈 xadrez"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_round_trip_is_exact(text: str) -> None:
    tokenizer = Characters(text)
    numbers = tokenizer.encode(text)
    assert len(numbers) == len(text)
    assert tokenizer.decode(numbers.tolist()) == text
    again = Characters.from_json(tokenizer.to_json(), "here")
    assert again.encode(text).tolist() == numbers.tolist()


def test_the_vocabulary_is_the_distinct_characters_and_one_pad() -> None:
    tokenizer = Characters("abracadabra")
    assert len(tokenizer) == 6
    assert tokenizer.encode("abcdr").tolist() == [1, 2, 3, 4, 5]
    assert tokenizer.decode([1, tokenizer.pad, 2]) == "ab"


def test_the_file_is_one_of_the_tokenizers_library() -> None:
    tokenizer = Characters(TEXT)
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_str(tokenizer.to_json())
    numbers = theirs.encode(TEXT).ids
    assert numbers == tokenizer.encode(TEXT).tolist()
    assert theirs.decode(numbers) == TEXT
    assert theirs.get_vocab_size() == len(tokenizer)


def test_a_character_never_seen_is_named() -> None:
    with pytest.raises(UserError, match="'ç', '🐈'"):
        Characters("abc").encode("aç🐈")


def test_nothing_is_no_token() -> None:
    assert Characters("abc").encode("").tolist() == []
    assert Characters("").encode("").dtype == np.int64


@pytest.mark.parametrize(
    "file", ["", "[]", "{}", '{"model": {"vocab": {"<PAD>": 0, "ab": 1}}}', '{"model": 3}']
)
def test_another_tokenizer_is_refused(file: str) -> None:
    with pytest.raises(UserError, match=r"here\.json must be a tokenizer of characters"):
        Characters.from_json(file, "here.json")


ANY = st.text(st.characters(exclude_categories=["Cs"]))


@given(ANY)
def test_bytes_round_trip_any_text(text: str) -> None:
    tokenizer = Bytes()
    numbers = tokenizer.encode(text)
    assert numbers.tolist() == [b + 1 for b in text.encode()]
    assert tokenizer.decode(numbers.tolist()) == text


def test_bytes_are_256_and_one_pad_and_a_file_of_the_library() -> None:
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_str(Bytes().to_json())
    assert len(Bytes()) == theirs.get_vocab_size() == 257
    text = TEXT + "\r\n\0\x7f\xad"
    assert theirs.encode(text).ids == Bytes().encode(text).tolist()
    assert theirs.decode(theirs.encode(text).ids) == text


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe", "unigram"])
def test_a_tokenizer_is_chosen_by_name_and_comes_back_from_its_file(
    kind: str, tmp_path: Path
) -> None:
    tokenizer = trained(kind, [TEXT, " e mais"], 270)
    save_tokenizer(tokenizer, tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert tokenizer.kind == again.kind == kind
    assert type(again) is type(tokenizer)
    assert again.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert tokenizer.decode([tokenizer.pad]) == ""


@pytest.mark.parametrize("file", ["", "[]", "{}", '{"model": 3}', '{"model": {"type": "BPE"}}'])
def test_a_file_of_no_tokenizer_is_refused(file: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="that atento wrote"):
        tokenizer_from_json(file, "here.json")
    with pytest.raises(UserError, match="cannot be read"):
        load_tokenizer(tmp_path / "none.json")


@given(ANY)
def test_what_is_said_piece_by_piece_is_what_is_decoded(text: str) -> None:
    every: list[Tokenizer] = [Characters(text), Bytes()]
    for tokenizer in every:
        numbers = tokenizer.encode(text).tolist()
        assert "".join(said(tokenizer, numbers)) == text
    cut = Bytes().encode(text + "ç").tolist()[:-1]
    assert "".join(said(Bytes(), cut)) == Bytes().decode(cut)


@given(st.text("ab \n\té", max_size=60), st.lists(st.integers(1, 9)), st.integers(1, 9))
def test_blocks_do_not_depend_on_how_the_text_came(
    text: str, lengths: list[int], size: int
) -> None:
    whole = list(blocks([text], size))
    assert "".join(whole) == text
    assert all(len(block) <= 2 * size for block in whole)
    edges = np.cumsum([0, *lengths])
    came = [text[a:b] for a, b in pairwise(edges)] + [text[edges[-1] :]]
    assert list(blocks(came, size)) == whole
    assert [again for block in whole for again in blocks([block], size)] == whole


@given(st.text("ab \n\t'é!\x1c\u3000", max_size=80))
def test_encoding_block_by_block_is_encoding_the_whole(text: str) -> None:
    """Where every block has a place to be cut, against the library on the whole text."""
    tokenizer = trained("bpe", ["a ab  ab' a\n\nba! 'é"], 280)
    library = pytest.importorskip("tokenizers").Tokenizer.from_str(tokenizer.to_json())
    cut = list(blocks([text], 5))
    if all(len(block) < 10 for block in cut):
        assert [n for block in cut for n in tokenizer.encode(block)] == library.encode(text).ids
