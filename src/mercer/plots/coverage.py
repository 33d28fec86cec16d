"""CoverageDisplay: whether intervals contain as many observations as they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from mercer.arrays import Array
from mercer.plots.predictions import GaussianPredictions
from mercer.plots.style import BLUE, ORANGE, PALE


def coverage(
    y: Array, mean: Array, std: Array, levels: Array, weights: Array | None = None
) -> Array:
    """Return the share of y (n,) inside its central interval of each level (k,), shape (k,)."""
    distance = np.abs(y - mean)[None, :]
    inside = distance <= ndtri((1 + levels[:, None]) / 2) * std
    return np.asarray(np.average(inside, axis=1, weights=weights))


def effective(weights: Array) -> float:
    """Return how many rows that count alike vary as much by chance as these weights (n,).

    (sum w)^2 / sum w^2, the number of Kish (1965).
    """
    return float(weights.sum() ** 2 / (weights**2).sum())


def sampling_band(levels: Array, n: Any, certainty: float = 0.95) -> tuple[Array, Array]:
    """Return (low, high) between which an honest share of n rows varies by chance.

    Normal approximation to the binomial, clipped to [0, 1], shape of ``levels``; ``n`` is a number
    or one for each level.
    """
    half = ndtri((1 + certainty) / 2) * np.sqrt(levels * (1 - levels) / n)
    return np.clip(levels - half, 0, 1), np.clip(levels + half, 0, 1)


@dataclass(repr=False, eq=False)
class CoverageDisplay(GaussianPredictions):
    """Share of observations inside their interval, against the probability of the interval.

    Honest intervals follow the diagonal; the pale band is where chance alone puts 95 % of honest
    ones, level by level. Below the diagonal intervals are too narrow, above it too wide.

    Parameters
    ----------
    levels : (k,) probabilities of the central intervals.
    shares : (k,) share of the observations inside.
    rows : number of observations; of weighted ones, of as many that count alike.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=500)
    >>> display = CoverageDisplay.from_predictions(y, np.zeros(500), np.ones(500))
    >>> bool(abs(display.shares - display.levels).max() < 0.06)
    True
    """

    levels: Array
    shares: Array
    rows: float

    @classmethod
    def compute(
        cls, y: Array, mean: Array, std: Array, weights: Array | None = None, **names: Any
    ) -> Self:
        """Return the display without drawing it; ``weights`` (n,) say how often a row counts."""
        levels = np.linspace(0.05, 0.99, 48)
        rows = len(y) if weights is None else effective(weights)
        return cls(levels, coverage(y, mean, std, levels, weights), rows)

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        low, high = sampling_band(self.levels, self.rows)
        ax.fill_between(self.levels, low, high, color=PALE, lw=0, label="honest, within chance")
        ax.plot([0, 1], [0, 1], color=ORANGE, lw=1)
        ax.plot(self.levels, self.shares, color=BLUE, lw=2, label="this model")
        ax.set(xlabel="probability of the interval", ylabel="share of rows inside")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.legend(loc="upper left", fontsize=9, frameon=False)
