"""What [data] may say."""

import pytest

from atento.data.config import Data
from atento.errors import UserError


def test_a_vocabulary_size_is_for_pieces_that_are_learnt() -> None:
    assert Data(tokenizer="bpe", vocabulary_size=300).vocabulary_size == 300
    assert Data(tokenizer="unigram").vocabulary_size == 4096
    for kind in ("characters", "bytes"):
        with pytest.raises(UserError, match=r"data\.vocabulary_size is for .* bpe and unigram"):
            Data(tokenizer=kind, vocabulary_size=300)


@pytest.mark.parametrize("size", [-1, 0, 257, 1_000_001])
def test_a_vocabulary_has_room_for_every_byte(size: int) -> None:
    with pytest.raises(UserError, match=r"data\.vocabulary_size must be between 258 and 1,000,000"):
        Data(tokenizer="bpe", vocabulary_size=size)


def test_another_tokenizer_is_named() -> None:
    with pytest.raises(UserError, match="one of characters, bytes, bpe, unigram; got 'words'"):
        Data(tokenizer="words")
