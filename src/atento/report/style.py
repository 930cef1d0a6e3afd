"""The look of pages, pictures and notebooks: one set of colours, light and dark, and its rules."""

from __future__ import annotations

__all__ = ["DARK", "LIGHT", "PICTURE", "RULES", "SERIES"]

SERIES = 6  # how many lines of a picture have colours of their own

# s1 … s6 are told apart by those who see no red or no green, by lightness and by their dashes too.
# Claim: report/test_style.py::test_text_of_every_colour_can_be_read_in_light_and_dark
LIGHT = """--paper: #ffffff; --ink: #1b1b1f; --quiet: #5b5b66; --line: #d5d5dd; --right: #00695c;
  --wrong: #a8321b; --box: #f5f5f8; --s1: #005f9e; --s2: #b04600; --s3: #00704f; --s4: #933a75;
  --s5: #6a5a00; --s6: #3f3f46"""
DARK = """--paper: #16161a; --ink: #ececf1; --quiet: #a9a9b6; --line: #3a3a44; --right: #64d3c1;
  --wrong: #ff9a80; --box: #202027; --s1: #6cb8f0; --s2: #ff9d5c; --s3: #4fd6a8; --s4: #f09acb;
  --s5: #e0d060; --s6: #d0d0d6"""

# What a drawing needs, on a page or in a file of its own.
PICTURE = (
    """
svg { overflow: visible; font: 14px system-ui, sans-serif; font-variant-numeric: tabular-nums }
svg .label { fill: var(--ink) }
svg .none { fill: var(--box); stroke: var(--line) }
svg.squares rect { shape-rendering: crispEdges }
svg.squares .none { stroke: none; fill: none }
svg .marked { stroke-width: 2; stroke-dasharray: 4 2 }
svg.curves { font-size: 13px }
.curves .quiet { fill: var(--quiet) }
.curves .grid { stroke: var(--line); stroke-width: 1 }
.curves .level { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 1 3 }
.curves .leader { stroke: var(--quiet); stroke-width: .75; fill: none }
.curves .series { fill: none; stroke-width: 2; stroke-linejoin: round }
.curves .name { font-weight: 700 }
.curves .touch { fill: transparent; stroke: none }
"""
    + "\n".join(
        f".curves .s{n} {{ stroke: var(--s{n}) }} .curves .band.s{n} {{ fill: var(--s{n}); "
        f"fill-opacity: .15; stroke: none }} .curves .dot.s{n} {{ fill: var(--s{n}); stroke: "
        f"var(--box) }} .curves .name.s{n} {{ fill: var(--s{n}); stroke: none }}"
        for n in range(1, SERIES + 1)
    )
    + """
.curves .series.s2 { stroke-dasharray: 7 3 }
.curves .series.s3 { stroke-dasharray: 2 3 }
.curves .series.s4 { stroke-dasharray: 9 3 2 3 }
.curves .series.s5 { stroke-dasharray: 14 4 }
.curves .series.s6 { stroke-dasharray: 5 2 1 2 1 2 }
"""
)

RULES = (
    """
h1 { font-size: 1.6rem; line-height: 1.25 }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem }
p, li { max-width: 46rem }
.quiet { color: var(--quiet) }
.figures { display: flex; flex-wrap: wrap; gap: .6rem; align-items: flex-start }
.figure { overflow-x: auto; max-width: 100%; box-sizing: border-box; padding: .6rem .8rem;
  border: 1px solid var(--line); border-radius: .4rem; background: var(--box) }
.figure > h3 { margin-top: 0 }
.beside { display: flex; flex-wrap: wrap; gap: .4rem 2rem; align-items: flex-start }
.beside h4 { font-size: .85rem; font-weight: 400; margin: 0 0 .2rem; color: var(--quiet) }
.verdict { font-weight: 700; margin-left: .5rem }
.verdict.ok { color: var(--right) }
.verdict.wrong { color: var(--wrong) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--quiet); font-size: .85rem }
th, td { padding: .15rem .55rem; text-align: right }
th { font-weight: 400; color: var(--quiet) }
tr > th:first-child, li { text-align: left }
td.marked { outline: 2px solid var(--wrong); outline-offset: -2px; font-weight: 700 }
svg { max-width: none }
code { font: .95em ui-monospace, monospace; overflow-wrap: anywhere }
"""
    + PICTURE
    + """
.report { container-type: inline-size; color: var(--ink); font: 1rem/1.5 system-ui, sans-serif }
.report h1 { margin: 0 0 .1rem; font-size: 1.5rem; overflow-wrap: anywhere }
.report h3 { font-size: .95rem; margin: 0 0 .25rem }
.report .asked { margin: 0; color: var(--quiet); max-width: none; overflow-wrap: anywhere }
.report .answer { margin: .5rem 0 .9rem; color: var(--ink); font-size: 1.2rem;
  line-height: 1.4; max-width: 60rem; overflow-wrap: anywhere }
.report .notes { font-size: .85rem; color: var(--quiet); margin: .2rem 0 0 }
.report .warning { border-left: 4px solid var(--wrong); padding: .1rem .8rem; margin: .6rem 0 }
.report .first { display: grid; grid-template-columns: minmax(0, 1.6fr) minmax(0, 1fr);
  gap: .8rem; align-items: start }
.report .column { display: grid; grid-template-columns: minmax(0, 1fr); gap: .8rem }
.report .first svg { display: block; width: 100%; height: auto }
.report .first svg.heatmap { max-width: 27rem; margin: 0 auto }
.report svg.narrow { display: none }
.report .sample { margin: 0; font: .85rem/1.4 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; unicode-bidi: isolate; text-align: start }
.report .scroll { overflow-x: auto }
.report .samples :is(th, td) { vertical-align: top; border-bottom: 1px solid var(--line);
  padding: .35rem .55rem; line-height: 1.4 }
.report .samples :is(th, td):last-child { text-align: left }
.report .facts { display: grid; grid-template-columns: fit-content(60%) minmax(0, 1fr);
  gap: .1rem 1rem; margin: 0; font-size: .9rem }
.report .facts dt { color: var(--quiet) }
.report .facts dd { margin: 0; overflow-wrap: anywhere; unicode-bidi: isolate }
.report .below { columns: 21rem; column-gap: .8rem; margin-top: 1.6rem }
.report .below > .figure { break-inside: avoid; margin-bottom: .8rem; font-size: .9rem }
.report .below p { margin: .3rem 0 }
.report .figure + .first { margin-top: .8rem }
.report .figure table { font-size: .95rem }
.report .figure :is(th, td) { white-space: nowrap }
.report .figure tbody th { color: var(--ink) }
.report h2 + .below { margin-top: .6rem }
@container (max-width: 44rem) {
  .report .first { grid-template-columns: minmax(0, 1fr) }
  .report svg.narrow { display: block }
  .report svg.wide { display: none }
  .report .answer { font-size: 1.1rem }
  .report .figure tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 6rem }
}
"""
)
