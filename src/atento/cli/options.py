"""Words of a command line that are a target, flags, and dotted options of a recipe."""

from collections.abc import Collection, Iterator

from atento.errors import UserError

__all__ = ["parsed", "parsed_names"]

RESERVED = ("recipe", "run")  # what is named first


def parsed(
    argv: list[str], flags: Collection[str], verb: str
) -> tuple[str | None, set[str], dict[str, str]]:
    """(what is named first, the flags given, the options given with their values)."""
    names, seen, given = parsed_names(argv, flags, verb)
    if len(names) > 1:
        raise UserError(f"atento {verb} takes one name; got {names[0]!r} and {names[1]!r}.")
    return (names[0] if names else None), seen, given


def parsed_names(
    argv: list[str], flags: Collection[str], verb: str
) -> tuple[list[str], set[str], dict[str, str]]:
    """(all that is named, the flags given, the options given with their values)."""
    names: list[str] = []
    seen: set[str] = set()
    given: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        if word in flags:
            seen.add(word)
        elif word.partition("=")[0] in flags:
            raise UserError(f"{word.partition('=')[0]} is said or left out; got {word!r}.")
        elif word.startswith("--"):
            name, value = _option(word, words)
            if name in RESERVED:
                raise UserError(f"--{name} is no option: write it without dashes. See --help.")
            if name in given:
                raise UserError(f"--{name} was given twice. Give it once.")
            given[name] = value
        elif word.startswith("-") and word != "-":
            raise UserError(f"option {word!r} is not known. See: atento {verb} --help")
        else:
            names.append(word)
    return names, seen, given


def _option(word: str, words: Iterator[str]) -> tuple[str, str]:
    name, equals, value = word.removeprefix("--").partition("=")
    if not equals:
        value = next(words, "--")
        if value.startswith("--"):
            raise UserError(f"--{name} must be followed by a value; got none.")
    return name.replace("-", "_"), value
