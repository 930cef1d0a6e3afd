"""Pairs of texts, a source and a target each: read from what a source names, and split."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from atento.data.pair_files import Languages, Pair, file_pairs, folder_pairs
from atento.data.pair_sets import PAIR_SETS, set_pairs
from atento.errors import UserError

__all__ = ["Pairs", "Shared", "read_pairs"]

LEAST = 10  # pairs, so that one in ten can be held out


@dataclass(frozen=True)
class Shared:
    """How much of a split stands in training too: the same source, the same pair."""

    sources: int
    pairs: int


@dataclass(frozen=True)
class Pairs:
    """Pairs of every split, as they were found; `test` may be empty."""

    training: list[Pair]
    validation: list[Pair]
    test: list[Pair]

    @property
    def sha256(self) -> str:
        """Of all pairs of all splits, in their order."""
        every = (self.training, self.validation, self.test)
        digest = hashlib.sha256()
        for number, split in enumerate(every):
            for source, target in split:
                digest.update(f"{number}\t{source}\n{target}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def shared(self, split: str) -> Shared:
        """What validation or test shares with training: their figures are flattered by so much.

        Claim: test_pairs.py::test_what_is_shared_with_training_is_counted
        """
        held: list[Pair] = getattr(self, split)
        sources, pairs = {source for source, _ in self.training}, set(self.training)
        return Shared(
            sum(source in sources for source, _ in held), sum(pair in pairs for pair in held)
        )


def read_pairs(source: str, *, languages: str = "", validation: str = "", test: str = "") -> Pairs:
    """The pairs of a named set, a folder of splits, a file, two files A,B or a prefix.

    `languages` is "en,de": the endings of the source's and the target's files. `validation` and
    `test` name further files. With no validation of its own a source's last tenth is that.
    Published splits, and users', stay as they are: see `Pairs.shared`.
    """
    if not source:
        raise UserError(
            f"data.source must be pairs to learn from: a named set ({', '.join(PAIR_SETS)}), a "
            "folder, a .tsv or .jsonl file, or two files A,B; got nothing. Add --data.source FILE."
        )
    sides = _languages(languages)
    splits = dict(_splits(source, sides))
    for split, given in (("validation", validation), ("test", test)):
        if given and split in splits:
            raise UserError(
                f"data.{split} {given!r} would replace the {split} pairs that {source!r} has. "
                "Leave it out."
            )
        if given:
            splits[split] = file_pairs(given, sides, whole=False)
        if split in splits and not splits[split]:
            raise UserError(f"data.{split} must hold pairs; {given or source!r} holds none.")
    training = splits["training"]
    if len(training) < LEAST:
        raise UserError(
            f"data.source must have at least {LEAST} pairs to learn from; {source!r} has "
            f"{len(training)}. Give more."
        )
    if "validation" not in splits:
        kept = len(training) - len(training) // 10
        training, splits["validation"] = training[:kept], training[kept:]
    return Pairs(training, splits["validation"], splits.get("test", []))


def _splits(source: str, languages: Languages) -> dict[str, list[Pair]]:
    if source in PAIR_SETS:
        return set_pairs(source, languages)
    path = Path(source).expanduser()
    if path.is_dir():
        return folder_pairs(path, languages)
    return {"training": file_pairs(source, languages, whole=True)}


def _languages(text: str) -> Languages:
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts) or parts[0] == parts[1]:
        raise UserError(
            f"data.languages must be the source's and the target's, such as en,de; got {text!r}."
        )
    return parts[0], parts[1]
