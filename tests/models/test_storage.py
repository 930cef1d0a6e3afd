"""Models come back from disk as they went, and what is not one is told apart."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.storage import load_model, save_model, write
from models.test_build import SMALL, VARIANTS

CONFIG = ModelConfig(
    width=12, layers=2, heads=3, context=7, vocabulary=11, dropout=0.1, mask="Causal() & Window(3)"
)
PAIRED: list[dict[str, Any]] = [
    {"kind": "encoder-decoder"},
    {"kind": "encoder-decoder", "shared": False, "source_vocabulary": 13, "placement": "post"},
    {"kind": "recurrent", "attention": "additive", "bidirectional": True},
    {"kind": "recurrent", "attention": "none", "unit": "lecture-gru", "tied": False},
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(3)
    save_model(build(CONFIG), CONFIG, tmp_path)
    return tmp_path


def test_a_loaded_model_gives_the_same_logits(saved: Path) -> None:
    torch.manual_seed(3)
    model = build(CONFIG).eval()
    again, config = load_model(saved)
    assert config == CONFIG
    tokens = torch.randint(11, (2, 7))
    assert torch.equal(again(tokens), model(tokens))


def test_the_folder_holds_two_files_and_the_tied_matrix_once(saved: Path) -> None:
    assert sorted(os.listdir(saved)) == ["config.json", "model.safetensors"]
    content = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    assert (content["format"], content["version"]) == ("atento", 1)
    with safe_open(saved / "model.safetensors", "pt") as file:
        shapes = [tuple(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    assert shapes.count((11, 12)) == 1


def change(folder: Path, **given: object) -> None:
    file = folder / "config.json"
    content = json.loads(file.read_text(encoding="utf-8")) | given
    file.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"version": 2}, "version must be 1, .* got 2. Update atento"),
        ({"format": "other"}, 'format must be "atento"'),
        ({"wide": 3}, "'wide' is not as atento writes it"),
        ({"width": "12"}, "'width' is not as"),
        ({"layers": True}, "'layers' is not as"),
        ({"tied": 1}, "'tied' is not as"),
        ({"width": 24}, "does not hold the model"),
        ({"mask": "evil()"}, "is no mask"),
    ],
)
def test_what_cannot_be_read_is_refused(saved: Path, given: dict[str, object], says: str) -> None:
    change(saved, **given)
    with pytest.raises(UserError, match=says):
        load_model(saved)


def test_a_hugging_face_folder_is_told_apart(tmp_path: Path) -> None:
    content = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=r"Hugging Face model \(gpt2\)"):
        load_model(tmp_path)


def test_missing_and_broken_files_are_named(saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(b"\x00" * 5)
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        load_model(saved)
    (saved / "model.safetensors").unlink()
    with pytest.raises(UserError, match="is not there"):
        load_model(saved)
    (saved / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="must hold JSON"):
        load_model(saved)
    (saved / "config.json").unlink()
    with pytest.raises(UserError, match=r"there is no config\.json"):
        load_model(saved)


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
def test_files_are_as_readable_as_any_other(saved: Path) -> None:
    (saved / "plain").touch()
    modes = {file.stat().st_mode for file in saved.iterdir()}
    assert len(modes) == 1


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_variant_comes_back_as_it_went(given: dict[str, Any], tmp_path: Path) -> None:
    config = ModelConfig(**(SMALL | given))
    model = build(config).eval()
    save_model(model, config, tmp_path)
    again, read = load_model(tmp_path)
    assert read == config
    tokens = torch.randint(13, (2, 7))
    assert torch.equal(again(tokens), model(tokens))


@pytest.mark.parametrize("given", PAIRED, ids=str)
def test_models_of_pairs_come_back_as_they_went(given: dict[str, Any], tmp_path: Path) -> None:
    config = ModelConfig(width=12, context=7, vocabulary=11, **given)
    model = build(config).eval()
    save_model(model, config, tmp_path)
    again, read = load_model(tmp_path)
    assert read == config
    source, target = torch.randint(11, (2, 7)), torch.randint(11, (2, 5))
    assert torch.equal(again(source, target), model(source, target))


def test_a_config_from_before_a_field_was_known_has_its_default(saved: Path) -> None:
    file = saved / "config.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    first = ["width", "layers", "heads", "context", "dropout", "mask", "vocabulary", "kind"]
    kept = {name: content[name] for name in ("format", "version", *first)}
    file.write_text(json.dumps(kept), encoding="utf-8")
    assert load_model(saved)[1] == CONFIG
    del kept["heads"]
    file.write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(UserError, match="'heads' is not as atento writes it"):
        load_model(saved)
