"""`atento demo` trains without and with attention, and tells what that changes."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from atento.cli import main
from atento.cli.story import Story
from atento.cli.terminal import WIDTH, Terminal
from atento.cli.wording import Wording
from atento.report.words import read
from atento.tasks import load

ROOT = Path(__file__).resolve().parents[2]
HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("pythonbible"):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)
sys.meta_path.insert(0, Hide())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: (
    None if name.startswith("pythonbible") else found(name, *rest)
)
import runpy
sys.argv = ["atento", *sys.argv[1:]]
runpy.run_module("atento", run_name="__main__", alter_sys=True)
"""
NETWORKS = ("without", "with")


def environment(**more: str) -> dict[str, str]:
    python = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
    return os.environ | python | more


def demo(
    *argv: str, cwd: Path, start: tuple[str, ...] = ("-m", "atento"), **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *start, "demo", *argv],
        env=environment(**more),
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )


def book(folder: Path, characters: int = 12_000) -> Path:
    """Sentences of a small grammar, in Portuguese."""
    draw = np.random.default_rng(0)
    parts = (
        ("A menina", "O gato", "Minha avó", "O pescador"),
        ("viu", "não quis", "achou", "perdeu"),
        ("a lua", "o pão", "uma canção", "o barco"),
        ("no mar.", "à noite.", "sem pressa.", "outra vez!"),
    )
    lines = [" ".join(draw.choice(words) for words in parts) for _ in range(characters // 25)]
    file = folder / "livro.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def table(out: str) -> dict[str, float]:
    """Each guesser of the table → its loss."""
    found = re.findall(r"^  (\D+?) +(?:[\d.,]+ +)?(\d[.,]\d{3}) +[\d.,]+  [█#]+$", out, re.M)
    return {name: float(loss.replace(",", ".")) for name, loss in found}


def test_the_demo_on_a_text_of_ones_own_tells_the_whole_story(tmp_path: Path) -> None:
    file = book(tmp_path)
    done = demo(str(file), "--steps", "5", "--lang", "pt", "--out", "aqui", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    home, out = tmp_path / "aqui", done.stdout
    kept = json.loads((home / "demo.json").read_text(encoding="utf-8"))
    assert (kept["format"], kept["version"]) == ("atento", 1)

    runs = [load(home / f"{network}-attention") for network in NETWORKS]
    for network, run in zip(NETWORKS, runs, strict=True):
        assert kept["losses"][network] == run.evaluate()["val_loss"]
        assert kept["parameters"][network] == sum(p.numel() for p in run.model.parameters())
    assert [run.config.attention for run in runs] == ["none", "dot"]
    shown = table(out)
    assert len(shown) == 6
    assert list(shown.values()) == [round(loss, 3) for loss in kept["losses"].values()]

    names = [head["head"] for head in kept["heads"]]
    config = runs[1].config
    assert names == [f"L{n}H{h}" for n in range(config.layers) for h in range(config.heads)]
    assert re.findall(r"^  (L\dH\d) ", out, re.M) == names
    most = max(kept["heads"], key=lambda head: head["lost"])["head"]
    assert f"a cabeça {most} " in " ".join(out.split())
    rows = re.findall(r"^    (\S) ([·░▒▓█ ]+)$", out, re.M)
    assert [len(row.split()) for _, row in rows] == list(range(1, config.context + 1))
    assert "".join(sign for sign, _ in rows) == kept["sentence"][:-1].replace(" ", "_")

    commands = re.findall(r"^    (atento .*)$", out, re.M)
    assert len(commands) == 3
    assert str(Path("aqui/with-attention")) in commands[0]
    assert str(file) in commands[1]
    assert f"\n    {Path('aqui/compare.html')}\n" in out
    assert_pages(home)
    told = [line for line in out.splitlines() if line not in [f"    {c}" for c in commands]]
    assert max(map(len, told)) <= WIDTH
    assert "{" not in out


def assert_pages(home: Path) -> None:
    """The comparison and both runs have theirs, in Portuguese."""
    page = (home / "compare.html").read_text(encoding="utf-8")
    assert all(Wording("pt")("table", network) in page for network in NETWORKS)
    reports = [(home / f"{network}-attention" / "report.html") for network in NETWORKS]
    assert '<html lang="pt"' in page
    assert all('<html lang="pt"' in file.read_text(encoding="utf-8") for file in reports)


def test_without_the_samples_it_takes_what_python_carries_and_says_so(tmp_path: Path) -> None:
    done = demo("--steps", "2", cwd=tmp_path, start=("-c", HIDE))
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "the King James Bible is not installed (pip install 'atento[samples]')" in said
    assert json.loads((tmp_path / "runs/demo-1/demo.json").read_bytes())["source"] == "pydoc"
    assert len(table(done.stdout)) == 6


def test_quiet_is_the_table_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book(tmp_path)
    assert main_in(tmp_path, ["demo", "livro.txt", "--steps", "1", "-q"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert len(table(out)) == len(out.splitlines()) - 2 == 6
    assert (tmp_path / out.splitlines()[-1]).is_file()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "atento", "demo", str(book(tmp_path)), "--out", "aqui"]
    with subprocess.Popen(
        [*argv, "--steps", "600"],  # the first record is made after 300
        env=environment(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as child:
        records = tmp_path / "aqui" / "without-attention" / "metrics.jsonl"
        until = time.monotonic() + 120
        while not (records.is_file() and records.stat().st_size) and time.monotonic() < until:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    assert err == ""
    folder = re.escape(str(Path("aqui/without-attention")))
    (resume,) = re.findall(rf"atento train \S+ --out {folder} --resume", " ".join(out.split()))
    assert main_in(tmp_path, [*resume.split()[1:], "-q"]) == 0
    steps = [record["step"] for record in load(tmp_path / "aqui/without-attention").metrics]
    assert steps[-1] == 600
    assert steps == sorted(set(steps))


def main_in(folder: Path, argv: list[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return main(argv)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("nada.txt", "there is no 'nada.txt'"),
        ("--data.source nada.txt", "there is no 'nada.txt'"),
        ("livro.txt --data.source livro.txt", "Give one of them"),
        ("-", "can be read twice"),
        ("short.txt", "at least 2,000 characters"),
        ("binary.txt", "UTF-8"),
        ("livro.txt --out .", "must be a new or empty folder"),
        ("livro.txt --steps 0", "--steps must be at least 1"),
        ("livro.txt --lang fr", "invalid choice: 'fr'"),
        ("livro.txt --step 3 --stepz", "unrecognized arguments"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    argv: str,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    book(tmp_path)
    (tmp_path / "short.txt").write_text("Era uma vez. " * 99, encoding="utf-8")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 99)
    before = sorted(os.listdir(tmp_path))
    assert main_in(tmp_path, ["demo", *argv.split()]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert says in err
    assert sorted(os.listdir(tmp_path)) == before


def test_a_short_text_and_a_licence_are_told_before_training(tmp_path: Path) -> None:
    file = book(tmp_path, 3_000)
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}\nTodos os direitos reservados.\n{text}", encoding="utf-8")
    said = io.StringIO()
    story = Story(str(file), tmp_path / "aqui", 1, Wording("pt"), Terminal(said))
    held = story.open()
    before = " ".join(said.getvalue().split())
    assert f"não vê os últimos {len(held)}" in before
    assert "O texto é curto" in before
    assert f"na linha {text.count(chr(10)) + 2} de {file}" in before


def test_what_the_demo_says_is_whole_in_both_languages() -> None:
    from atento.cli.wording import FILE

    places = re.compile(r"\{(\w+)\}")
    for key, languages in read(FILE)["demo"].items():
        assert languages.keys() == {"pt", "en"}, key
        assert languages["pt"].keys() == languages["en"].keys(), key
        for part, words in languages["pt"].items():
            other = languages["en"][part]
            assert sorted(set(places.findall(words))) == sorted(set(places.findall(other))), part
            assert words.strip() != other.strip()


def test_numbers_are_written_as_the_language_has_them() -> None:
    pt, en = Wording("pt"), Wording("en")
    assert [w.number(1234.5, 1) for w in (pt, en)] == ["1.234,5", "1,234.5"]
    assert [w.number(0.25, 2, "+") for w in (pt, en)] == ["+0,25", "+0.25"]


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from atento.cli import main\n"
        "try: main(['demo', '--help'])\n"
        "except SystemExit as left: assert not left.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_whole_demo_shows_what_attention_buys(tmp_path: Path) -> None:
    done = demo("--lang", "en", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    kept = json.loads((tmp_path / "runs/demo-1/demo.json").read_bytes())
    losses = kept["losses"]
    assert losses["uniform"] > losses["unigram"] > losses["bigram"]
    assert abs(losses["without"] - losses["bigram"]) < 0.05
    assert losses["with"] < losses["without"] - 0.2
    assert all(head["lost"] > 0 for head in kept["heads"])
    assert "That is what attention buys." in " ".join(done.stdout.split())
    page = (tmp_path / "runs/demo-1/compare.html").read_text(encoding="utf-8")
    assert "net with attention" in page
