"""`train`: from a recipe to a run."""

import json
import os
import platform
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from atento import __version__
from atento.data.corpus import Progress
from atento.errors import UserError
from atento.models.build import drawing_words
from atento.models.count import counts
from atento.models.format import MARK
from atento.models.storage import read_json, write
from atento.tasks.folder import ENVIRONMENT, RECIPE, check_source
from atento.tasks.memory import memory_for
from atento.tasks.reading import reading
from atento.tasks.recipe import Recipe
from atento.tasks.rehearse import Rehearsal, rehearse
from atento.tasks.run import Run, load
from atento.tasks.subject import Learning, Subject, located, subject
from atento.tasks.translation_run import FILES, TranslationRun
from atento.training.capture import execution_for
from atento.training.checkpoint import latest, step_of
from atento.training.device import device_here, device_name
from atento.training.distributed import check_share, first, from_first, in_turn, joined, processes
from atento.training.lock import LOCK, locked
from atento.training.loop import fit
from atento.training.precision import precision_for
from atento.training.progress import Progress as Teller
from atento.training.progress import progress
from atento.training.words import training_words

__all__ = ["dry_run", "next_folder", "train"]

BEFORE_RECIPE = (ENVIRONMENT, *FILES)  # what a run's folder holds before it is a run


def train(
    recipe: str | Path | Recipe,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    resume_previous: bool = False,
    quiet: bool = False,
    tell: Teller | None = None,
    **options: Any,
) -> Run | TranslationRun:
    """Trains a recipe, a recipe's name or a TOML file, and returns the run.

    Options are those of the command line: dotted (`**{"train.steps": 500}`), or the last part where
    that is unique (`steps=500`). `out` is a new folder, runs/NAME-N unless given; with `resume` it
    is a run that goes on from its last checkpoint, and with `resume_previous` from the last whole
    one, where that is damaged. `tell` hears how it goes, in place of the terminal. What a user can
    mend is a `UserError`, raised before anything is written.
    """
    going_on = resume or resume_previous
    with joined(), ExitStack() as held:
        tell, device = tell or progress(quiet or not first()), device_here()
        place = from_first(lambda: str(out or _place(recipe, going_on)))

        def made() -> tuple[_Plan, Learning]:
            if not first():
                plan = _followed(Path(place))
                return plan, _task(plan, device)
            with reading(quiet) as far:
                plan = (_resumed if going_on else _begun)(recipe, place, options, far)
            check_share(plan.recipe.train.batch)
            task = _task(plan, device)
            if not plan.resumed:
                execution_for(task, plan.recipe.train)  # else refused before anything is written
            held.enter_context(_own_folder(plan.folder))
            if not plan.resumed:
                _check_new(plan.folder)  # again: another may have begun and ended meanwhile
            _prepare(plan, task, device)
            return plan, task

        held.enter_context(torch.random.fork_rng(devices=range(torch.cuda.device_count())))
        plan, task = in_turn(made)
        if first():
            tell.say(_header(plan, task, device))
            beside = task.stands_beside()
            for line in (*plan.subject.sentences(), beside, _how(plan, task)):
                tell.say(line)
        return _trained(plan, task, tell, resume_previous)


def _trained(
    plan: "_Plan", task: Learning, tell: Teller, resume_previous: bool
) -> Run | TranslationRun:
    try:
        settings, sha = plan.recipe.train, plan.subject.sha256
        with memory_for(plan.recipe):
            fit(task, settings, plan.folder, sha, tell, resume_previous=resume_previous)
    except KeyboardInterrupt:
        tell.say(_stopped(plan))
        if first() and (plan.folder / "model.safetensors").is_file():
            load(plan.folder).report()
        raise
    run = load(plan.folder)
    if first():
        run.report()
    return run


def _stopped(plan: "_Plan") -> str:
    again = f"atento train {shlex.quote(plan.name)} --out {shlex.quote(str(plan.folder))} --resume"
    checkpoint = latest(plan.folder)
    if checkpoint is None:
        return f"Stopped before anything was saved. To begin again: {again}"
    return f"Stopped; saved in {plan.folder} at step {step_of(checkpoint)}. To go on: {again}"


