"""`atento report`: the page of a run or of a comparison, or its curves as a picture."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from atento.cli.output import check_folder, written
from atento.cli.parser import Parser
from atento.cli.threads import spin_briefly
from atento.errors import UserError
from atento.report.language import LANGUAGES, language

if TYPE_CHECKING:
    from atento.report.curves import Chart
    from atento.tasks.report import Report
    from atento.tasks.translation_report import TranslationReport

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Writes the page or the picture, and prints where it is."""
    options = _parser().parse_args(argv)
    spin_briefly()
    lang = options.lang or language(os.environ)
    home = Path(options.run).expanduser()
    for kind in ("html", "svg", "png"):
        if named := getattr(options, kind):
            check_folder(f"--{kind}", Path(named))
    if options.svg or options.png:
        _pictures(options, _chart(home, lang))
    if options.html:
        _write("--html", options.html, _page(home, lang).encode())
    if not (options.svg or options.png or options.html):
        print(_in_place(home, lang))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="atento report",
        description="Write the page of a run or of a comparison; in its folder, unless a file is "
        "named. Or its curves as a picture.",
    )
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of a run, or of a comparison")
    add("--html", metavar="FILE", help="write the page there")
    add("--svg", metavar="FILE", help="write the curves there, as SVG")
    add("--png", metavar="FILE", help="write the curves there, as PNG (needs matplotlib)")
    add("--lang", choices=LANGUAGES, help="pt or en; by default as LANG says")
    return parser


def _is_comparison(home: Path) -> bool:
    return (home / "compare.json").is_file()


def _in_place(home: Path, lang: str) -> Path:
    if _is_comparison(home):
        from atento.tasks.comparison import load_comparison

        return load_comparison(home).report(lang)
    from atento.tasks.run import load

    return load(home).report(lang)


def _page(home: Path, lang: str) -> str:
    if _is_comparison(home):
        from atento.tasks.compare_page import compare_page
        from atento.tasks.comparison import load_comparison

        return compare_page(load_comparison(home), lang)
    return _report(home, lang).page()


def _chart(home: Path, lang: str) -> "Chart":
    if _is_comparison(home):
        from atento.tasks.compare_page import compare_chart
        from atento.tasks.comparison import load_comparison

        return compare_chart(load_comparison(home), lang)
    return _report(home, lang).chart()


def _report(home: Path, lang: str) -> "Report | TranslationReport":
    from atento.tasks.report import Report
    from atento.tasks.run import Run, load
    from atento.tasks.translation_report import TranslationReport

    held = load(home)
    return Report(held, lang) if isinstance(held, Run) else TranslationReport(held, lang)


def _pictures(options: argparse.Namespace, chart: "Chart") -> None:
    from atento.report.curves import picture
    from atento.report.plot import plotted

    if options.svg:
        _write("--svg", options.svg, picture(chart).encode())
    if options.png:
        try:
            content = plotted(chart)
        except ImportError as error:
            raise UserError(
                f"--png needs matplotlib, which cannot be imported ({error}). Install it with: pip "
                "install 'atento[plot]'; or take --svg, which needs nothing."
            ) from error
        _write("--png", options.png, content)


def _write(option: str, file: str, content: bytes) -> None:
    written(option, Path(file), content)
    print(file)
