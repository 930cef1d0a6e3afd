"""The rules of the house, read from the sources: who may import whom, what lives where, how long.

A rule is a function from sources (path → text) to complaints, so that it can be tested on sources
that break it. An exception is a comment that gives its reason, on the line that needs it:
`# long: …` for size, `# kwargs: …` for a signature that another library dictates, `# over classes`
(or vocabulary, experts, candidates) for a softmax that is not attention.
"""

import ast
import graphlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Sources = dict[str, str]
Rule = Callable[[Sources], Iterator[str]]

LAYERS = ("core", "layers", "models", "training")
BESIDE = ("inspection", "compress", "plan")
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "report": set(),
    "data": {"core.masks", "report"},
    "layers": {"core", "report"},
    "models": {"core", "layers", "report"},
    "training": {"core", "layers", "models", "data", "report"},
    **{name: {*LAYERS, "data", "report"} for name in BESIDE},
    "tasks": {*LAYERS, *BESIDE, "data", "report"},
    **{name: {*LAYERS, *BESIDE, "data", "report", "tasks"} for name in ("explorer", "lessons")},
    "cli": {*LAYERS, *BESIDE, "data", "report", "tasks", "explorer", "lessons"},
    "__main__": {"cli"},
    "": set(),
    "errors": set(),
}
NO_ERRORS_MODULE = {"core", "report", "", "errors", "__main__"}
USES_THE_DOOR_AS_USERS_DO = {"cli", "lessons", "explorer"}
POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios"}
FUSED = {"scaled_dot_product_attention", "flex_attention"}
SOFTMAX = {"softmax", "log_softmax", "Softmax", "LogSoftmax", "softmin", "Softmin"}
NOT_KEYS = re.compile(r"#.*\bover (vocabulary|classes|experts|candidates)\b")


@dataclass(frozen=True)
class Import:
    path: str
    line: int
    target: str
    names: tuple[str, ...]
    at_import: bool  # runs when the file is imported: in no function, not for type checkers only
    guarded: bool  # inside try … except ImportError

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def part_of(module: str) -> str:
    """`atento.core.masks` → `core`; `atento` → the empty string."""
    return module.split(".")[1] if "." in module else ""


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def imports(sources: Sources) -> Iterator[Import]:
    modules = {module_of(path) for path in sources}
    for path, text in sources.items():
        if path.startswith("src/"):
            yield from _imports_below(parsed(text), path, modules, True, False)


