"""The lessons' words: whole in both languages, each used, each place filled."""

import string
from dataclasses import replace

import pytest

from atento.errors import UserError
from atento.lessons.catalogue import LESSONS, Lesson, lesson, lessons_about
from atento.lessons.lesson import Figure, Quote, Step, matrix, spelled
from atento.lessons.page import lesson_page
from atento.lessons.plain import WIDTH, plain
from atento.lessons.texts import table, text
from atento.lessons.verdicts import entries

RUN = {one.name: one.steps() for one in LESSONS}
TEXTS = [(name, key, parts) for name, keys in table().items() for key, parts in keys.items()]


def places(words: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(words) if name}


@pytest.mark.parametrize(("name", "key", "parts"), TEXTS, ids=[f"{n}.{k}" for n, k, _ in TEXTS])
def test_each_text_is_whole_in_both_languages(
    name: str, key: str, parts: dict[str, dict[str, str]]
) -> None:
    assert parts.keys() == {"pt", "en"}
    assert parts["pt"].keys() == parts["en"].keys()
    for part, words in parts["pt"].items():
        other = parts["en"][part]
        assert words.strip()
        assert other.strip()
        assert places(words) == places(other)
        # A title may be a formula; sentences are never the same in both languages.
        assert part == "title" or words != other or words == "OK"


def used(one: Lesson) -> set[str]:
    keys = {"lesson"}
    for step in RUN[one.name]:
        keys |= {step.text, *(item.text for item in step.items if item.text)}
    return keys


@pytest.mark.parametrize("one", LESSONS, ids=lambda one: one.name)
def test_each_text_is_used_and_each_one_used_is_there(one: Lesson) -> None:
    assert used(one) == table()[one.name].keys()
    for step in RUN[one.name]:
        for lang in ("pt", "en"):
            assert text(one.name, step.text, "title", lang)
            for item in step.items:
                if item.verdict == "wrong":
                    assert text(one.name, item.text, "why", lang, item.values)


@pytest.mark.parametrize("lang", ["pt", "en"])
@pytest.mark.parametrize("one", LESSONS, ids=lambda one: one.name)
def test_every_line_fits_a_terminal_and_says_every_title(one: Lesson, lang: str) -> None:
    written = plain(one, RUN[one.name], lang)
    assert max(map(len, written.splitlines())) <= WIDTH
    assert "{" not in written
    for step in RUN[one.name]:
        assert text(one.name, step.text, "title", lang) in written


def test_the_languages_are_two_lessons_of_the_same_numbers() -> None:
    for one in LESSONS:
        both = [lesson_page(one, RUN[one.name], lang) for lang in ("pt", "en")]
        assert both[0].count("<svg") == both[1].count("<svg") > 0
        assert both[0].count("<td") == both[1].count("<td")


def test_a_wrong_entry_is_told_from_the_right_one() -> None:
    figure = Figure(symbol="A", ours=matrix("0.33335 2"), printed=matrix("0.3334 2.5"), digits=3)
    near = replace(figure, tolerance=0.00001)
    assert (
        entries(near, "en")
        == "2 of 2 wrong; printed → right: [1,1] 0.3334 → 0.3333; [1,2] 2.500 → 2.000."
    )
    assert entries(figure, "pt") == "1 de 2 errados; impresso → certo: [1,2] 2.500 → 2.000."


@pytest.mark.parametrize(
    ("ours", "printed", "digits", "verdict"),
    [
        ("0.33335", "0.3333", 4, "ok"),
        ("0.33336", "0.3333", 4, "wrong"),
        ("-inf", "-inf", 3, "ok"),
        ("-inf", "0", 3, "wrong"),
        ("nan", "0", 3, "wrong"),
    ],
)
def test_an_entry_is_right_to_half_a_unit_of_its_last_digit(
    ours: str, printed: str, digits: int, verdict: str
) -> None:
    figure = Figure(symbol="A", ours=matrix(ours), printed=matrix(printed), digits=digits)
    assert figure.verdict == verdict


def test_what_has_nothing_to_compare_has_no_verdict() -> None:
    assert Figure(symbol="X", printed=matrix("1")).verdict is None
    assert Figure(symbol="X", ours=matrix("1")).verdict is None
    with pytest.raises(ValueError):
        Figure(symbol="X", ours=matrix("1"), printed=matrix("1 2")).verdict


def test_words_of_the_lecture_are_escaped_on_the_page() -> None:
    quote = Quote(words="<script>x</script>", holds=True, text="cats.label")
    page = lesson_page(
        lesson("pizza"), (Step(text="cats", items=(quote,), values={"most": "1"}),), "pt"
    )
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_lessons_are_found_by_name_and_lecture_and_by_what_they_show() -> None:
    assert lesson("003") is lesson("Multi-Head") is lesson("multi-head")
    assert lessons_about("") == LESSONS
    assert [one.name for one in lessons_about("001")] == ["pizza"]
    assert [one.name for one in lessons_about("passo a passo")] == ["multi-head"]
    assert [one.name for one in lessons_about("N4")] == ["pizza"]
    assert lessons_about("xyzzy") == ()
    with pytest.raises(UserError, match="Did you mean `atento lesson pizza`"):
        lesson("piza")


def test_a_matrix_within_a_sentence() -> None:
    assert spelled(matrix("1 2; 3 4.55"), 1) == "1.0 2.0; 3.0 4.5"
