"""What the pictures share: paper, colours, small data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mercer.plots.style import BLUE, GREY, INK, ORANGE, PALE

GREEN = "#047857"
__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PALE", "band", "paper", "plane", "waves"]


def paper(columns: int = 1, rows: int = 1, height: float = 2.9, **options: Any) -> tuple[Any, ...]:
    """Return a figure and its axes, from left to right and from top to bottom."""
    width = 5.6 if columns == 1 else 8.2
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, **options)).ravel()
    return (figure, *axes)


def band(ax: Any, x: Any, mean: Any, std: Any, label: str = "", color: str = ORANGE) -> None:
    """Draw a mean and two deviations on either side."""
    ax.fill_between(x, mean - 2 * std, mean + 2 * std, color=color, alpha=0.18, lw=0)
    ax.plot(x, mean, color=color, lw=1.8, label=label or None)


def waves(n: int = 30, noise: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """Return n noisy values of a sine: X (n, 1) and y (n,)."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 10, size=(n, 1)), axis=0)
    return X, np.sin(X[:, 0]) + noise * rng.normal(size=n)


def plane(n: int = 80, seed: int = 0, noise: float = 0.4) -> tuple[Any, Any]:
    """Return two classes that a curve separates, up to noise: X (n, 2) and labels (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    above = X[:, 1] > np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)
    return X, np.where(above, "above", "below")
