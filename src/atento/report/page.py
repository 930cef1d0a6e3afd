"""One HTML page that needs nothing else, or a part of one: no script, no request."""

from __future__ import annotations

import base64
import hashlib

from atento.report.markup import Html, element, joined
from atento.report.style import DARK, LIGHT, RULES

__all__ = ["STYLE", "fragment", "page"]

_DARK = "@media (prefers-color-scheme: dark)"
STYLE = f"""
:root {{ color-scheme: light dark; {LIGHT} }}
{_DARK} {{ :root {{ {DARK} }} }}
body {{ background: var(--paper); color: var(--ink); margin: 0 auto; max-width: 62rem;
  padding: 1.5rem; font: 1rem/1.55 system-ui, sans-serif }}
body:has(> .report) {{ max-width: 76rem; padding: 1rem 1.5rem 3rem }}
{RULES}"""

# Nested, so that nothing outside of the part changes its look; on its own paper, as a notebook may
# be dark where the system is light.
_NESTED = f"""
.atento {{ color-scheme: light dark; {LIGHT}; background: var(--paper); color: var(--ink);
  padding: .8rem 1rem; border-radius: .4rem;
{_DARK} {{ & {{ {DARK} }} }}
{RULES}}}"""


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


def fragment(body: Html, lang: str) -> Html:
    """A part of a page, for notebooks: one element with its own style, which touches nothing else.

    Claim: report/test_page.py::test_a_fragment_is_one_element_and_its_rules_stay_inside
    """
    return element(
        "div", {"class": "atento", "lang": lang}, element("style", None, Html(_NESTED)), body
    )
