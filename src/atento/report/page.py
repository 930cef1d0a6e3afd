"""One HTML page that needs nothing else: no script, no request, light and dark."""

from __future__ import annotations

import base64
import hashlib

from atento.report.markup import Html, element, joined

__all__ = ["STYLE", "page"]

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1b1f; --quiet: #5b5b66;
  --line: #d5d5dd; --right: #00695c; --wrong: #a8321b; --box: #f5f5f8 }
@media (prefers-color-scheme: dark) { :root { --paper: #16161a; --ink: #ececf1; --quiet: #a9a9b6;
  --line: #3a3a44; --right: #64d3c1; --wrong: #ff9a80; --box: #202027 } }
body { background: var(--paper); color: var(--ink); margin: 0 auto; max-width: 62rem;
  padding: 1.5rem; font: 1rem/1.55 system-ui, sans-serif }
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
svg { max-width: none; overflow: visible; font: 14px system-ui, sans-serif;
  font-variant-numeric: tabular-nums }
svg .label { fill: var(--ink) }
svg .none { fill: var(--box); stroke: var(--line) }
svg .marked { stroke-width: 2; stroke-dasharray: 4 2 }
code { font: .95em ui-monospace, monospace; overflow-wrap: anywhere }
"""


def page(title: str, body: Html, lang: str) -> str:
    """The whole page. Its Content-Security-Policy lets nothing in but this file's own style.

    Claim: report/test_page.py::test_the_policy_allows_the_pages_own_style_and_nothing_else
    """
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = joined(
        [
            element("meta", {"charset": "utf-8"}),
            element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
            element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
            element("meta", {"name": "generator", "content": "atento"}),
            element("title", None, title),
            element("style", None, Html(STYLE)),
        ],
        "\n",
    )
    whole = element(
        "html", {"lang": lang}, element("head", None, head), element("body", None, body)
    )
    return f"<!DOCTYPE html>\n{whole}\n"
