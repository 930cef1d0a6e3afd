"""What a training never saw is one placeholder, and comes back as it was."""

import pytest

from atento.data.known import Known
from atento.data.tokenizers import trained

TEXT = "a cat sat on the mat\nthe dog ate a hat\n"
KINDS = ("characters", "bytes", "bpe")


def known(kind: str) -> Known:
    return Known(trained(kind, [TEXT], 300), set(TEXT))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_seen_is_one_placeholder_and_comes_back(kind: str) -> None:
    side = known(kind)
    numbers, strange = side.encode("the 漢字 sat Ω")
    assert strange == ["漢字", "Ω"]
    assert numbers.tolist().count(side.placeholder) == 2
    assert side.placeholder == len(side) - 1
    assert side.decode(numbers.tolist(), strange) == "the 漢字 sat Ω"
    # Nothing but the placeholder and what the tokenizer makes of known text.
    alone = [n for part in ("the ", " sat ") for n in side.tokenizer.encode(part)]
    assert [n for n in numbers.tolist() if n != side.placeholder] == alone


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_text_is_the_tokenizers_own(kind: str) -> None:
    side = known(kind)
    numbers, strange = side.encode("the cat")
    assert not strange
    assert numbers.tolist() == side.tokenizer.encode("the cat").tolist()
    assert side.decode(numbers.tolist()) == "the cat"


def test_too_few_to_put_back_leave_nothing() -> None:
    side = known("characters")
    assert side.decode([side.placeholder, *side.tokenizer.encode("a"), side.placeholder]) == "a"


def test_signs_that_patterns_are_made_of_are_characters_too() -> None:
    side = Known(trained("characters", ["]-\\^[a"], 300), set("]-\\^[a"))
    numbers, strange = side.encode("a]b^-\\c")
    assert strange == ["b", "c"]
    assert side.decode(numbers.tolist(), strange) == "a]b^-\\c"
