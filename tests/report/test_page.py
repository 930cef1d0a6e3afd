"""A page stands alone: its policy lets nothing in, and it reaches disk whole or not at all."""

import base64
import hashlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from atento.report.file import write
from atento.report.language import language
from atento.report.markup import element
from atento.report.page import fragment, page


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    text = page("T", element("p", None, "x"), "pt")
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    allowed = policy.replace("&#x27;", "'").split("; ")
    assert allowed[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert not re.search(r"https?:|//|<script|<link|@import|url\(|style=|\bon\w+=", text)


def test_a_page_says_its_language_and_fits_light_and_dark() -> None:
    text = page("a < b", element("p", None, "x"), "pt")
    assert text.startswith('<!DOCTYPE html>\n<html lang="pt">')
    assert "<title>a &lt; b</title>" in text
    assert "prefers-color-scheme: dark" in text


def test_a_fragment_is_one_element_and_its_rules_stay_inside() -> None:
    text = fragment(element("p", None, "a < b"), "pt")
    assert text.startswith('<div class="atento" lang="pt"><style>')
    assert text.endswith("</style><p>a &lt; b</p></div>")
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    depth, outside = 0, ""
    for mark in style:
        depth += {"{": 1, "}": -1}.get(mark, 0)
        outside += mark if depth == 0 else ""
    assert depth == 0
    assert outside.replace("}", "").split() == [".atento"], "every rule is within .atento"
    assert not re.search(r"https?:|//|<script|<link|@import|url\(|\bon\w+=", text)


def test_drawing_imports_neither_torch_nor_numpy_nor_the_rest_of_atento() -> None:
    code = (
        "import sys; import atento.report.page, atento.report.heatmap, atento.report.table, "
        "atento.report.file, atento.report.language, "
        "atento.report.curves, atento.report.parts, atento.report.words\n"
        "others = {'torch', 'numpy', 'matplotlib', 'atento.errors', 'atento.core'}\n"
        "sys.exit(', '.join(others & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["p.html", "a b & <c>.html", "-x.html", "çã 漢.html", "a'b\"c.html"]
)
def test_a_file_is_written_and_written_over(tmp_path: Path, name: str) -> None:
    if sys.platform == "win32" and set(name) & set('<>"'):
        pytest.skip("no such names there")
    file = tmp_path / name
    write(file, "um")
    write(file, "dois\n")
    assert file.read_bytes() == b"dois\n"
    assert [left.name for left in tmp_path.iterdir()] == [name]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.html"
    write(file, "um")

    def fails(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        write(file, "dois")
    assert file.read_text(encoding="utf-8") == "um"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_or_a_device_is_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a plain file"):
        write(tmp_path, "x")
    with pytest.raises(OSError):
        write(tmp_path / "none" / "p.html", "x")
    if Path(os.devnull).exists():
        with pytest.raises(OSError, match="not a plain file"):
            write(Path(os.devnull), "x")


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are other things there")
def test_a_link_is_followed_and_the_mode_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "real" / "p.html")
    write(link, "x")
    assert link.is_symlink()
    (tmp_path / "plain").write_text("x", encoding="utf-8")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("real/p.html", "plain")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize(
    ("environment", "spoken"),
    [
        ({"LANG": "pt_BR.UTF-8"}, "pt"),
        ({"LANG": "pt_PT@euro"}, "pt"),
        ({"LANG": "PT"}, "pt"),
        ({"LANG": "en_GB.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
        ({}, "en"),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": ""}, "pt"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "pt_BR.UTF-8"}, "pt"),
    ],
)
def test_the_readers_language_is_the_environments(environment: dict[str, str], spoken: str) -> None:
    assert language(environment) == spoken
