"""ObservedDisplay: observed against predicted values, with the intervals of the predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from scipy.special import ndtri

from mercer.arrays import Array
from mercer.plots.predictions import GaussianPredictions
from mercer.plots.style import BLUE, MANY, ORANGE, PALE
from mercer.wording import shown


@dataclass(repr=False, eq=False)
class ObservedDisplay(GaussianPredictions):
    """Observed against predicted values with 90 % intervals.

    The closer to the diagonal the better; the intervals should contain nine rows out of ten.

    Parameters
    ----------
    y, mean, std : (n,) observations, predictions and their standard deviations.
    target : name of the observed quantity.

    Examples
    --------
    >>> display = ObservedDisplay.from_predictions([1.0, 2.0], [1.5, 2.0], [0.5, 0.5], target="kg")
    >>> display.ax_.get_ylabel()
    'observed kg'
    """

    y: Array
    mean: Array
    std: Array
    target: str = "values"

    @classmethod
    def compute(cls, y: Array, mean: Array, std: Array, **names: Any) -> Self:
        """Return the display without drawing it."""
        return cls(y, mean, std, **names)

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        y, mean, half = self.y, self.mean, ndtri(0.95) * self.std
        many = len(y) > MANY
        width = 0.8 if many else 1.6
        bars = ax.vlines(mean, mean - half, mean + half, color=PALE, lw=width, rasterized=many)
        bars.set_label("90 % interval")
        ax.plot(mean, y, "o", ms=3, color=BLUE, alpha=0.7, rasterized=many, label="observed")
        ends = [min(mean.min(), y.min()), max(mean.max(), y.max())]
        ax.plot(ends, ends, color=ORANGE, lw=1, label="observed = predicted")
        ax.set_xlabel("predicted")
        ax.set_ylabel(f"observed {shown(self.target, 30)}", parse_math=False)
        ax.legend(loc="upper left", fontsize=9, frameon=False)
