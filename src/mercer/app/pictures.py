"""The pictures of the report: matplotlib figures as SVG text, without pyplot and without state.

Text from tables is drawn literally (``parse_math=False``). Observed values are black or blue, the
model's statements orange.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from mercer.app.errors import shown
from mercer.app.quality import coverage, sampling_band
from mercer.arrays import Array

INK, BLUE, ORANGE, PALE, GREY = "#1f2937", "#1d4ed8", "#c2410c", "#fed7aa", "#9ca3af"
MANY = 1000  # points; from here on they are stored as an image inside the picture
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
    "legend.frameon": False,
}


def picture(draw: Callable[[Any], None], width: float = 6.4, height: float = 4.2) -> str:
    """Return the picture that ``draw(figure)`` makes as a ``data:`` address of an SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    text = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # only the measuring font lacks such letters; the reader's browser has its own
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return (
        "data:image/svg+xml;base64," + base64.b64encode(svg[svg.index("<svg") :].encode()).decode()
    )


def observed_against_predicted(y: Array, mean: Array, std: Array, target: str) -> str:
    """Draw y (n,) against its prediction from all other rows, with 90 % bands."""

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        many = len(y) > MANY
        half = ndtri(0.95) * std
        width = 0.8 if many else 1.6
        bars = axes.vlines(mean, mean - half, mean + half, color=PALE, lw=width, rasterized=many)
        bars.set_label("90 % interval")
        axes.plot(mean, y, "o", ms=3, color=BLUE, alpha=0.7, rasterized=many, label="observed")
        ends = [min(mean.min(), y.min()), max(mean.max(), y.max())]
        axes.plot(ends, ends, color=ORANGE, lw=1, label="observed = predicted")
        axes.set_xlabel("predicted from all other rows")
        axes.set_ylabel(f"observed {shown(target, 30)}", parse_math=False)
        axes.legend(loc="upper left", fontsize=9)

    return picture(draw)


def calibration(y: Array, mean: Array, std: Array) -> str:
    """Draw the share of y (n,) inside its interval against the interval's probability."""

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        levels = np.linspace(0.05, 0.99, 48)
        low, high = sampling_band(levels, len(y))
        axes.fill_between(levels, low, high, color=PALE, lw=0, label="honest, within chance (95 %)")
        axes.plot([0, 1], [0, 1], color=ORANGE, lw=1)
        axes.plot(levels, coverage(y, mean, std, levels), color=BLUE, lw=2, label="this model")
        axes.set(xlabel="probability of the interval", ylabel="share of left-out rows inside")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.legend(loc="upper left", fontsize=9)

    return picture(draw, 4.8, 4.4)


def residuals(y: Array, mean: Array, std: Array) -> str:
    """Draw the residuals of y (n,) in units of their predicted deviation, and their histogram."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
        z = (y - mean) / std
        left.axhspan(-1.645, 1.645, color=PALE, lw=0)
        left.axhline(0, color=ORANGE, lw=1)
        left.plot(mean, z, "o", ms=3, color=BLUE, alpha=0.7, rasterized=len(y) > MANY)
        left.set(xlabel="predicted from all other rows", ylabel="residual / predicted deviation")
        top = max(3.5, float(np.abs(z).max()) * 1.05)
        grid = np.linspace(-top, top, 200)
        bins = np.linspace(-top, top, 1 + int(np.clip(2 * np.sqrt(len(y)), 10, 60)))
        right.hist(z, bins, orientation="horizontal", density=True, color=BLUE, alpha=0.6)
        right.plot(np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi), grid, color=ORANGE, lw=1.5)
        right.set(xlabel="density")

    return picture(draw, 6.4, 3.8)


def relevance(effects: Array, names: Sequence[str]) -> str:
    """Draw the effect (d,) of each input as a bar, the greatest on top (30 at most)."""

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        order = np.argsort(effects)[::-1][:30][::-1]
        axes.barh(np.arange(len(order)), effects[order], color=BLUE, height=0.7)
        labels = [shown(names[j], 28) for j in order]
        axes.set_yticks(np.arange(len(order)), labels=labels, parse_math=False)
        axes.set_xlabel("change of the predictions / deviation of the target")
        axes.set_xlim(left=0)

    return picture(draw, 6.4, 1.2 + 0.26 * min(len(effects), 30))


def slices(curves: Sequence[tuple[str, Array, Array, Array]], target: str) -> str:
    """Draw predictions along single inputs: (name, grid, mean, std) each, grid and others (k,)."""

    def draw(figure: Any) -> None:
        panels = np.atleast_1d(figure.subplots(1, len(curves), sharey=True))
        for axes, (name, grid, mean, std) in zip(panels, curves, strict=True):
            half = ndtri(0.95) * std
            axes.fill_between(grid, mean - half, mean + half, color=PALE, lw=0)
            axes.plot(grid, mean, color=ORANGE, lw=2)
            axes.set_xlabel(shown(name, 24), parse_math=False)
        panels[0].set_ylabel(shown(target, 30), parse_math=False)

    return picture(draw, 9.0, 3.0)
