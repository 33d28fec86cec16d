"""Colours, markers and the base class of all displays.

Observed values are blue, the model's statements orange. Lines and text stand out from white by a
contrast of 4.5 or more (WCAG 2.2, level AA); classes differ by marker and line as well as by
colour. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array

INK, BLUE, ORANGE, PALE, GREY = "#1f2937", "#1d4ed8", "#c2410c", "#fed7aa", "#6b7280"
MANY = 1000  # points; from here on they are stored as an image inside a vector picture
CLASSES = (BLUE, ORANGE, "#047857", "#7e22ce", "#854d0e", "#be185d", "#0e7490", "#374151")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")


class Display(ABC):
    """A picture that is computed once and drawn as often as wanted.

    ``plot(ax=None)`` draws and returns the display. Afterwards ``ax_`` are the axes (matplotlib)
    and ``figure_`` is their figure, to be changed or saved. Without ``ax`` a new figure is opened.
    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or on a new figure, and return the display."""
        if ax is None:
            ax = optional("matplotlib.pyplot", "plotting").subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self.draw(ax)
        return self

    @abstractmethod
    def draw(self, ax: Any) -> None:
        """Put the picture on the axes."""

    @staticmethod
    def _label(ax: Any, x: str, y: str) -> None:
        """Write what stands at the axes, literally: names from tables are no mathematics."""
        ax.set_xlabel(x, parse_math=False)
        ax.set_ylabel(y, parse_math=False)

    @staticmethod
    def _legend(ax: Any, place: str = "best", **options: Any) -> None:
        """Put a legend of literal texts on the axes, without a frame unless one is asked for."""
        legend = ax.legend(loc=place, **({"fontsize": 9, "frameon": False} | options))
        for text in legend.get_texts():
            text.set_parse_math(False)

    @staticmethod
    def _square(ax: Any, margin: float = 0.02) -> None:
        """Show shares from 0 to 1 against shares from 0 to 1."""
        ax.set(xlim=(-margin, 1.0 + margin), ylim=(-margin, 1.0 + margin), aspect="equal")


def optional(module: str, purpose: str) -> Any:
    """Import a module that the extra "report" brings, or say so in a sentence."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0]
        raise ImportError(
            f'{purpose} needs {package}, which is not installed: pip install "mercer[report]"'
        ) from None


def same_length(what: str, *arrays: Any) -> list[Array]:
    """Return the arrays as float64 (k,), or refuse others, with a sentence on ``what``."""
    found = [np.asarray(a, dtype=np.float64) for a in arrays]
    if len({a.shape for a in found}) > 1 or found[0].ndim != 1:
        raise ValueError(f"{what} need one dimension and the same length")
    return found


def class_style(i: int) -> dict[str, Any]:
    """Return colour and marker of class i; pairs repeat only after 64 classes."""
    return {"color": CLASSES[i % 8], "marker": MARKERS[(i + i // 8) % 8]}


def class_line(i: int) -> dict[str, Any]:
    """Return colour and line of class i."""
    return {"color": CLASSES[i % 8], "linestyle": LINES[(i + i // 8) % 4]}
