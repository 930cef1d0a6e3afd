"""A large text is read under one's eyes: a bar on a terminal, lines elsewhere, nothing if quiet."""

import io
import sys
from pathlib import Path

import pytest

from atento.tasks import train
from atento.tasks.reading import reading
from tasks.books import OPTIONS, book

Capture = pytest.CaptureFixture[str]


def tell(quiet: bool = False) -> None:
    with reading(quiet) as far:
        for done in range(0, 1001, 7):
            far("reading", done, 1000)
        far("reading", 1000, 1000)
        far("writing tokens", 500, 500)


def test_lines_come_at_each_tenth(capsys: Capture) -> None:
    tell()
    out, err = capsys.readouterr()
    tenths = [f"reading: {n}% of 1,000 bytes" for n in range(10, 101, 10)]
    assert out.splitlines() == [*tenths, "writing tokens: 100% of 500 characters"]
    assert err == ""


def test_quiet_it_says_nothing(capsys: Capture) -> None:
    tell(quiet=True)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_there_is_a_bar_for_each(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    tell()
    shown = terminal.getvalue()
    assert shown.index("reading") < shown.index("writing tokens")
    assert "1.00k" in shown
    assert "\n" not in shown.strip("\r\n ")  # the bars are gone when they are done
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("resume", [False, True])
def test_training_shows_it_where_a_text_is_larger_than_memory(
    resume: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules["atento.data.corpus"].corpus.__kwdefaults__, "memory", 100)
    options = OPTIONS | {"source": str(book(tmp_path)), "steps": 1}
    run = train("text", out=tmp_path / "run", quiet=resume, **options)
    if resume:
        assert capsys.readouterr() == ("", "")
        train("text", out=run.folder, resume=True, **(options | {"steps": 2}))
    out = capsys.readouterr().out
    assert "reading: 100% of" in out
    assert ("writing tokens: 100% of" in out) is not resume  # the file is still there