def dry_run(
    recipe: str | Path | Recipe,
    *,
    out: str | Path | None = None,
    quiet: bool = False,
    **options: Any,  # kwargs: those of train
) -> tuple[Rehearsal, Path, str]:
    """What `train` would do, where, and on which device; `out` is left as it is.

    Three steps are measured, after a first one.
    Claim: test_rehearse.py::test_a_dry_run_writes_nothing
    """
    with reading(quiet) as far:
        plan = _begun(recipe, out, options, far)
    device = device_here()
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices=devices), memory_for(plan.recipe):
        measured = rehearse(_task(plan, device), plan.recipe.train)
    return measured, plan.folder, device_name(device)


def _task(plan: "_Plan", device: torch.device) -> Learning:
    """What is to be learned, with weights drawn by the recipe's seed."""
    torch.manual_seed(plan.recipe.train.seed)
    with memory_for(plan.recipe):
        return plan.subject.task(plan.recipe.model, plan.recipe.train, device)


@dataclass(frozen=True)
class _Plan:
    name: str
    recipe: Recipe
    folder: Path
    subject: Subject
    resumed: bool


def _begun(
    recipe: str | Path | Recipe, out: str | Path | None, options: dict[str, Any], far: Progress
) -> _Plan:
    name, base = _named(recipe)
    whole = base.with_options(options)
    folder = next_folder(name) if out is None else Path(out).expanduser()
    _check_new(folder)
    if processes() > 1 and "-" in whole.data.source.split(","):
        raise UserError(
            f"data.source - can be read by one process only; got {processes()} that train "
            "together, each of which reads the text. Save it to a file, and name that."
        )
    found = subject(whole, far)
    # The recipe of a run must mean the same from any folder.
    whole = replace(whole, data=located(whole.task, whole.data))
    return _Plan(name, whole, folder, found, False)


def _check_new(folder: Path) -> None:
    """Refuses a folder in which no run can begin."""
    if os.path.exists(folder / RECIPE):  # False, not an error, where the name is too long
        raise UserError(
            f"out must be a new folder; {str(folder)!r} holds a run. Add --resume to go on with "
            "it, or name another --out."
        )
    if not os.path.exists(folder):
        return
    held = {entry.name for entry in folder.iterdir()} if folder.is_dir() else {""}
    # A process that was killed before it wrote its recipe, which is last, leaves its lock file.
    left = LOCK in held and all(name.startswith(".") or name in BEFORE_RECIPE for name in held)
    if held and not left:
        raise UserError(f"out must be a new or empty folder; {str(folder)!r} is not. Name another.")


def _resumed(
    recipe: str | Path | Recipe, out: str | Path | None, options: dict[str, Any], far: Progress
) -> _Plan:
    name, base = _named(recipe)
    folder = _last(name) if out is None else Path(out).expanduser()
    if not os.path.isfile(folder / RECIPE):
        raise UserError(
            f"out must be a run to resume; {str(folder)!r} has no {RECIPE}. Leave out --resume to "
            "begin one."
        )
    held = Recipe.read(str(folder / RECIPE))
    began = read_json(folder / ENVIRONMENT).get("recipe")
    if name not in (began, "recipe"):
        raise UserError(
            f"recipe must be {began!r}, as {str(folder)!r} began; got {name!r}. Name that one, or "
            "another --out."
        )
    # A Recipe says every option; of a name or a file, which may have changed since, the run's wins.
    given = base.with_options(options).flat() if isinstance(recipe, Recipe) else dict(options)
    wanted = held.with_options(given)
    wanted = replace(wanted, data=located(wanted.task, wanted.data))
    for option, value in wanted.flat().items():
        before = held.flat()[option]
        if value != before and not (option == "train.steps" and value > before):
            raise UserError(
                f"--{option} must stay {before!r}, as {str(folder)!r} began; got {value!r}. Leave "
                "it out, or begin a new run. Only --train.steps may grow."
            )
    found = subject(wanted, far, folder)
    check_source(folder, found.source, found.sha256)
    return _Plan(name, wanted, folder, found, True)


def _followed(folder: Path) -> _Plan:
    """The plan that the first of several processes has written down."""
    recipe = Recipe.read(str(folder / RECIPE))
    found = subject(recipe, folder=folder)
    check_source(folder, found.source, found.sha256)
    return _Plan("", recipe, folder, found, True)


def _place(recipe: str | Path | Recipe, going_on: bool) -> Path:
    """The run's folder where none is named."""
    name, _ = _named(recipe)
    return _last(name) if going_on else next_folder(name)


