"""Masks are read from text, and nothing else is."""

import pytest

from atento.core.masks import Causal, Dilated, Prefix, Window, longformer
from atento.core.random_blocks import RandomBlocks
from atento.errors import UserError
from atento.models.mask import mask_from


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("Causal()", Causal()),
        ("Causal() & Window(255)", Causal() & Window(255)),
        (" Window(before=3, after=None) ", Window(3, None)),
        ("~Dilated(2) & Causal() | Prefix(n=4)", ~Dilated(2) & Causal() | Prefix(4)),
        ("longformer(3, [0, 1])", longformer(3, [0, 1])),
        ("RandomBlocks(2, 4, seed=0)", RandomBlocks(2, 4, 0)),
    ],
)
def test_text_reads_as_python_would(text: str, mask: object) -> None:
    assert mask_from(text) == mask


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Causl()", "Did you mean 'Causal'"),
        ("Where(3)", "takes a function"),
        ("Causal", r"write Causal\(\)"),
        ("Window(-1)", "no negative numbers; got −1"),
        ("Global([0, -2])", "got −2"),
        ("Window(3, before=3)", "multiple values for argument 'before'"),
        ("Window(before=1, before=2)", "repeated|twice"),
        ("Window(1, 2, 3)", "too many"),
        ("Window()", "missing a required argument: 'before'"),
        ("Window(size=1)", "no argument 'size'"),
        ("Window(1.5)", "whole numbers"),
        ("Window(True)", "whole numbers"),
        ("Dilated(0)", "≥ 1"),
        ("Prefix(None)", "≥ 0"),
        ("Causal() + Causal()", "joined by"),
        ("Causal() and Window(3)", "joined by"),
        ("", "written as in Python"),
    ],
)
def test_mistakes_are_named(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        mask_from(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('id')",
        "open('/etc/passwd')",
        "Causal().__class__.__mro__",
        "(lambda: Causal())()",
        "[Causal() for _ in range(9)]",
        "Causal() if 1 else Causal()",
        "(x := Causal())",
        "Window(*[1])",
        "Window(**{'before': 1})",
        "Window(9**9**9**9)",
        "Window(99999999999999999999)",
        "Window(__import__('os'))",
        "f'{Causal()}'",
        "\0",
        "~" * 400 + "Causal()",
        "~" * 10_000 + "Causal()",
        "(" * 200 + "Causal()" + ")" * 200,
    ],
)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^model\.mask"):
        mask_from(text)
