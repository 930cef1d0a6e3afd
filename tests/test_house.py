"""The rules of house.py hold in every file, and each is seen to complain where it is broken."""

import pytest

from house import (
    RULES,
    Rule,
    attention_stays_in_core,
    core_needs_torch_alone,
    every_part_has_its_place,
    files_fit_a_sitting,
    functions_fit_a_screen,
    house,
    imports_are_absolute,
    imports_go_one_way,
    no_cycles_at_import,
    no_kwargs,
    nothing_posix_only_at_import,
    public_names_are_defined_once,
    triton_waits_for_its_path,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps(rule: Rule) -> None:
    complaints = sorted(rule(house()))
    assert not complaints, "\n" + "\n".join(complaints)


IN = "def f():\n    "
BROKEN = [
    (imports_go_one_way, "core/a.py", IN + "from atento.layers.norm import RMSNorm", "a.py:2"),
    (imports_go_one_way, "core/a.py", "from atento.errors import UserError", "core may not"),
    (imports_go_one_way, "data/a.py", "from atento.core.attend import attend", "data may not"),
    (imports_go_one_way, "report/a.py", "from atento import __version__", "report may not"),
    (imports_go_one_way, "models/a.py", "from atento import attend", "models may not"),
    (imports_go_one_way, "plan/a.py", "import atento.compress.prune", "plan may not"),
    (imports_go_one_way, "tasks/a.py", "import_module('atento.cli')", "tasks may not"),
    (every_part_has_its_place, "misc/a.py", "", "misc has no place"),
    (core_needs_torch_alone, "core/a.py", IN + "import numpy", "a.py:2"),
    (triton_waits_for_its_path, "layers/a.py", "import triton", "kernels live in core"),
    (nothing_posix_only_at_import, "data/a.py", "import fcntl", "Windows"),
    (imports_are_absolute, "core/a.py", "from . import b", "a.py:1"),
    (no_cycles_at_import, "core/a.py", "from atento.core import a", "cycle"),
    (attention_stays_in_core, "layers/a.py", IN + "return F.softmax(x, -1)", "a.py:2"),
    (attention_stays_in_core, "layers/a.py", "from t import flex_attention", "flex_attention"),
    (no_kwargs, "layers/a.py", "def f(**options): ...", "**options"),
    (functions_fit_a_screen, "core/a.py", "def f():\n" + "    x\n" * 40, "41 lines"),
    (functions_fit_a_screen, "core/a.py", "def f(a, b, c, d, *, e, g, h, i, j): ...", "9 par"),
    (files_fit_a_sitting, "core/a.py", "\n" * 401, "401 lines"),
    (public_names_are_defined_once, "core/a.py", "__all__ = ['f']", "defined elsewhere"),
]
KEPT = [
    (imports_go_one_way, "data/a.py", "from atento.core.masks import Causal"),
    (imports_go_one_way, "layers/a.py", "from atento.core import masks\nimport atento.report.page"),
    (imports_go_one_way, "training/a.py", "from atento import __version__"),
    (nothing_posix_only_at_import, "data/a.py", "try:\n import fcntl\nexcept ImportError: x = 1"),
    (triton_waits_for_its_path, "core/a.py", IN + "import triton"),
    (attention_stays_in_core, "models/a.py", "p = F.softmax(x, -1)  # over vocabulary"),
    (no_kwargs, "tasks/a.py", "def train(recipe, **options): ..."),
    (no_kwargs, "inspection/a.py", "def f(**k):  # kwargs: the hook's contract\n    ..."),
    (functions_fit_a_screen, "core/a.py", 'def f():\n    """x' + "\n" * 60 + '    """'),
    (functions_fit_a_screen, "core/a.py", "def f():  # long: one table\n" + "    x\n" * 60),
]


@pytest.mark.parametrize(("rule", "path", "text", "says"), BROKEN)
def test_a_broken_rule_is_named(rule: Rule, path: str, text: str, says: str) -> None:
    complaints = "\n".join(rule({f"src/atento/{path}": text}))
    assert says in complaints


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_what_is_allowed_is_not_named(rule: Rule, path: str, text: str) -> None:
    assert not list(rule({f"src/atento/{path}": text, "src/atento/core/masks.py": ""}))


def test_a_file_of_kernels_is_imported_in_functions_only() -> None:
    kernels = {"src/atento/core/kernels.py": "import triton"}
    late = {"src/atento/core/a.py": IN + "from atento.core import kernels"}
    early = {"src/atento/core/b.py": "from atento.core.kernels import launch"}
    assert not list(triton_waits_for_its_path(kernels | late))
    assert "b.py:1" in "\n".join(triton_waits_for_its_path(kernels | late | early))
