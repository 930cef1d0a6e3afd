"""The shell of the project: what starts fast, what fails in one line, what the package holds."""

import importlib.util
import json
import os
import subprocess
import sys
import time
import tomllib
import types
import zipfile
from pathlib import Path

import pytest

import atento
from atento import cli
from atento.cli import doctor
from atento.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HIDE = """
import sys
hidden = {"fcntl", "triton"}
for name in hidden: sys.modules.pop(name, None)
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)
sys.meta_path.insert(0, Hide())
"""


def python(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *argv],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    "code",
    [
        "import atento, atento.cli; dir(atento)",
        "from atento.cli import main; main(['--help'])",
        "from atento.cli import main; main(['--version'])",
        "from atento.cli import main; main(['trian'])",
        "from atento.cli import main; assert main(['recipes']) == 0",
    ],
)
def test_listings_import_no_torch(code: str) -> None:
    done = python("-c", f"{code}\nimport sys; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_door_opens_without_dynamo() -> None:
    """It takes a second to import, as long as torch itself."""
    code = "import atento; atento.attend; import sys; sys.exit('torch._dynamo' in sys.modules)"
    assert python("-c", code).returncode == 0


def test_import_and_help_start_within_300_ms_of_a_bare_interpreter() -> None:
    def seconds(*argv: str) -> float:
        start = time.perf_counter()
        python(*argv)
        return time.perf_counter() - start

    starts = [("-c", "pass"), ("-c", "import atento"), ("-m", "atento", "--help")]
    bare, imported, helped = (min(seconds(*argv) for _ in range(7)) for argv in starts)
    assert imported - bare < 0.3
    assert helped - bare < 0.3


def test_every_verb_of_the_help_exists() -> None:
    missing = [verb for verb in cli.VERBS if importlib.util.find_spec(f"atento.cli.{verb}") is None]
    assert not missing


def test_every_name_on_offer_can_be_had() -> None:
    assert {"attend", "Causal", "train", "load"} <= set(dir(atento))
    for name in dir(atento):
        assert getattr(atento, name) is not None
    with pytest.raises(AttributeError, match="Did you mean 'attend'"):
        _ = atento.atend


def test_unknown_verb_is_one_line_with_a_hint() -> None:
    done = python("-m", "atento", "trian")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "atento train" in done.stderr


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (
            UserError("source must be a file;\n got 'x'."),
            2,
            "atento: source must be a file; got 'x'.\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_of_users_are_one_line(
    raised: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(argv: list[str]) -> int:
        raise raised

    monkeypatch.setitem(cli.VERBS, "fails", "a verb that fails")
    verb = types.ModuleType("atento.cli.fails")
    verb.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "atento.cli.fails", verb)
    assert cli.main(["fails"]) == code
    assert capsys.readouterr() == ("", says)


def test_defects_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = types.ModuleType("atento.cli.doctor")
    verb.run = lambda argv: [][0]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "atento.cli.doctor", verb)
    with pytest.raises(IndexError):
        cli.main(["doctor"])


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
def test_a_reader_that_left_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    argv = [sys.executable, "-m", "atento", "--help"]
    done = subprocess.run(argv, env=environment, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_doctor_json_is_one_flat_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "livro.txt").write_text("Era uma vez", encoding="utf-8")
    monkeypatch.setenv("ATENTO_DATA", str(tmp_path))
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert all(isinstance(value, str | int | bool | None) for value in facts.values())
    assert facts["atento"] == atento.__version__
    assert facts["data.text"] == 1
    assert "float32" in facts["precision.cpu"]
    assert cli.main(["doctor"]) == 0
    assert "1 file\n" in capsys.readouterr().out


def test_doctor_knows_the_extras_of_pyproject() -> None:
    def names(requirements: list[str]) -> tuple[str, ...]:
        return tuple(requirement.split(">=")[0] for requirement in requirements)

    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    assert names(project["dependencies"]) == doctor.CORE
    assert {key: names(extras[key]) for key in extras if key not in ("all", "dev")} == doctor.EXTRAS
    assert extras["all"] == [f"atento[{','.join(doctor.EXTRAS)}]"]


def test_every_requirement_is_pinned_within_its_range() -> None:
    requirements = pytest.importorskip("packaging.requirements")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split(";")[0].split("==") for line in lines if line and line[0] != "#")
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    wanted = [extras[key] for key in extras if key != "all"]
    asked = [line for lines in (project["dependencies"], *wanted) for line in lines]
    for line in asked:
        requirement = requirements.Requirement(line)
        assert pins[requirement.name] in requirement.specifier, line


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    done = python("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("atento-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "atento"
    files = {
        file.relative_to(ROOT / "src").as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "atento/py.typed" in held
    assert files <= held


def test_trains_without_fcntl_and_triton(tmp_path: Path) -> None:
    book = tmp_path / "livro.txt"
    book.write_text("Era uma vez um gato xadrez. " * 400, encoding="utf-8")
    out = tmp_path / "run"
    options = f"train text --data.source {book} --train.steps 3 -q --out {out}"
    code = (
        f"{HIDE}\nimport runpy\nsys.argv = ['atento', *{options.split()!r}]\n"
        "runpy.run_module('atento', run_name='__main__', alter_sys=True)"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (out / "model.safetensors").is_file()