def _imports_below(
    node: ast.AST, path: str, modules: set[str], at_import: bool, guarded: bool
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        now, safe = at_import, guarded
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                now = False
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                now = False
            case ast.Try(handlers=handlers):
                caught = " ".join(ast.unparse(h.type) for h in handlers if h.type)
                safe = guarded or "ImportError" in caught or "ModuleNotFoundError" in caught
        for target, names in _targets(child, modules):
            yield Import(path, child.lineno, target, names, now, safe)
        yield from _imports_below(child, path, modules, now, safe)


def _targets(node: ast.AST, modules: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    match node:
        case ast.Import(names=names):
            yield from ((alias.name, ()) for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            files = [a.name for a in names if f"{module}.{a.name}" in modules]
            rest = tuple(a.name for a in names if a.name not in files)
            yield from ((f"{module}.{name}", ()) for name in files)
            if rest:
                yield module, rest
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name("import_module" | "__import__"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            yield module, ()


def imports_go_one_way(sources: Sources) -> Iterator[str]:
    for found in imports(sources):
        if found.target.split(".")[0] != "atento":
            continue
        here, there = part_of(module_of(found.path)), part_of(found.target)
        if there == "errors":
            allowed = here not in NO_ERRORS_MODULE
        elif there == "":
            version_only = found.names == ("__version__",)
            allowed = here in USES_THE_DOOR_AS_USERS_DO or (version_only and here in MAY_IMPORT)
            allowed = allowed and here not in ("core", "report")
        else:
            inside = found.target.removeprefix("atento.")
            allowed = here == there or any(
                inside == name or inside.startswith(f"{name}.")
                for name in MAY_IMPORT.get(here, set())
            )
        if not allowed:
            yield (
                f"{found.where}: {here or 'atento'} may not import {found.target}; it may import "
                f"{', '.join(sorted(MAY_IMPORT.get(here, set()))) or 'nothing of atento'}"
            )


def every_part_has_its_place(sources: Sources) -> Iterator[str]:
    for path in sources:
        if path.startswith("src/") and part_of(module_of(path)) not in MAY_IMPORT:
            yield f"{path}:1: {part_of(module_of(path))} has no place in the layers"


def core_needs_torch_alone(sources: Sources) -> Iterator[str]:
    known = {*sys.stdlib_module_names, "torch", "atento"}
    for found in imports(sources):
        top = found.target.split(".")[0]
        if part_of(module_of(found.path)) == "core" and top not in known:
            if top == "triton":
                continue  # triton_waits_for_its_path has the say
            yield f"{found.where}: core imports torch and the standard library; not {top}"


def triton_waits_for_its_path(sources: Sources) -> Iterator[str]:
    """A file of kernels needs triton at its top, so nothing may import that file at its own."""
    kernels = {
        module_of(found.path)
        for found in imports(sources)
        if found.target.split(".")[0] == "triton" and found.at_import and not found.guarded
    }
    for module in sorted(kernels):
        if part_of(module) != "core":
            yield f"{module}: kernels live in core"
    for found in imports(sources):
        reached = {found.target, *(f"{found.target}.{name}" for name in found.names)} & kernels
        if found.at_import and reached and module_of(found.path) not in reached:
            yield f"{found.where}: import {found.target} inside the function that launches it"


def nothing_posix_only_at_import(sources: Sources) -> Iterator[str]:
    users = set()
    for found in imports(sources):
        top = found.target.split(".")[0]
        if top in POSIX_ONLY and found.at_import and not found.guarded:
            yield f"{found.where}: {top} is missing on Windows; guard it or import it where used"
        if top in ("fcntl", "msvcrt"):
            users.add(found.path)
    if len(users) > 1:
        yield f"file locks live in one file; found in {', '.join(sorted(users))}"


def imports_are_absolute(sources: Sources) -> Iterator[str]:
    for path, text in sources.items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                yield f"{path}:{node.lineno}: write the import from atento on"


def no_cycles_at_import(sources: Sources) -> Iterator[str]:
    modules = {module_of(path) for path in sources if path.startswith("src/")}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for found in imports(sources):
        if found.at_import and found.target in modules:
            graph[module_of(found.path)].add(found.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield "cycle: " + " ← ".join(error.args[1])


def attention_stays_in_core(sources: Sources) -> Iterator[str]:
    for path, text in sources.items():
        if not path.startswith("src/") or part_of(module_of(path)) == "core":
            continue
        lines = text.splitlines()
        for node in ast.walk(parsed(text)):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    pass
                case ast.alias(name=dotted):
                    name = dotted.split(".")[-1]
                case _:
                    continue
            if name in FUSED:
                yield f"{path}:{node.lineno}: {name} appears in core only; call attend"
            around = " ".join(lines[node.lineno - 1 : node.end_lineno])
            if name in SOFTMAX and not NOT_KEYS.search(around):
                yield (
                    f"{path}:{node.lineno}: softmax over keys appears in core only. If this one "
                    "is not, say so on its line: # over vocabulary|classes|experts|candidates"
                )


def private_operators_share_a_file(sources: Sources) -> Iterator[str]:
    users = {
        f"{path}:{node.lineno}": path
        for path, text in sources.items()
        if path.startswith("src/")
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value).endswith("ops.aten")
    }
    if len(set(users.values())) > 1:
        yield f"private aten operators live in one file; found at {', '.join(sorted(users))}"


def functions(sources: Sources) -> Iterator[tuple[str, str, ast.FunctionDef, str]]:
    """Each function as (path, where, node, its lines from `def` to the first statement)."""
    for path, text in sources.items():
        lines = text.splitlines()
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                stop = max(node.body[0].lineno - 1, node.lineno)
                head = "\n".join(lines[node.lineno - 1 : stop])
                yield path, f"{path}:{node.lineno}: {node.name}", node, head


def no_kwargs(sources: Sources) -> Iterator[str]:
    for path, where, node, head in functions(sources):
        part = part_of(module_of(path)) if path.startswith("src/") else "tests"
        at_the_door = part == "cli" or (part == "tasks" and node.name == "train")
        if node.args.kwarg and not at_the_door and part != "tests" and "# kwargs: " not in head:
            yield f"{where} takes **{node.args.kwarg.arg}; name the arguments"


def functions_fit_a_screen(sources: Sources) -> Iterator[str]:
    for _, where, node, head in functions(sources):
        if "# long: " in head:
            continue
        first = node.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
        length = (node.end_lineno or 0) - node.lineno + 1 - docstring
        if length > 40:
            yield f"{where} has {length} lines besides its docstring; 40 is the limit"
        named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = sum(arg.arg not in ("self", "cls") for arg in named)
        if count > 8:
            yield f"{where} has {count} parameters; 8 is the limit"


def files_fit_a_sitting(sources: Sources) -> Iterator[str]:
    for path, text in sources.items():
        lines = text.splitlines()
        if len(lines) > 400 and "# long: " not in lines[0]:
            yield f"{path}:1: has {len(lines)} lines; 400 is the limit"


def public_names_are_defined_once(sources: Sources) -> Iterator[str]:
    seen: dict[str, str] = {}
    for path, text in sources.items():
        if not path.startswith("src/") or part_of(module_of(path)) != "core":
            continue
        body = parsed(text).body
        defined = {name for node in body for name in _defined(node)}
        for node in body:
            match node:
                case ast.Assign(
                    targets=[ast.Name("__all__")], value=ast.List() | ast.Tuple() as it
                ):
                    for name in ast.literal_eval(it):
                        if name not in defined:
                            yield f"{path}:{node.lineno}: __all__ has {name}, defined elsewhere"
                        if name in seen:
                            yield f"{path}:{node.lineno}: {name} is public in {seen[name]} too"
                        seen[name] = path


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


RULES: tuple[Rule, ...] = (
    imports_go_one_way,
    every_part_has_its_place,
    core_needs_torch_alone,
    triton_waits_for_its_path,
    nothing_posix_only_at_import,
    imports_are_absolute,
    no_cycles_at_import,
    attention_stays_in_core,
    private_operators_share_a_file,
    no_kwargs,
    functions_fit_a_screen,
    files_fit_a_sitting,
    public_names_are_defined_once,
)


@cache
def house() -> Sources:
    """Every Python file of the project."""
    return {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for folder in ("src", "tests", "bench")
        for file in sorted((ROOT / folder).rglob("*.py"))
    }