def _named(recipe: str | Path | Recipe) -> tuple[str, Recipe]:
    """The recipe, and the name that its runs go by."""
    if isinstance(recipe, Recipe):
        return "run", recipe
    return Path(recipe).stem, Recipe.read(str(recipe))


def _runs(name: str) -> list[int]:
    """The numbers N of the folders runs/NAME-N."""
    pattern = re.compile(rf"{re.escape(name)}-(\d+)")
    found = [pattern.fullmatch(entry.name) for entry in Path("runs").glob("*")]
    return sorted(int(match[1]) for match in found if match)


def next_folder(name: str) -> Path:
    """The next free runs/NAME-N."""
    return Path("runs") / f"{name}-{max(_runs(name), default=0) + 1}"


def _last(name: str) -> Path:
    numbers = _runs(name)
    if not numbers:
        raise UserError(
            f"--resume needs a run; there is none in runs/{name}-N. Name it with --out."
        )
    return Path("runs") / f"{name}-{numbers[-1]}"


@contextmanager
def _own_folder(folder: Path) -> Iterator[None]:
    """The run's folder, made, and locked against a second writer."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    with locked(folder):
        yield


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"out must be a folder that can be written; {str(folder)!r} cannot ({error.strerror}). "
        "Name another with --out."
    )


def _prepare(plan: _Plan, task: Learning, device: torch.device) -> None:
    """Writes what a run's folder holds before its first step."""
    try:
        if not plan.resumed:
            environment = _environment(plan, task, device) | {"data": plan.subject.facts(task)}
            content = json.dumps(environment, indent=1, ensure_ascii=False) + "\n"
            write(plan.folder / ENVIRONMENT, content.encode())
            for name, file in plan.subject.files().items():
                write(plan.folder / name, file)
        # Last: a folder is a run once it has its recipe.
        write(plan.folder / RECIPE, plan.recipe.to_toml().encode())
    except OSError as error:
        for name in () if plan.resumed else BEFORE_RECIPE:
            (plan.folder / name).unlink(missing_ok=True)
        raise _unwritable(plan.folder, error) from error


def _environment(plan: _Plan, task: Learning, device: torch.device) -> dict[str, Any]:
    """What a run began with, and keeps when it is resumed."""
    return MARK | {
        "recipe": plan.name,
        "source": plan.subject.sha256,
        "atento": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "device": device_name(device),
        "parameters": _parameters(task),
        "precision": precision_for(plan.recipe.train.precision, task.model),
        "execution": execution_for(task, plan.recipe.train)[0],
        "processes": processes(),
    }


def _header(plan: _Plan, task: Learning, device: torch.device) -> str:
    checkpoint = latest(plan.folder)
    going_on = ""
    if checkpoint and step_of(checkpoint) >= plan.recipe.train.steps:
        going_on = f", finished after {step_of(checkpoint)} steps (more: --train.steps N)"
    elif checkpoint:
        going_on = f", going on after step {step_of(checkpoint)}"
    precision = precision_for(plan.recipe.train.precision, task.model)
    return (
        f"{plan.folder}{going_on}: {device_name(device)} · {precision} · {_steps(plan, task)} · "
        f"{_parameters(task):,} parameters{_beside(task)} · {task.sizes()}"
    )


def _steps(plan: _Plan, task: Learning) -> str:
    """How steps are taken; on CUDA also why."""
    held = read_json(plan.folder / ENVIRONMENT).get("execution", "eager") if plan.resumed else None
    execution, why = (held, "as it began") if held else execution_for(task, plan.recipe.train)
    if execution == "graph":
        return "steps captured as a CUDA graph"
    on_cuda = next(task.model.parameters()).is_cuda
    return f"eager steps, because {why}" if on_cuda and not held else "eager steps"


def _beside(task: Learning) -> str:
    """Of a model without attention, what the same with it would have."""
    if task.config.attention != "none":
        return ""
    return f" ({counts(task.config)['dot'].total:,} with attention)"


def _how(plan: _Plan, task: Learning) -> str:
    how = training_words(plan.recipe.train, paired=plan.recipe.task == "translation")
    return f"{how} · {drawing_words(task.config)}"


def _parameters(task: Learning) -> int:
    return sum(p.numel() for p in task.model.parameters())
