"""Curves as a PNG, drawn by matplotlib where it is installed."""

from __future__ import annotations

import io
import math
import re
from typing import Any

from atento.report.curves import Chart
from atento.report.numbers import number, spelled
from atento.report.scale import apart, decimals
from atento.report.style import LIGHT, SERIES

__all__ = ["plotted"]

DASHES = ("-", "--", ":", "-.", (0, (9, 2)), (0, (4, 1, 1, 1, 1, 1)))
LINE = 0.052  # of the height of the axes: what a name takes


def plotted(chart: Chart) -> bytes:
    """The chart as a PNG of three times its pixels; an ImportError where there is no matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = dict(re.findall(r"--(\w+): (#\w{6})", LIGHT))
    figure = Figure(figsize=(chart.size[0] / 72, chart.size[1] / 72), layout="constrained")
    axes = figure.add_subplot(xscale="log" if chart.log_x else "linear")
    ends: list[tuple[str, float, str]] = []
    for n, one in enumerate(chart.series):
        points = [(x, y) for x, y in one.points if math.isfinite(x) and math.isfinite(y)]
        if not points:
            continue
        shade, dashes = colours[f"s{n % SERIES + 1}"], DASHES[n % SERIES]
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=shade, linestyle=dashes, marker="o", markersize=3)
        if len(one.spread) == len(one.points):
            low, high = zip(*one.spread, strict=True)
            axes.fill_between([x for x, _ in one.points], low, high, color=shade, alpha=0.15)
        ends.append((one.name, y[-1], shade))
    for level in chart.levels:
        if math.isfinite(level.value):
            axes.axhline(level.value, color=colours["quiet"], linestyle=":", linewidth=1)
            ends.append((level.name, level.value, colours["quiet"]))
    _named(axes, ends, chart)
    _written(axes, chart)
    content = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(content, format="png", dpi=216)
    return content.getvalue()


def _named(axes: Any, ends: list[tuple[str, float, str]], chart: Chart) -> None:
    """The names at the right, pushed apart."""
    bottom, top = axes.get_ylim()
    places = apart([(value - bottom) / (top - bottom) for _, value, _ in ends], LINE, 0.0, 1.0)
    for (name, value, shade), place in zip(ends, places, strict=True):
        said = f"{name} {spelled(number(value, chart.digits), chart.lang)}"
        # Without mathematics: a dollar sign in a name is a dollar sign.
        axes.text(
            1.02, place, said, color=shade, transform=axes.transAxes, va="center", parse_math=False
        )


def _written(axes: Any, chart: Chart) -> None:
    """The axes, their numbers as the language writes them."""
    for axis in (axes.xaxis, axes.yaxis):
        digits = 0 if chart.log_x and axis is axes.xaxis else decimals(list(axis.get_ticklocs()))
        axis.set_major_formatter(lambda v, _, d=digits: spelled(f"{v:,.{d}f}", chart.lang))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(chart.x, parse_math=False)
    axes.set_title(chart.y, loc="left", fontsize="medium", parse_math=False)
