"""Pictures inside the page: displays as SVG text, without pyplot and without state.

Text from tables is drawn literally, never as mathematics.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from typing import Any

from mercer.plots.style import GREY, INK, Display

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: readable, and any script has its letters
    "svg.hashsalt": "mercer",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def picture(*displays: Display, width: float = 6.4, height: float = 4.2) -> str:
    """Return the displays, side by side, as a ``data:`` address of an SVG; sizes in inches."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ImportError(
            'the report needs matplotlib, which is not installed: pip install "mercer[report]"'
        ) from None
    text = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # only the measuring font lacks such letters; the reader's browser has its own
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        for ax, display in zip(_panels(figure, displays), displays, strict=True):
            display.plot(ax)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    code = base64.b64encode(svg[svg.index("<svg") :].encode()).decode()
    return f"data:image/svg+xml;base64,{code}"


def _panels(figure: Any, displays: Sequence[Display]) -> list[Any]:
    return list(figure.subplots(1, len(displays), squeeze=False)[0])
