"""Dates as people write them: read back by rules of the test's own, and never in two splits."""

import re
from datetime import date, timedelta

from atento.data.dates import FIRST, FORMATS, LAST, SIZES, dates, written

NAMES = [
    *(["jan"], ["fev", "feb"], ["mar"], ["abr", "apr"], ["mai", "may"], ["jun"], ["jul"]),
    *(["ago", "aug"], ["set", "sep"], ["out", "oct"], ["nov"], ["dez", "dec"]),
]
ROMAN = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"]
MADE = dates()


def read(text: str) -> date:
    """Day first unless a year of four digits comes first; a month by its first three letters."""
    said = text.lower()
    if re.fullmatch(r"\d{8}|\d{6}", said):
        year_first = said.startswith(("19", "20")) and len(said) == 8 and int(said[4:6]) <= 12
        day_first = [said[:2], said[2:4], said[4:]]
        parts = [said[6:], said[4:6], said[:4]] if year_first else day_first
        return when(int(parts[0]), int(parts[1]), parts[2])
    words = re.findall(r"\d+|[^\W\d_]+", said)
    digits = [word for word in words if word.isdigit()]
    month = next(
        (n for n, names in enumerate(NAMES, 1) for w in words if w[:3] in names and is_month(w)),
        None,
    )
    if month is None and len(digits) == 2:
        month = next(ROMAN.index(w) + 1 for w in words if w in ROMAN)
    if len(digits[0]) == 4:
        digits.reverse()
    if month is not None:
        days, year = (digits[0], digits[1])
        if len(days) == 4:
            days, year = year, days
        return when(int(days), month, year)
    return when(int(digits[0]), int(digits[1]), digits[2])


def is_month(word: str) -> bool:
    """Not segunda, sexta, sábado, Saturday … : only months go on as months do."""
    months = "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro "
    months += "dezembro january february march april may june july august september october "
    months += "november december"
    return word in months.split() or word in {month[:3] for month in months.split()}


def when(day: int, month: int, year: str) -> date:
    century = {True: 1900, False: 2000}[int(year) >= 50] if len(year) == 2 else 0
    return date(century + int(year), month, day)


def test_there_are_two_hundred_formats_and_all_are_read_back() -> None:
    assert len(set(FORMATS)) == len(FORMATS) >= 200
    days = [FIRST + timedelta(days=997 * n) for n in range(36)] + [LAST]
    days += [date(1999, 12, 31), date(2001, 2, 3), date(2010, 10, 10), date(2049, 1, 1)]
    for form in FORMATS:
        for day in days:
            assert read(written(day, form)) == day, (form, day)


def test_no_text_means_two_days() -> None:
    meant: dict[str, date] = {}
    for day in (FIRST + timedelta(days=89 * n) for n in range(397)):
        for form in FORMATS:
            assert meant.setdefault(written(day, form), day) == day


def test_by_hand() -> None:
    first = date(2003, 5, 1)
    assert written(first, "{o} de {mes} de {yyyy}") == "1º de maio de 2003"
    assert written(first, "{semana}, {d}/{m}/{yy}") == "quinta-feira, 1/5/03"
    assert [written(date(2003, 5, d), "{th}") for d in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd"]
    )
    assert written(date(1950, 3, 9), "{wday} {dd} {mon} {yyyy}") == "Thu 09 Mar 1950"
    assert "{dd}/{mm}/{yyyy}" in FORMATS
    assert "{mm}/{dd}/{yyyy}" not in FORMATS


def test_a_day_is_in_one_split_only() -> None:
    days = {split: {iso for _, iso in pairs} for split, pairs in MADE.items()}
    assert not days["training"] & days["test"]
    assert not days["training"] & days["validation"]
    assert not days["validation"] & days["test"]


def test_sizes_and_targets() -> None:
    assert {split: len(pairs) for split, pairs in MADE.items()} == SIZES
    assert SIZES["test"] == 10_000
    for pairs in MADE.values():
        assert all(FIRST <= date.fromisoformat(iso) <= LAST for _, iso in pairs)
        assert all(read(text).isoformat() == iso for text, iso in pairs[:500])


def test_a_seed_gives_the_same_set_and_another_another() -> None:
    assert dates() == MADE
    assert dates(2)["test"] != MADE["test"]
