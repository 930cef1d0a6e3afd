"""How training is shown: a bar on a terminal or in a notebook, lines elsewhere, or nothing."""

import sys
from typing import Any, Protocol

__all__ = ["Progress", "progress"]


class Progress(Protocol):
    """What the loop tells."""

    def say(self, line: str) -> None:
        """A line of its own."""
        ...

    def begin(self, step: int, steps: int) -> None:
        """Steps already done, and how many there will be."""
        ...

    def step(self) -> None:
        """One more step is done."""
        ...

    def record(self, line: str) -> None:
        """What was measured."""
        ...

    def end(self) -> None:
        """The last word."""
        ...


def progress(quiet: bool) -> Progress:
    """The way that fits where we are."""
    if quiet:
        return Quiet()
    in_a_notebook = "ipykernel" in sys.modules
    return Bar() if in_a_notebook or sys.stderr.isatty() else Plain()


class Quiet:
    """Says nothing."""

    def say(self, line: str) -> None: ...
    def begin(self, step: int, steps: int) -> None: ...
    def step(self) -> None: ...
    def record(self, line: str) -> None: ...
    def end(self) -> None: ...


class Plain(Quiet):
    """Lines on standard output, one for each record."""

    def say(self, line: str) -> None:
        print(line, flush=True)

    def record(self, line: str) -> None:
        print(line, flush=True)


class Bar:
    """tqdm's bar, redrawn four times a second at most, with the records above it."""

    def __init__(self) -> None:
        self._bar: Any = None

    def say(self, line: str) -> None:
        print(line, flush=True)

    def begin(self, step: int, steps: int) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(total=steps, initial=step, unit="step", mininterval=0.25, leave=False)

    def step(self) -> None:
        self._bar.update()

    def record(self, line: str) -> None:
        self._bar.write(line)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
