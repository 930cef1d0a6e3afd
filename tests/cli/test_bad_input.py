"""What a user can mend, through the real command: exit 2, one line that names it, nothing written.

Each case is a process of its own, on a copy of its own of one small folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from atento.data.tokenizers import Characters
from atento.tasks import train
from tasks.books import OPTIONS, book

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")

HEAD = 'format = "atento"\nversion = 1\n'
Change = Callable[[Path], object]


def nothing(home: Path) -> None:
    pass


@dataclass(frozen=True)
class Case:
    """A command, what its one line must name, and how the folder is spoilt before."""

    argv: str
    says: str
    spoil: Change = nothing
    stdin: str = ""
    largest: int | None = None  # bytes that a file may have
    leaves: tuple[str, ...] = ()  # what may be there afterwards


def text(file: str, content: str) -> Change:
    return lambda home: (home / file).write_text(content, encoding="utf-8")


def flipped(file: str) -> Change:
    """One bit in the midst of a file."""

    def flip(home: Path) -> None:
        (path,) = home.glob(file)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))

    return flip


def cut(file: str) -> Change:
    return lambda home: os.truncate(home / file, (home / file).stat().st_size // 2)


def replaced(file: str, old: str, new: str) -> Change:
    def replace(home: Path) -> None:
        content = (home / file).read_text(encoding="utf-8")
        assert old in content
        (home / file).write_text(content.replace(old, new), encoding="utf-8")

    return replace


def gone(file: str) -> Change:
    return lambda home: (home / file).unlink()


TRAIN = "train text " + " ".join(f"--{key} {value}" for key, value in OPTIONS.items())
BOOK = f"{TRAIN} --source livro.txt"
AGAIN = "train text --out run --resume"
RESUME = f"{AGAIN} --steps 8"
CASES = {
    # the text
    "missing file": Case(f"{TRAIN} --source nada.txt", "'nada.txt'"),
    "no source": Case(TRAIN, "--data.source"),
    "empty file": Case(f"{TRAIN} --source empty.txt", "'empty.txt' holds no text"),
    "blank file": Case(f"{TRAIN} --source blank.txt", "'blank.txt' holds no text"),
    "binary file": Case(f"{TRAIN} --source binary.bin", "binary.bin is not"),
    "zero bytes": Case(f"{TRAIN} --source zeros.txt", "zeros.txt holds zero bytes"),
    "one character": Case(f"{TRAIN} --source one.txt", "at least 20 tokens"),
    "one character repeated": Case("train text --source same.txt --context 99", "got 100"),
    "shorter than the context": Case(
        "train text --source livro.txt --context 9999", "context of 9999"
    ),
    "UTF-16 without its mark": Case(f"{TRAIN} --source utf16.txt", "utf16.txt holds zero bytes"),
    "Latin-1": Case(f"{TRAIN} --source latin1.txt", "latin1.txt is not, from byte 1 on"),
    "folder without texts": Case(f"{TRAIN} --source pictures", "'pictures' is a folder without"),
    "empty standard input": Case(f"{TRAIN} --source -", "data.source '-' holds no text"),
    "standard input twice": Case(f"{TRAIN} --source -,-", "(-) twice", stdin="a" * 99),
    "nothing between commas": Case(f"{TRAIN} --source livro.txt,,one.txt", "comma"),
    "a name that is too long": Case(f"{TRAIN} --source {'a' * 5000}", "there is no 'aaa"),
    "a name that is too long for a run": Case(f"eval {'a' * 5000}", "there is no 'aaa"),
    "a name that is too long for out": Case(f"{BOOK} --out {'a' * 400}", "out must be a folder"),
    "a name that is too long for a recipe": Case(f"train {'a' * 5000}", "recipe must be one of"),
    "more than there is memory": Case(
        "train text --source livro.txt --heads 1 --width 1000000000", "not enough memory"
    ),
    "too small a vocabulary": Case(
        f"{BOOK} --tokenizer bpe --vocabulary_size 9", "vocabulary_size"
    ),
    "a vocabulary of characters": Case(f"{BOOK} --vocabulary_size 999", "'characters'"),
    "unknown tokenizer": Case(f"{BOOK} --tokenizer words", "'words'"),
    # the recipe
    "no recipe": Case("train", "recipe must be given"),
    "unknown recipe": Case("train texts", "Did you mean 'text'?"),
    "a text for a recipe": Case("train livro.txt", "--data.source livro.txt"),
    "TOML that is none": Case("train broken.toml", "broken.toml must be a recipe in TOML"),
    "another version": Case("train later.toml", "version must be 1"),
    "another format": Case("train other.toml", "format must be"),
    "unknown key": Case("train unknown.toml", "train.stepz"),
    "a value of another type": Case("train typed.toml", "train.steps must be a whole number"),
    # the options
    "unknown verb": Case("trian text", "Did you mean `atento train`?"),
    "unknown option": Case(f"{BOOK} --stepz 3", "Did you mean 'steps'?"),
    "an option twice": Case(f"{BOOK} --steps 3", "--steps was given twice"),
    "an option by two names": Case(f"{BOOK} --train.steps 3", "--train.steps was given twice"),
    "an option without its value": Case("train text --source", "--source must be followed"),
    "a flag with a value": Case(f"{BOOK} --resume=yes", "--resume is said or left out"),
    "negative": Case("train text --steps -3", "train.steps must be at least 1"),
    "zero": Case("train text --batch 0", "train.batch must be at least 1"),
    "not a number": Case("train text --rate nan", "train.rate must be above 0; got nan"),
    "infinite": Case("train text --rate inf", "train.rate must be above 0; got inf"),
    "words for a number": Case("train text --steps many", "train.steps must be a whole number"),
    "a fraction for a count": Case("train text --layers 2.5", "model.layers must be a whole"),
    "heads that do not divide": Case("train text --width 15 --heads 2", "multiple of model.heads"),
    "dropout of everything": Case("train text --model.dropout 1", "model.dropout must be"),
    "dropout that is no number": Case("train text --model.dropout nan", "model.dropout must be"),
    "smoothing everything": Case("train text --smoothing 1", "train.smoothing must be"),
    "hidden from a decoder": Case("train text --masked 0.3", "train.masked is for an encoder"),
    "hiding nothing": Case("train text --kind encoder --masked 0", "train.masked must be above 0"),
    "too large a seed": Case(
        "train text --seed 99999999999999999999", "train.seed must be at most"
    ),
    "a mask that looks ahead": Case(f"{BOOK} --mask Full()", "model.mask of a decoder"),
    "a mask that is code": Case(f"{BOOK} --mask exit()", "is no mask"),
    "a dry run to resume": Case(f"{BOOK} --dry-run --resume", "--dry-run"),
    # where it goes
    "out is a file": Case(f"{BOOK} --out livro.txt", "'livro.txt'"),
    "out below a file": Case(f"{BOOK} --out livro.txt/run", "out must be a folder"),
    "out is full": Case(f"{BOOK} --out pictures", "'pictures' is not"),
    "out holds a run": Case(f"{BOOK} --out run", "Add --resume"),
    "no space": Case(f"{BOOK} --out new", "'new' cannot", largest=0, leaves=("new",)),
    "no space later": Case(
        f"{BOOK} --out new",
        "Make room",
        largest=4000,
        leaves=(
            "new",
            "new/env.json",
            "new/recipe.toml",
            "new/tokenizer.json",
            "new/metrics.jsonl",
            "new/config.json",
            "new/checkpoint",
        ),
    ),
    # a run that goes on
    "nothing to resume": Case(f"{BOOK} --resume", "there is none in runs/text-N"),
    "no run to resume": Case(f"{BOOK} --out pictures --resume", "has no recipe.toml"),
    "another option": Case(f"{RESUME} --rate 0.5", "--train.rate must stay 0.01"),
    "another recipe": Case(
        RESUME.replace("train text", "train kjv-lecture"), "recipe must be 'text'"
    ),
    "another text": Case(
        RESUME, "content has changed", text("livro.txt", "Era outra vez um texto. " * 99)
    ),
    "a flipped bit": Case(
        AGAIN, "model.safetensors is damaged", flipped("run/checkpoint/*4/model.safetensors")
    ),
    "a checkpoint cut off": Case(
        AGAIN, "is damaged", cut("run/checkpoint/step-00000004/optimizer.safetensors")
    ),
    # a run that is asked
    "no such run": Case("eval nada", "there is no 'nada'"),
    "a folder that is no run": Case("eval pictures", "there is no config.json"),
    "a file for a run": Case("eval livro.txt", "there is no 'livro.txt'"),
    "a Hugging Face model": Case("sample hub", "is a Hugging Face model (gpt2)"),
    "the text of the run changed": Case(
        "eval run", "content has changed", text("livro.txt", "a" * 99)
    ),
    "the text of the run is gone": Case("eval run", "livro.txt'", gone("livro.txt")),
    "weights cut off": Case(
        "sample run", "cannot be read as safetensors", cut("run/model.safetensors")
    ),
    "weights gone": Case("sample run", "holds no model yet", gone("run/model.safetensors")),
    "a config that is no JSON": Case(
        "sample run", "config.json must hold JSON", cut("run/config.json")
    ),
    "a config of a later version": Case(
        "sample run",
        "version must be 1",
        replaced("run/config.json", '"version": 1', '"version": 2'),
    ),
    "a config with another word": Case(
        "eval run", "'widht' is not as", replaced("run/config.json", '"width"', '"widht"')
    ),
    "a config of another model": Case(
        "sample run",
        "model that config.json describes",
        replaced("run/config.json", '"layers": 2', '"layers": 3'),
    ),
    "a recipe spoilt": Case(
        "eval run", "recipe.toml", replaced("run/recipe.toml", "[train]", "[train")
    ),
    "a tokenizer gone": Case("sample run", "must hold tokenizer.json", gone("run/tokenizer.json")),
    "a tokenizer cut off": Case("sample run", "tokenizer.json must be", cut("run/tokenizer.json")),
    "a tokenizer of another model": Case(
        "sample run",
        "tokenizer.json has 4 tokens, and the model",
        text("run/tokenizer.json", Characters("abc").to_json()),
    ),
    "a character never seen": Case("sample run --prompt Жук", "'Ж'"),
    "a blank in a decoder": Case("sample run --blank #", "--blank is for an encoder"),
    "a negative temperature": Case("sample run --temperature -1", "temperature must be 0"),
    "a chance above 1": Case("sample run --top-p 1.5", "top_p must be above 0"),
    "negative tokens": Case("sample run --tokens -5", "tokens must be 0 or more"),
    "words for tokens": Case("sample run --tokens few", "--tokens"),
    "no samples": Case("sample run --samples 0", "samples must be at least 1"),
    "beyond the context": Case("sample run --tokens 99 --no-slide", "fit the 8 tokens"),
    "JSON of a sample": Case("sample run --json", "--json"),
    "JSON with a value": Case("eval run --json=yes", "--json"),
    "JSON of two runs": Case("eval run run --json --contexts 8", "--json is of one run"),
    "two runs": Case("eval run run", "atento eval takes one run"),
    "contexts of nothing": Case("eval run --contexts 0", "--contexts must be whole numbers"),
    "an extension of nothing": Case("eval run --extension yarn", "--extension is for --contexts"),
    "an unknown extension": Case("eval run --contexts 8 --extension far", "'far'"),
    "options of a run": Case("describe run --width 9", "a run has its options already"),
    "describing nothing": Case("describe nada", "'nada'"),
}
if os.path.isdir("/proc/self"):
    CASES["unwritable"] = Case(f"{BOOK} --out /proc/run", "'/proc/run' cannot")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("template")
    book(home)
    files = {
        "empty.txt": b"",
        "blank.txt": b" \n\t \n" * 99,
        "binary.bin": bytes(range(256)) * 9,
        "zeros.txt": b"abc\0" * 99,
        "one.txt": b"a",
        "same.txt": b"a" * 100,
        "utf16.txt": ("O rato roeu a roupa. " * 99).encode("utf-16-le"),
        "latin1.txt": ("Pão e água. " * 99).encode("latin-1"),
        "broken.toml": b"format = \n",
        "later.toml": HEAD.replace("1", "2").encode(),
        "other.toml": b'format = "cake"\nversion = 1\n',
        "unknown.toml": f"{HEAD}[train]\nstepz = 3\n".encode(),
        "typed.toml": f'{HEAD}[train]\nsteps = "many"\n'.encode(),
        "pictures/cat.png": b"\x89PNG",
        "hub/config.json": b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}',
    }
    for name, content in files.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(content)
    options = OPTIONS | {"steps": 4, "checkpoint_every": 2}
    train("text", out=home / "run", quiet=True, source=str(home / "livro.txt"), **options)
    return home


def tree(home: Path) -> dict[str, str]:
    """Every name in a folder → the hash of what it holds."""
    return {
        str(p.relative_to(home)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else ""
        for p in sorted(home.rglob("*"))
    }


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str
    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All cases, each in its own folder and process, two at a time."""
    homes, before = [], []
    for number, case in enumerate(CASES.values()):
        home = tmp_path_factory.mktemp("homes", numbered=True) / str(number)
        shutil.copytree(template, home)
        # The recipe of a run names its text from anywhere: here this copy's.
        replaced("run/recipe.toml", str(template), str(home))(home)
        case.spoil(home)
        homes.append(home)
        before.append(tree(home))
    orders = [
        {"argv": c.argv.split(), "cwd": str(home), "stdin": c.stdin, "largest": c.largest}
        for c, home in zip(CASES.values(), homes, strict=True)
    ]
    environment = os.environ | {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("forked.py"))],
        input=json.dumps(orders),
        env=environment | {"XDG_CACHE_HOME": str(template.parent / "cache")},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    found = zip(CASES, json.loads(done.stdout), before, homes, strict=True)
    return {name: Outcome(*said, held, tree(home)) for name, said, held, home in found}


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_line_and_nothing_is_written(name: str, outcomes: dict[str, Outcome]) -> None:
    case, outcome = CASES[name], outcomes[name]
    assert outcome.code == 2, outcome.err
    assert case.says in outcome.err
    assert outcome.err.startswith("atento: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.out + outcome.err
    assert {k: v for k, v in outcome.after.items() if k not in case.leaves} == outcome.before
