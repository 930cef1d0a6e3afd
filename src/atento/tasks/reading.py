"""How the reading of a large text is shown; one that fits into memory is read before one looks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from atento.data.corpus import Progress
from atento.training.progress import Bar, Quiet, progress

__all__ = ["reading"]

LINES = 10  # for each thing that is done, where there is no bar


@contextmanager
def reading(quiet: bool) -> Iterator[Progress]:
    """What `corpus` tells how far it is: a bar on a terminal, lines elsewhere, or nothing.

    Claim: test_reading.py::test_lines_come_at_each_tenth
    """
    way = progress(quiet)
    if isinstance(way, Bar):
        bars = _Bars()
        try:
            yield bars
        finally:
            bars.end()
    else:
        yield _silent if type(way) is Quiet else _Lines(way.say)


def _silent(what: str, done: int, whole: int) -> None:
    pass


class _Lines:
    """A line at each tenth."""

    def __init__(self, say: Any) -> None:
        self._say = say
        self._said: dict[str, int] = {}  # tenths

    def __call__(self, what: str, done: int, whole: int) -> None:
        tenths = LINES * done // max(1, whole)
        if tenths > self._said.get(what, 0):
            self._said[what] = tenths
            self._say(f"{what}: {100 * tenths // LINES}% of {whole:,} {_unit(what)}")


class _Bars:
    """tqdm's bar, one for each thing that is done, after another."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._what = ""

    def __call__(self, what: str, done: int, whole: int) -> None:
        if what != self._what:
            self.end()
            from tqdm.auto import tqdm

            self._what = what
            # Large numbers as people say them, redrawn four times a second at most.
            self._bar = tqdm(
                total=whole, desc=what, unit=" " + _unit(what), unit_scale=True, mininterval=0.25,
                leave=False,
            )  # fmt: skip
        self._bar.update(done - self._bar.n)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _unit(what: str) -> str:
    return "bytes" if what == "reading" else "characters"
