"""The pictures of the guide, the how-to pages and the theory, drawn by mercer when the pages are.

A page with the directive ``picture`` shows what the function of its name draws: of
``theory/large-tables`` that is ``large_tables`` in ``pictures/theory.py``, which returns a figure
of matplotlib. Its docstring says what is to be seen, for readers who do not see it; the content of
the directive is the caption. Every picture is computed from a small data set, in a second or two.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "mercer",  # the same picture has the same bytes
}


def drawing(page: str) -> Callable[[], Any]:
    """Return the function that draws the picture of a page, such as "guide/streams"."""
    room, _, name = page.partition("/")
    module = importlib.import_module(f"{__name__}.{room.replace('-', '_')}")
    found: Callable[[], Any] = getattr(module, name.replace("-", "_"))
    return found


def draw(page: str, path: Path) -> str:
    """Write the picture of a page to ``path``, an SVG, and return what is to be seen in it."""
    function = drawing(page)
    with mpl.rc_context(STYLE):
        path.parent.mkdir(parents=True, exist_ok=True)
        function().savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return " ".join((function.__doc__ or "").split())
