"""`compare`: several recipes and seeds, trained on the same data, beside each other."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from atento.errors import UserError
from atento.models.storage import read_json
from atento.tasks.comparison import Comparison, Group, Member
from atento.tasks.folder import RECIPE
from atento.tasks.recipe import Recipe, find_option, named_recipes
from atento.tasks.run import Run
from atento.tasks.start import next_folder, train
from atento.tasks.subject import located
from atento.training.checkpoint import STATE, latest
from atento.training.progress import progress

__all__ = ["compare"]

MOST = 100  # seeds


def compare(
    *recipes: str | Path | Recipe | Run,
    seeds: int = 1,
    out: str | Path | None = None,
    quiet: bool = False,
    **options: Any,  # kwargs: those of train
) -> Comparison:
    """Trains each recipe with each seed under the same options, and sets the runs side by side.

    What is named may also be a run, or its folder, which is taken as it is. Seeds are a recipe's
    own and those that follow it. The runs lie in `out`, runs/compare-N unless given. Where `out`
    holds the beginning of this comparison it goes on: finished runs are not trained again. Recipes
    on different sources are refused; whatever else differs is marked in the result.
    Claim: test_compare.py::test_an_interrupted_comparison_goes_on_where_it_stopped
    """
    if not 1 <= seeds <= MOST:
        raise UserError(f"seeds must be between 1 and {MOST}; got {seeds}.")
    if not recipes:
        raise UserError("compare needs two or more recipes or runs, or several --seeds; got none.")
    given = {find_option(name).dotted: value for name, value in options.items()}
    home = next_folder("compare") if out is None else Path(out).expanduser()
    plans = _plans(recipes, seeds, given, home)
    _check(plans, home)
    tell = progress(quiet)
    todo = [(plan, n) for plan in plans for n in range(len(plan.folders)) if plan.wanted]
    try:
        for count, (plan, n) in enumerate(todo, 1):
            already = ": trained already" if plan.finished(n) else ""
            tell.say(f"[{count}/{len(todo)}] {plan.name}, seed {plan.seed(n)}{already}")
            plan.train(n, quiet)
    except KeyboardInterrupt:
        named = " ".join(shlex.quote(str(r)) for r in recipes if isinstance(r, str | Path))
        said = " ".join(f"--{k} {shlex.quote(str(v))}" for k, v in given.items())
        again = f"atento compare {named} --seeds {seeds} --out {shlex.quote(str(home))} {said}"
        tell.say(f"The comparison goes on with: {again.rstrip()}")
        raise
    groups = [Group(plan.name, tuple(Member.of(f) for f in plan.folders)) for plan in plans]
    comparison = Comparison(home, tuple(groups))
    comparison.report()
    return comparison


@dataclass(frozen=True)
class _Plan:
    """One of those compared: a recipe with all options, or runs that are there (wanted = None)."""

    name: str
    folders: tuple[Path, ...]
    wanted: Recipe | None = None
    base: str | Path | Recipe = ""
    options: tuple[tuple[str, Any], ...] = ()

    def seed(self, n: int) -> int:
        return self.wanted.train.seed + n if self.wanted else 0

    def recipe(self, n: int) -> Recipe:
        """What the run of the n-th seed is trained by."""
        assert self.wanted is not None
        data = located(self.wanted.task, self.wanted.data)
        seeded = replace(self.wanted.train, seed=self.seed(n))
        return replace(self.wanted, data=data, train=seeded)

    def finished(self, n: int) -> bool:
        """Whether that run is done: its last step, or patience, was reached."""
        checkpoint = latest(self.folders[n])
        if checkpoint is None or not (self.folders[n] / "model.safetensors").is_file():
            return False
        state, settings = read_json(checkpoint / STATE), self.recipe(n).train
        tired = 0 < settings.patience <= state.get("stale", 0)
        return tired or state.get("step", 0) >= settings.steps

    def train(self, n: int, quiet: bool) -> None:
        folder = self.folders[n]
        if self.finished(n):
            return
        begun = (folder / RECIPE).is_file()
        given = dict(self.options) | {"train.seed": self.seed(n)}
        train(self.base, out=folder, resume=begun, quiet=quiet, **given)


def _plans(
    recipes: tuple[str | Path | Recipe | Run, ...], seeds: int, given: dict[str, Any], home: Path
) -> list[_Plan]:
    plans: list[_Plan] = []
    for place, named in enumerate(recipes, 1):
        run = _run_folder(named)
        if run is not None:
            name = _free(run.resolve().name, plans)
            plans.append(_Plan(name, (run,)))
            continue
        assert not isinstance(named, Run)
        base = named if isinstance(named, Recipe) else Recipe.read(str(named))
        stem = f"recipe-{place}" if isinstance(named, Recipe) else Path(named).stem
        name = _free(stem, plans)
        wanted = base.with_options(given)
        folders = tuple(home / f"{name}-{wanted.train.seed + n}" for n in range(seeds))
        plans.append(_Plan(name, folders, wanted, named, tuple(given.items())))
    return plans


def _run_folder(named: str | Path | Recipe | Run) -> Path | None:
    """The folder of a run that is there already."""
    if isinstance(named, Run):
        return named.folder
    if isinstance(named, Recipe) or str(named) in named_recipes():
        return None
    folder = Path(named).expanduser()
    return folder if (folder / RECIPE).is_file() else None


def _free(name: str, plans: list[_Plan]) -> str:
    """The name, or with a number behind it where it is another's."""
    taken, count = {plan.name for plan in plans}, 1
    while (name if count == 1 else f"{name}-{count}") in taken:
        count += 1
    return name if count == 1 else f"{name}-{count}"


def _check(plans: list[_Plan], home: Path) -> None:
    """What would come out wrong, before anything is trained."""
    if sum(len(plan.folders) for plan in plans) < 2:
        raise UserError(
            "compare needs two or more recipes or runs, or a recipe with several --seeds; got one "
            f"{'recipe' if plans[0].wanted else 'run, whose seed is what it is'}."
        )
    sources = {p.name: located(p.wanted.task, p.wanted.data).source for p in plans if p.wanted}
    if len(set(sources.values())) > 1:
        said = ", ".join(f"{name} {source!r}" for name, source in sources.items())
        raise UserError(
            f"data.source must be the same for all that is trained; got {said}. Name one for all: "
            "--data.source NAME"
        )
    if "-" in sources.values() and sum(len(plan.folders) for plan in plans if plan.wanted) > 1:
        raise UserError(
            "data.source - can be read only once, and is trained on several times. Write it to a "
            "file, and name that."
        )
    if home.exists() and not home.is_dir():
        raise UserError(f"out must be a folder; {str(home)!r} is none. Name another --out.")
    for plan in plans:
        for n, folder in enumerate(plan.folders):
            if not plan.wanted:
                Member.of(folder)
            elif (folder / RECIPE).is_file():
                _check_same(plan.recipe(n), folder)


def _check_same(wanted: Recipe, folder: Path) -> None:
    held = Recipe.read(str(folder / RECIPE)).flat()
    for option, value in wanted.flat().items():
        if held.get(option) != value:
            raise UserError(
                f"--{option} must stay {held.get(option)!r}, as {str(folder)!r} began; got "
                f"{value!r}. Name another --out for another comparison."
            )
