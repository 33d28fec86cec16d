"""ResidualDisplay: what a regression leaves over, in units of what it said it would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from mercer.arrays import Array
from mercer.plots.predictions import GaussianPredictions
from mercer.plots.style import BLUE, MANY, ORANGE, PALE


@dataclass(repr=False, eq=False)
class ResidualDisplay(GaussianPredictions):
    """Residuals divided by their predicted deviation, against the prediction.

    Nine out of ten belong into the pale band. A bend or a funnel says that the model misses a
    structure. Beside it their histogram and the normal density.

    Parameters
    ----------
    mean : (n,) predictions.
    residuals : (n,) (y - mean) / std.

    Examples
    --------
    >>> import numpy as np
    >>> display = ResidualDisplay.from_predictions([1.0, 2.0], [1.5, 2.0], [0.5, 0.5])
    >>> display.residuals.tolist()
    [-1.0, 0.0]
    """

    mean: Array
    residuals: Array

    @classmethod
    def compute(cls, y: Array, mean: Array, std: Array, **names: Any) -> Self:
        """Return the display without drawing it."""
        return cls(mean, (y - mean) / std)

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        z, n = self.residuals, len(self.residuals)
        ax.axhspan(-ndtri(0.95), ndtri(0.95), color=PALE, lw=0)
        ax.axhline(0, color=ORANGE, lw=1)
        ax.plot(self.mean, z, "o", ms=3, color=BLUE, alpha=0.7, rasterized=n > MANY)
        ax.set(xlabel="predicted", ylabel="residual / predicted deviation")
        top = max(3.5, float(np.abs(z).max()) * 1.05)
        ax.set_ylim(-top, top)
        side = ax.inset_axes((1.03, 0.0, 0.28, 1.0), sharey=ax)
        bins = np.linspace(-top, top, 1 + int(np.clip(2 * np.sqrt(n), 10, 60)))
        side.hist(z, bins, orientation="horizontal", density=True, color=BLUE, alpha=0.6)
        grid = np.linspace(-top, top, 200)
        side.plot(np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi), grid, color=ORANGE, lw=1.5)
        side.tick_params(labelleft=False)
        side.set_xlabel("density")
