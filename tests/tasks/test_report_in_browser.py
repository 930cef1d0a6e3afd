"""A run's page in a real browser: it asks for nothing, and holds on a screen what it should."""

import html
import json
import re
from pathlib import Path

import pytest

from atento.tasks import Run, compare, train
from browser import COMPLAINTS, chromium
from tasks.books import book

pytestmark = pytest.mark.web

# A frame of the size of a screen shows the page, and a script of this test's own asks where its
# parts are: the report itself has no script.
AROUND = """<!DOCTYPE html><meta charset="utf-8">
<iframe id="f" width="{width}" height="{height}" style="border:0" srcdoc="{page}"></iframe>
<pre id="found"></pre><script>
document.getElementById("f").addEventListener("load", event => {{
  const page = event.target.contentDocument, found = {{}};
  for (const what of {wanted}) {{
    const seen = [...page.querySelectorAll(what)].map(one => one.getBoundingClientRect());
    const shown = seen.find(box => box.width > 0 && box.height > 0);
    found[what] = shown ? [shown.left, shown.top, shown.right, shown.bottom] : null;
  }}
  found.wide = page.documentElement.scrollWidth;
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script>"""
PARTS = [".asked", ".answer", "svg.curves", ".sample", "svg.heatmap"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With the lecture's shape, so that the map has its size."""
    folder = tmp_path_factory.mktemp("report")
    options = {"steps": 60, "evaluate_every": 20, "width": 32, "source": str(book(folder, 300))}
    return train("shakespeare-lecture", out=folder / "run", quiet=True, **options)


def boxes(page: Path, folder: Path, width: int, height: int) -> dict[str, list[float]]:
    around = folder / f"around-{width}.html"
    content = html.escape(page.read_text("utf-8"))
    values = {"width": width, "height": height, "page": content, "wanted": json.dumps(PARTS)}
    around.write_text(AROUND.format(**values), encoding="utf-8")
    done = chromium(folder / "profile", "--dump-dom", "--virtual-time-budget=9000", around.as_uri())
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', done.stdout)
    return json.loads(html.unescape(found))


@pytest.mark.parametrize("lang", ["pt", "en"])
def test_the_page_opens_and_asks_for_nothing(run: Run, lang: str, tmp_path: Path) -> None:
    page = run.report(lang)
    done = chromium(tmp_path, "--enable-logging=stderr", "--dump-dom", page.as_uri())
    assert done.returncode == 0, done.stderr
    assert 'class="curves wide"' in done.stdout
    for complaint in COMPLAINTS:
        assert complaint not in done.stderr


def test_the_first_screen_holds_the_five_things(run: Run, tmp_path: Path) -> None:
    found = boxes(run.report("en"), tmp_path, 1280, 800)
    for part in PARTS:
        left, top, right, bottom = found[part]
        assert 0 <= left < right <= 1280, part
        assert 0 <= top < bottom <= 800 + 40 * (part == ".sample"), (part, bottom)
    assert found["wide"] <= 1280


def test_a_phone_shows_all_of_it_without_scrolling_sideways(run: Run, tmp_path: Path) -> None:
    found = boxes(run.report("pt"), tmp_path, 390, 800)
    assert found["wide"] <= 390
    for part in PARTS:
        left, _, right, _ = found[part]
        assert 0 <= left < right <= 390, part


def test_a_comparison_opens_and_fits_a_phone(run: Run, tmp_path: Path) -> None:
    made = compare(run, run, run, out=tmp_path / "out", quiet=True)
    page = made.report("pt")
    done = chromium(tmp_path / "p", "--enable-logging=stderr", "--dump-dom", page.as_uri())
    assert done.returncode == 0, done.stderr
    for complaint in COMPLAINTS:
        assert complaint not in done.stderr
    for width in (390, 1280):
        found = boxes(page, tmp_path, width, 800)
        assert found["wide"] <= width
        left, top, right, _ = found["svg.curves"]
        assert 0 <= left < right <= width
        assert top < 800 * (1 + (width < 400))


def test_in_a_notebook_nothing_outside_changes_its_look(run: Run, tmp_path: Path) -> None:
    outside = tmp_path / "notebook.html"
    body = '<p id="own">own</p><table id="t"><tr><td>x</td></tr></table>'
    script = (
        "<pre id=found></pre><script>found.textContent = JSON.stringify(['own', 't'].map(name => "
        "[getComputedStyle(document.getElementById(name)).maxWidth, "
        "getComputedStyle(document.getElementById(name)).borderCollapse]))</script>"
    )
    seen = []
    for shown in ("", run._repr_html_()):
        outside.write_text(f"<!DOCTYPE html><body>{body}{shown}{script}", encoding="utf-8")
        done = chromium(tmp_path / "p", "--dump-dom", outside.as_uri())
        seen += re.findall(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert seen[0] == seen[1]
    assert "none" in seen[0]
