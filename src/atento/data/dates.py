"""Dates as people write them in Portuguese and English, and the same dates in ISO 8601."""

from datetime import date
from itertools import product

import numpy as np

__all__ = ["FORMATS", "dates", "written"]

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)  # so that two digits name a year
SIZES = {"training": 50_000, "validation": 2_000, "test": 10_000}
HELD_OUT = 10  # of so many days one is in validation, and one in the test

MESES = (
    *("janeiro", "fevereiro", "março", "abril", "maio", "junho"),
    *("julho", "agosto", "setembro", "outubro", "novembro", "dezembro"),
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
SEMANA = (
    *("segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira"),
    *("sábado", "domingo"),
)
WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def written(day: date, form: str) -> str:
    """A day in one of FORMATS."""
    mes, month = MESES[day.month - 1], MONTHS[day.month - 1]
    semana, weekday = SEMANA[day.weekday()], WEEK[day.weekday()]
    return form.format(
        d=day.day,
        dd=f"{day.day:02}",
        o=f"{day.day}º" if day.day == 1 else day.day,
        th=f"{day.day}{_ending(day.day)}",
        m=day.month,
        mm=f"{day.month:02}",
        rom=ROMAN[day.month - 1],
        yy=f"{day.year % 100:02}",
        yyyy=day.year,
        **{"mes": mes, "Mes": mes.title(), "MES": mes.upper()},
        **{"mes3": mes[:3], "Mes3": mes[:3].title(), "MES3": mes[:3].upper()},
        **{"month": month, "mon": month[:3], "MONTH": month.upper(), "MON": month[:3].upper()},
        **{"month_": month.lower(), "mon_": month[:3].lower()},
        **{"semana": semana, "Semana": semana.capitalize(), "sem": semana[:3]},
        **{"weekday": weekday, "wday": weekday[:3]},
    )


def dates(seed: int = 1) -> dict[str, list[tuple[str, str]]]:
    """training, validation and test: (as it is written, as ISO 8601 has it).

    A day is in one split only, in whatever format; no line comes twice.
    Claim: test_dates.py::test_a_day_is_in_one_split_only
    """
    draw = np.random.Generator(np.random.Philox(key=[seed, 0]))
    days = draw.permutation(np.arange(FIRST.toordinal(), LAST.toordinal() + 1))
    held = len(days) // HELD_OUT
    parts = {"validation": days[:held], "test": days[held : 2 * held], "training": days[2 * held :]}
    return {split: _drawn(parts[split], SIZES[split], draw) for split in SIZES}


def _drawn(
    days: "np.ndarray[tuple[int], np.dtype[np.int64]]", count: int, draw: np.random.Generator
) -> list[tuple[str, str]]:
    chosen = draw.choice(len(days) * len(FORMATS), count, replace=False)
    found = []
    for number in chosen.tolist():
        day = date.fromordinal(int(days[number // len(FORMATS)]))
        found.append((written(day, FORMATS[number % len(FORMATS)]), day.isoformat()))
    return found


def _ending(number: int) -> str:
    if number in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _each(form: str, days: str, months: str, years: str = "yyyy") -> list[str]:
    """The form with D, M and Y as each of the fields that are named."""
    every = product(days.split(), months.split(), years.split())
    return [
        form.replace("D", f"{{{d}}}").replace("M", f"{{{m}}}").replace("Y", f"{{{y}}}")
        for d, m, y in every
    ]


def _numeric() -> list[str]:
    """Day first, or a year of four digits first."""
    made = []
    for mark in "/-. ":
        for d, m in (("dd", "mm"), ("d", "m")):
            made += _each(f"D{mark}M{mark}Y", d, m, "yyyy yy")
            made += _each(f"Y{mark}M{mark}D", d, m)
    made += [form for mark in "/-. " for form in _each(f"D{mark}M{mark}Y", "d", "rom")]
    return [*made, "{dd} / {mm} / {yyyy}", "{dd}{mm}{yyyy}", "{yyyy}{mm}{dd}", "{dd}{mm}{yy}"]


def _portuguese() -> list[str]:
    return [
        *_each("D de M de Y", "d dd o", "mes Mes mes3 Mes3"),
        *_each("D de M de Y", "d dd", "mes mes3", "yy"),
        *_each("D M Y", "d dd", "mes Mes mes3 Mes3 MES3"),
        *(
            f
            for mark in "/-"
            for f in _each(f"D{mark}M{mark}Y", "d dd", "mes3 Mes3 MES3", "yyyy yy")
        ),
        *_each("D.M.Y", "d dd", "mes3"),
        *("{d} DE {MES} DE {yyyy}", "{dd} DE {MES} DE {yyyy}"),
        *("{d} de {mes3}. de {yyyy}", "{dd} {mes3}. {yyyy}"),
        *("{semana}, {d} de {mes} de {yyyy}", "{semana}, {o} de {mes} de {yyyy}"),
        *("{Semana}, {d} de {mes} de {yyyy}", "{Semana}, {dd} de {mes} de {yyyy}"),
        *("{semana}, {dd}/{mm}/{yyyy}", "{semana} {d}/{m}/{yy}", "{sem}, {dd}/{mm}/{yyyy}"),
        *("{sem}, {d} de {mes3} de {yyyy}", "{Semana} {d} {mes} {yyyy}"),
        *("dia {d} de {mes} de {yyyy}", "dia {d}/{m}/{yy}", "no dia {dd}/{mm}/{yyyy}"),
        *("em {d} de {mes} de {yyyy}", "em {dd}/{mm}/{yyyy}", "aos {d} de {mes} de {yyyy}"),
        *("aos {d} dias de {mes} de {yyyy}", "aos {d} dias do mês de {mes} de {yyyy}"),
        *("{d} do {m} de {yyyy}", "{dd} do {mm} de {yyyy}", "data: {dd}/{mm}/{yyyy}"),
        *("{dd} de {MES} de {yyyy}", "dia {dd}.{mm}.{yyyy}", "{mes} de {yyyy}, dia {d}"),
        *("{d} de {mes} do ano de {yyyy}", "{d} de {mes}, {yyyy}", "{d} {mes}, {yyyy}"),
    ]


def _english() -> list[str]:
    return [
        *_each("M D, Y", "d dd th", "month mon MONTH month_ mon_"),
        *_each("M D Y", "d dd th", "month mon MONTH"),
        *_each("D M Y", "d dd th", "month mon MON month_"),
        *_each("D M, Y", "d th", "month mon"),
        *(f for mark in "/-" for f in _each(f"D{mark}M{mark}Y", "d dd", "mon MON", "yyyy yy")),
        *(f for the in ("the ", "") for f in _each(f"{the}D of M Y", "th", "month mon")),
        *(f for the in ("the ", "") for f in _each(f"{the}D of M, Y", "th", "month mon")),
        *_each("D M Y", "d dd", "mon month", "yy"),
        *("{d} {mon} '{yy}", "{mon} {d} '{yy}", "{mon}. {d}, {yyyy}", "{d} {mon}. {yyyy}"),
        *("{yyyy} {mon} {dd}", "{yyyy}-{mon}-{dd}", "{yyyy} {month} {d}", "{yyyy}, {month} {d}"),
        *("{weekday}, {month} {d}, {yyyy}", "{weekday}, {d} {month} {yyyy}"),
        *("{weekday} {d} {month} {yyyy}", "{weekday}, {th} {month} {yyyy}"),
        *("{weekday}, {month} {th}, {yyyy}", "{weekday} the {th} of {month}, {yyyy}"),
        *("{wday}, {d} {mon} {yyyy}", "{wday} {d} {mon} {yyyy}", "{wday} {mon} {d} {yyyy}"),
        *("{wday}, {dd} {mon} {yyyy}", "{wday}, {mon} {d}, {yyyy}", "{wday} {dd}/{mm}/{yyyy}"),
        *("{d}. {month} {yyyy}", "this {th} day of {month}, {yyyy}", "{th} day of {month} {yyyy}"),
        *("{wday}, {dd}/{mm}/{yy}", "on {month} {d}, {yyyy}", "on {d} {month} {yyyy}"),
    ]


# In the order in which they were first listed: the drawn sets depend on it.
FORMATS: tuple[str, ...] = tuple(dict.fromkeys([*_numeric(), *_portuguese(), *_english()]))
