"""What a terminal shows: bars and maps in the signs that it has, long lines broken."""

import io

import pytest

from atento.cli.terminal import WIDTH, Steps, Terminal


class Screen(io.TextIOWrapper):
    """A stream of an encoding, a terminal or not."""

    def __init__(self, encoding: str = "utf-8", lively: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")
        self.lively = lively

    def isatty(self) -> bool:
        return self.lively

    @property
    def shown(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)


def test_bars_are_as_long_as_their_share_and_never_nothing() -> None:
    terminal = Terminal(Screen())
    assert [len(terminal.bar(share, 20)) for share in (0.0, 0.01, 0.5, 1.0)] == [1, 1, 10, 20]


@pytest.mark.parametrize(
    ("encoding", "signs"),
    [("utf-8", "·░▒▓█"), ("cp437", "·░▒▓█"), ("cp1252", ".-+*#"), ("ascii", ".-+*#")],
)
def test_signs_are_those_that_the_console_has(encoding: str, signs: str) -> None:
    screen = Screen(encoding)
    terminal = Terminal(screen)
    weights = [0.0, 0.124, 0.126, 0.3, 0.4, 0.5, 1.0]
    assert "".join(map(terminal.shade, weights)) == "".join(signs[n] for n in (0, 0, 1, 2, 3, 4, 4))
    terminal.show([terminal.bar(1.0, 3)])
    assert screen.shown == signs[4] * 3 + "\n"


def test_a_map_has_a_row_and_a_column_for_each_name() -> None:
    lines = Terminal(Screen()).map("a \n", [[1.0], [0.2, 0.8], [0.0, 0.0, 1.0]])
    assert lines == ["     a _ _", "    a █", "    _ ░ █", "    _ · · █"]


def test_typed_text_is_broken_at_blanks_and_keeps_its_words() -> None:
    screen = Screen()
    text = "palavra " * 40 + "\n\n  linha\n" + "x" * 200 + " fim"
    Terminal(screen).type(iter([text[:77], text[77:]]))
    lines = screen.shown.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line.startswith("    ") for line in lines)
    assert screen.shown.split("x")[0].split() == text.split("x")[0].split()
    assert screen.shown.count("x") == 200


def test_what_is_quiet_shows_and_does_not_say() -> None:
    screen = Screen(lively=True)
    terminal = Terminal(screen, {}, quiet=True)
    terminal.head("heading")
    terminal.say("said")
    terminal.show(["shown"])
    bar = Steps(terminal, "learning")
    bar.begin(0, 3)
    bar.step()
    bar.end()
    assert screen.shown == "shown\n"


@pytest.mark.parametrize(
    ("environment", "lively", "bold"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_bold_is_for_terminals_that_want_it(
    environment: dict[str, str], lively: bool, bold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    screen = Screen(lively=lively)
    Terminal(screen, environment).head("heading")
    assert ("\033[1mheading" in screen.shown) == bold


def test_the_bar_of_a_training_is_drawn_anew_and_leaves_nothing() -> None:
    screen = Screen(lively=True)
    bar = Steps(Terminal(screen, {}), "learning")
    bar.begin(0, 1000)
    for _ in range(1000):
        bar.step()
    bar.say("line")
    bar.record("record")
    bar.end()
    drawn = screen.shown.split("\r")
    assert len(drawn) < 60  # not a thousand times
    assert drawn[-3].endswith("1,000/1,000")
    assert (drawn[-2].strip(), drawn[-1]) == ("", "")
    assert max(map(len, drawn)) <= WIDTH
    assert "line" not in screen.shown
    assert "record" not in screen.shown


def test_on_a_pipe_there_is_no_bar() -> None:
    screen = Screen()
    bar = Steps(Terminal(screen), "learning")
    bar.begin(0, 2)
    bar.step()
    bar.end()
    assert screen.shown == ""
