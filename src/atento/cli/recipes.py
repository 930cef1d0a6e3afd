"""`atento recipes`: what can be trained, one line each."""

from atento.cli.parser import Parser
from atento.tasks.recipe import named_recipes

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Prints each recipe's name and the first line of its file; imports no torch."""
    parser = Parser(prog="atento recipes", description="List what can be trained, one line each.")
    parser.parse_args(argv)
    recipes = named_recipes()
    width = max(map(len, recipes))
    for name, file in recipes.items():
        about = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        print(f"{name:{width}}  {about}")
    return 0
