"""Colours, markers and the base class of all displays.

Observed values are blue, the model's statements orange. Lines and text stand out from white by a
contrast of 4.5 or more (WCAG 2.2, level AA); classes differ by marker and line as well as by
colour. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

INK, BLUE, ORANGE, PALE, GREY = "#1f2937", "#1d4ed8", "#c2410c", "#fed7aa", "#6b7280"
MANY = 1000  # points; from here on they are stored as an image inside a vector picture
CLASSES = (BLUE, ORANGE, "#047857", "#7e22ce", "#854d0e", "#be185d", "#0e7490", "#374151")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")


class Display(ABC):
    """A picture that is computed once and drawn as often as wanted.

    ``plot(ax=None)`` draws and returns the display. Afterwards ``ax_`` are the axes (matplotlib)
    and ``figure_`` is their figure, to be changed or saved. Without ``ax`` a new figure is opened.

    Children are data classes without repr and equality: arrays are too long for the one and have no
    single truth for the other.
    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or on a new figure, and return the display."""
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self.draw(self.ax_)
        return self

    @abstractmethod
    def draw(self, ax: Any) -> None:
        """Put the picture on the axes."""


def new_axes() -> Any:
    """Return the axes of a new figure of pyplot; a sentence if matplotlib is not there."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise ImportError(
            'plotting needs matplotlib, which is not installed: pip install "mercer[report]"'
        ) from None
    return plt.subplots(layout="constrained")[1]


def class_style(i: int) -> dict[str, Any]:
    """Return colour and marker of class i; pairs repeat only after 64 classes."""
    return {
        "color": CLASSES[i % len(CLASSES)],
        "marker": MARKERS[(i + i // len(CLASSES)) % len(MARKERS)],
    }


def class_line(i: int) -> dict[str, Any]:
    """Return colour and line of class i."""
    return {
        "color": CLASSES[i % len(CLASSES)],
        "linestyle": LINES[(i + i // len(CLASSES)) % len(LINES)],
    }
