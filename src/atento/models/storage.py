"""Models on disk: model.safetensors and config.json, whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from atento.errors import UserError
from atento.models.build import Model, build
from atento.models.config import ModelConfig
from atento.models.format import MARK, check_format

__all__ = ["load_model", "read_json", "read_tensors", "save_model", "write", "write_tensors"]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
# What config.json has held from the start; a later field that it lacks has its default.
FIRST = {"kind", "width", "layers", "heads", "context", "dropout", "mask", "vocabulary"}


def save_model(model: nn.Module, config: ModelConfig, folder: Path) -> None:
    """Writes config.json and model.safetensors; a reader finds the old weights or the new ones."""
    settings = MARK | {name: getattr(config, name) for name in get_type_hints(ModelConfig)}
    write(folder / CONFIG, json.dumps(settings, indent=1, ensure_ascii=False).encode() + b"\n")
    write_tensors(folder / WEIGHTS, model.state_dict())


def load_model(folder: Path, device: str = "cpu") -> tuple[Model, ModelConfig]:
    """The model of a folder, in evaluation mode, and its config.

    Claim: test_storage.py::test_a_loaded_model_gives_the_same_logits
    """
    config = _config(folder)
    tensors = read_tensors(folder / WEIGHTS, device)
    with torch.random.fork_rng(devices=[]):  # weights that are overwritten cost no one a number
        model = build(config).to(device)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise UserError(
            f"{folder / WEIGHTS} does not hold the model that {CONFIG} describes: {error}"
        ) from error
    return model.eval(), config


def _config(folder: Path) -> ModelConfig:
    if not (folder / CONFIG).is_file():
        raise UserError(
            f"{str(folder)!r} must be a folder with {CONFIG} and {WEIGHTS}, as `atento train` "
            f"leaves it; there is no {CONFIG}. Check the path."
        )
    content = read_json(folder / CONFIG)
    if "format" not in content and ("model_type" in content or "architectures" in content):
        raise UserError(
            f"{str(folder)!r} is a Hugging Face model ({content.get('model_type', 'unnamed')}), "
            "not one of atento's. Load it with transformers."
        )
    check_format(content, str(folder / CONFIG))
    types = get_type_hints(ModelConfig)
    wrong = [k for k in content if k not in types and k not in MARK]
    wrong += [k for k in types if (k in content or k in FIRST) and not _is(types[k], content, k)]
    if wrong:
        raise UserError(f"{folder / CONFIG}: {wrong[0]!r} is not as atento writes it.")
    return ModelConfig(**{name: content[name] for name in types if name in content})


def _is(kind: type, content: dict[str, Any], name: str) -> bool:
    given = type(content.get(name))
    return given is kind or (kind is float and given is int)


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object of a file."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{file} must hold JSON; it does not: {error}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{file} must hold one JSON object; got {type(content).__name__}.")
    return content


def read_tensors(file: Path, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        tensors = tensors_of(file.read_bytes())
    except FileNotFoundError as error:
        raise UserError(
            f"{file} is not there: nothing was saved yet, or the path is wrong. A run that was "
            "stopped early goes on with --resume."
        ) from error
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file} cannot be read as safetensors: {error}.") from error
    return {name: x.to(device) for name, x in tensors.items()}


def write_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file, atomically."""
    write(file, bytes_of({name: x.detach().cpu().contiguous() for name, x in tensors.items()}))


def write(file: Path, content: bytes) -> None:
    """Writes under another name, waits for the disk, and renames: never half a file."""
    # Not tempfile's: its files are for their owner's eyes alone, and would stay so.
    other = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with other.open("wb") as part:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        os.replace(other, file)
    except BaseException:
        other.unlink(missing_ok=True)
        raise
