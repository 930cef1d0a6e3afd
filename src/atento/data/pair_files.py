"""Files of pairs: two that agree line by line, TSV, JSONL, plain or gzipped; folders of splits."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from atento.errors import UserError

__all__ = ["Languages", "Pair", "file_pairs", "folder_pairs", "lines_of"]

Pair = tuple[str, str]  # source and target
Languages = tuple[str, str] | None
SPLITS = {"training": "train", "validation": "val", "test": "test"}
GZIP = b"\x1f\x8b"


def file_pairs(name: str, languages: Languages, *, whole: bool) -> list[Pair]:
    """The pairs of one TSV or JSONL file, of two files A,B, or of a prefix of PREFIX.L files.

    With `whole` an empty line is an error, as pairs that are learned from must have both sides.
    Claim: test_pair_files.py::test_what_is_wrong_is_named_with_its_file_and_line
    """
    kind = _kind(name)
    if kind is not None:
        if languages is not None:
            raise UserError(
                f"data.languages is for files that are named after their languages; {name!r} has "
                "the source first on each line. Leave it out."
            )
        read = _tab_separated if kind == ".tsv" else _json_lines
        return list(_full(read(Path(name)), (name, name), whole))
    files = _two_files(name, languages)
    return _aligned(*files, whole=whole)


def folder_pairs(folder: Path, languages: Languages) -> dict[str, list[Pair]]:
    """The splits of a folder with train*.L, val*.L and test*.L; those that are not there are not.

    Claim: test_pair_files.py::test_a_folder_needs_one_file_for_each_split_and_language
    """
    if languages is None:
        raise UserError(
            f"data.languages must say which files of {str(folder)!r} are source and target, as "
            f"their names end: {', '.join(_endings(folder)) or 'it has no train* files'}. "
            "Try --data.languages en,de."
        )
    made = {}
    for split, begins in SPLITS.items():
        found = [_of_language(folder, begins, language) for language in languages]
        if found[0] is None and found[1] is None and split != "training":
            continue
        if found[0] is None or found[1] is None:
            missing = languages[0 if found[0] is None else 1]
            raise UserError(
                f"data.source must hold {begins}*.{missing} (or .gz) beside the other language; "
                f"{str(folder)!r} has {', '.join(sorted(p.name for p in folder.iterdir()))}."
            )
        made[split] = _aligned(found[0], found[1], whole=split == "training")
    return made


def lines_of(file: Path) -> list[str]:
    """The lines of a text in UTF-8, plain or gzipped, without their ends.

    Only \\n and \\r\\n end a line: other programs count no others, and pairs go by the count.
    """
    content = _bytes_of(file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(
            f"{file}, line {line}, must be text in UTF-8; it is not. If it is an older text: "
            "iconv -f LATIN1 -t UTF-8 FILE > NEW."
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _bytes_of(file: Path) -> bytes:
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{file} cannot be read: {error}. Check the path and the file.") from error


def _kind(name: str) -> str | None:
    ending = name.removesuffix(".gz")
    return next((kind for kind in (".tsv", ".jsonl") if ending.endswith(kind)), None)


def _two_files(name: str, languages: Languages) -> tuple[Path, Path]:
    parts = name.split(",")
    if len(parts) == 2 and all(Path(part.strip()).expanduser().is_file() for part in parts):
        first, second = (Path(part.strip()).expanduser() for part in parts)
        return first, second
    prefix = Path(name).expanduser()
    if languages is None:
        raise UserError(
            f"pairs must be a .tsv or .jsonl file, two files A,B, or files {name}.L with "
            f"--data.languages L,L; there is no {name!r}. Check the path."
        )
    found = []
    for language in languages:
        ways = [Path(f"{prefix}.{language}{more}") for more in ("", ".gz")]
        there = [way for way in ways if way.is_file()]
        if len(there) != 1:
            what = "both are there" if there else "neither is there"
            raise UserError(
                f"pairs must have one file {ways[0]} or {ways[1]}; {what}. Check data.languages."
            )
        found.append(there[0])
    return found[0], found[1]


def _of_language(folder: Path, begins: str, language: str) -> Path | None:
    found = sorted(
        file
        for ending in (f".{language}", f".{language}.gz")
        for file in folder.glob(f"{begins}*{ending}")
        if file.is_file()
    )
    if len(found) > 1:
        raise UserError(
            f"{str(folder)!r} must have one file {begins}*.{language} (or .gz); it has "
            f"{', '.join(file.name for file in found)}. Move the others away."
        )
    return found[0] if found else None


def _endings(folder: Path) -> list[str]:
    names = [file.name.removesuffix(".gz") for file in folder.glob("train*.*") if file.is_file()]
    return sorted({name.rpartition(".")[2] for name in names})


def _aligned(first: Path, second: Path, *, whole: bool) -> list[Pair]:
    one, other = lines_of(first), lines_of(second)
    if len(one) != len(other):
        raise UserError(
            f"the files of pairs must agree line by line; {first} has {len(one)} lines and "
            f"{second} has {len(other)}. Were both made from the same text?"
        )
    return list(_full(zip(one, other, strict=True), (str(first), str(second)), whole))


def _full(pairs: "Iterator[Pair] | zip[Pair]", names: Pair, whole: bool) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, 1):
        for name, side in zip(names, pair, strict=True):
            if whole and not side.strip():
                raise UserError(
                    f"{name}, line {number}, is empty where there must be a text to learn from. "
                    "Take the line out, in both languages."
                )
        yield pair


def _tab_separated(file: Path) -> Iterator[Pair]:
    for number, line in enumerate(lines_of(file), 1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise UserError(
                f"{file}, line {number}, must be source, tab, target; it has {len(parts) - 1} tabs."
            )
        yield parts[0], parts[1]


def _json_lines(file: Path) -> Iterator[Pair]:
    for number, line in enumerate(lines_of(file), 1):
        try:
            content = json.loads(line)
            source, target = content["source"], content["target"]
        except (ValueError, KeyError, TypeError):
            source = target = None
        if not (isinstance(source, str) and isinstance(target, str)):
            raise UserError(
                f'{file}, line {number}, must be {{"source": "…", "target": "…"}}; got {line[:60]}.'
            )
        yield source, target
