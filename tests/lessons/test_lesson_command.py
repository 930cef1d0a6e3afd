"""`atento lesson` as it is run: what it prints, what it writes, what it refuses."""

import os
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from atento import cli
from atento.lessons.catalogue import LESSONS, Lesson

ROOT = Path(__file__).parents[2]
NAMES = [one.name for one in LESSONS]
Done = tuple[int, str, str]
VOID = {"meta", "rect", "br"}


def atento(
    *argv: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    return subprocess.run(
        [sys.executable, "-m", "atento", *argv],
        env=kept | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"} | environment,
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """The same within this process, which has torch already, as (exit code, stdout, stderr)."""

    def run(*argv: str, cwd: Path | None = None, **environment: str) -> Done:
        for key in ("LC_ALL", "LC_MESSAGES", "LANG"):
            monkeypatch.delenv(key, raising=False)
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        if cwd is not None:
            monkeypatch.chdir(cwd)
        capsys.readouterr()
        return (cli.main(list(argv)), *capsys.readouterr())

    return run


class Page(HTMLParser):
    """Complains where tags do not nest; collects what a page could reach for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.lang: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID, tag
        self.seen.add(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("one", LESSONS, ids=NAMES)
def test_a_lesson_runs_by_name_and_by_lecture(here: Callable[..., Done], one: Lesson) -> None:
    done = atento("lesson", one.name)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Compared: " in done.stdout
    assert one.lecture in one.aliases
    for alias in one.aliases:
        assert here("lesson", alias) == (0, done.stdout, "")


@pytest.mark.parametrize(
    ("options", "environment", "word"),
    [
        ([], {}, "[OK]"),
        ([], {"LANG": "pt_BR.UTF-8"}, "[certo]"),
        ([], {"LANG": "en_US.UTF-8"}, "[OK]"),
        (["--lang", "pt"], {"LANG": "en_US.UTF-8"}, "[certo]"),
        (["--lang", "en"], {"LANG": "pt_PT.UTF-8"}, "[OK]"),
    ],
)
def test_the_language_is_asked_for_or_the_environments(
    here: Callable[..., Done], options: list[str], environment: dict[str, str], word: str
) -> None:
    code, out, _ = here("lesson", "multi-head", *options, **environment)
    assert code == 0
    assert word in out


def test_a_page_is_written_by_a_process_of_its_own(tmp_path: Path) -> None:
    done = atento("lesson", "pizza", "--html", "aula.html", cwd=tmp_path, LANG="pt_BR.UTF-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Página gravada em aula.html\n"
    assert '<html lang="pt">' in (tmp_path / "aula.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("lang", ["pt", "en"])
@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_well_formed_and_needs_nothing_else(
    here: Callable[..., Done], tmp_path: Path, name: str, lang: str
) -> None:
    file = tmp_path / "aula.html"
    code, out, complaints = here("lesson", name, "--lang", lang, "--html", str(file))
    assert (code, complaints) == (0, "")
    assert str(file) in out
    text = file.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert ("html", "lang", lang) in page.attributes
    assert not page.seen & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "a",
    }
    asking = {"src", "href", "xlink:href", "action", "data", "style", "srcset"}
    assert not [one for one in page.attributes if one[1] in asking or one[1].startswith("on")]
    assert "://" not in text
    assert "svg" in page.seen
    assert "{" not in text.split("</style>")[1]


@pytest.mark.parametrize(
    "name", ["a b  &<i>.html", "-o.html", "ação 漢.html", "x\ny.html", "'\".html"]
)
@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_file_names_of_any_kind_are_taken(
    here: Callable[..., Done], tmp_path: Path, name: str
) -> None:
    code, out, complaints = here("lesson", "pizza", f"--html={name}", cwd=tmp_path)
    assert (code, complaints) == (0, "")
    assert name in out
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["none/p.html", "file.txt/p.html", ".", "p" * 300])
def test_a_page_that_cannot_be_written_is_one_line(
    here: Callable[..., Done], tmp_path: Path, name: str
) -> None:
    (tmp_path / "file.txt").write_text("x", encoding="utf-8")
    code, out, complaints = here("lesson", "pizza", "--html", name, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert complaints.startswith("atento: --html")
    assert complaints.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.skipif(
    not Path(os.devnull).is_char_device(), reason="a device is something else there"
)
def test_a_device_is_not_replaced_by_a_page(here: Callable[..., Done]) -> None:
    code, _, complaints = here("lesson", "pizza", "--html", os.devnull)
    assert code == 2
    assert "not a plain file" in complaints
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["piza"], "Did you mean `atento lesson pizza`?"),
        (["xyzzy"], "`atento lesson list`"),
        (["pizza", "more"], "'more'"),
        (["pizza", "--lang", "fr"], "fr"),
        (["pizza", "--colour"], "--colour"),
        (["list", "--html", "x.html"], "list"),
        (["list", "xyzzy"], "'xyzzy'"),
    ],
)
def test_mistakes_are_one_line_with_a_hint(argv: list[str], says: str, tmp_path: Path) -> None:
    done = atento("lesson", *argv, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_list_has_the_lessons_and_every_row() -> None:
    done = atento("lesson", "list", "--lang", "pt")
    assert done.returncode == 0
    assert done.stdout.startswith("Lições\n")
    for name in NAMES:
        assert f"\n  {name} " in done.stdout
    for row in ("S1 ", "S138", "E11", "N17", "C27", "F5"):
        assert f"\n  {row}" in done.stdout


def test_the_list_can_be_searched() -> None:
    found = atento("lesson", "list", "MASCARA", "causal").stdout
    assert "S31" in found
    assert "S44" not in found
    assert "multi-head" in atento("lesson", "list", "N8").stdout


@pytest.mark.parametrize("argv", [[], ["--help"], ["pizza", "-h"]])
def test_help_names_the_lessons(argv: list[str]) -> None:
    done = atento("lesson", *argv)
    assert done.returncode == 0
    assert all(name in done.stdout for name in [*NAMES, "list", "--lang", "--html"])


@pytest.mark.parametrize("argv", [["list"], ["list", "RoPE"], [], ["piza"]])
def test_listings_and_help_import_no_torch(argv: list[str]) -> None:
    code = (
        "import sys; from atento.cli import main\n"
        f"main(['lesson', *{argv!r}]); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 0


def test_lessons_run_without_numpy(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(
        "raise ModuleNotFoundError('no numpy here')", encoding="utf-8"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    done = atento("lesson", "pizza", "--html", "p.html", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.html").is_file()
