"""Text as it comes: nothing of a stop string, nothing of half a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atento.errors import UserError
from atento.tasks.speech import Speech, spoken


def letters(numbers: list[int]) -> str:
    return "".join(map(chr, numbers))


def raw(numbers: list[int]) -> str:
    """Tokens that are bytes."""
    return bytes(numbers).decode("utf-8", "replace")


def until(text: str, stops: list[str]) -> str:
    """The oracle: letter by letter, until the text ends with a stop string."""
    said = ""
    for letter in text:
        said += letter
        ending = [stop for stop in stops if said.endswith(stop)]
        if ending:
            return said[: len(said) - max(map(len, ending))]
    return said


@given(
    st.text("ab", max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
def test_a_stop_string_is_never_half_printed(text: str, stops: list[str]) -> None:
    speech = Speech(letters, [120], stops)
    shown = ""
    for letter in text:
        shown += speech.hear(ord(letter))
        assert until(text, stops).startswith(shown)
    assert shown + speech.end() == until(text, stops)


@given(st.lists(st.text("ab", min_size=1, max_size=5), max_size=5), st.text("ab", min_size=1))
def test_how_the_text_is_cut_into_tokens_changes_nothing(pieces: list[str], stop: str) -> None:
    def decode(numbers: list[int]) -> str:
        return "".join(["<", *pieces][n] for n in numbers)

    speech = Speech(decode, [0], stop)
    shown = "".join([speech.hear(n) for n in range(1, len(pieces) + 1)]) + speech.end()
    assert shown == until("".join(pieces), [stop])


@given(st.text(st.characters(exclude_characters="\ufffd", exclude_categories=["Cs"]), max_size=30))
def test_bytes_are_shown_when_a_character_is_whole(text: str) -> None:
    speech = Speech(raw, list(b"ol\xc3\xa1 "))
    pieces = [speech.hear(byte) for byte in text.encode()] + [speech.end()]
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces)


def test_what_is_cut_off_at_the_end_is_shown_as_it_is() -> None:
    speech = Speech(raw, [65])
    assert speech.hear(0xC3) == ""
    assert speech.end() == "\ufffd"
    assert speech.end() == ""


def test_a_held_beginning_is_shown_once_it_leads_elsewhere_or_ends() -> None:
    speech = Speech(letters, [], "rei")
    assert [speech.hear(ord(c)) for c in "o rere"] == ["o", " ", "", "", "re", ""]
    assert speech.hear(None) == "re"
    assert speech.ended
    assert speech.hear(ord("x")) == ""


def test_several_speeches_stop_each_for_itself_and_then_all() -> None:
    def tokens():
        for pair in zip("ab!cd", "x!yzw", strict=True):
            yield [ord(c) for c in pair]
        raise AssertionError("it was asked for more than was needed")

    speeches = [Speech(letters, [], "!") for _ in range(2)]
    assert list(spoken(tokens(), speeches)) == [["a", "x"], ["b", ""], ["", ""]]


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(UserError, match="stop must be text"):
        Speech(letters, [], ["a", ""])
