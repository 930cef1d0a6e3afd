"""The colour of a number: viridis, evenly lighter, and told apart without red against green."""

from __future__ import annotations

from itertools import pairwise

__all__ = ["colour", "contrasting", "luminance"]

# Smith and van der Walt 2015, https://bids.github.io/colormap: viridis at 0, 1/9, …, 1.
# Claim: report/test_colours.py::test_lightness_grows_along_the_scale
VIRIDIS = (
    *("#440154", "#482878", "#3e4a89", "#31688e", "#26828e"),
    *("#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"),
)
_STOPS = [tuple(int(stop[n : n + 2], 16) for n in (1, 3, 5)) for stop in VIRIDIS]
_PAIRS = list(pairwise(_STOPS))


def colour(share: float) -> str:
    """#rrggbb for a share in [0, 1] of the scale; outside, its nearest end."""
    place = min(max(share, 0.0), 1.0) * len(_PAIRS)
    index = min(int(place), len(_PAIRS) - 1)
    low, high = _PAIRS[index]
    mixed = (round(a + (place - index) * (b - a)) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def luminance(shade: str) -> float:
    """The relative luminance of #rrggbb, 0 black to 1 white. Ref: WCAG 2.2."""
    parts = (int(shade[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrasting(shade: str) -> str:
    """Black or white, whichever is read more easily on #rrggbb."""
    return "#000000" if (luminance(shade) + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"
