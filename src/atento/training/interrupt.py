"""Ctrl-C and SIGTERM, heard between two steps instead of in the midst of one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupt", "interruptible"]

HEARD = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Whether Ctrl-C was pressed, or the process told to end."""

    asked = False


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Within it the first Ctrl-C or SIGTERM only sets `asked`; the second interrupts at once."""
    interrupt = Interrupt()

    def heard(number: int, frame: FrameType | None) -> None:
        if interrupt.asked:
            raise KeyboardInterrupt
        interrupt.asked = True

    # Python hands signals to the main thread alone; a script's background jobs are told to ignore
    # Ctrl-C, and shall.
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    heeded = [s for s in HEARD if signal.getsignal(s) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, heard) for number in heeded}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
