"""Displays of a check: quantiles of residuals, and all that ``model.check`` found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.left_out.check import LIKELY, MOVED, FitCheck, check_of
from mercer.plots.rows import column_names
from mercer.plots.style import BLUE, GREY, MANY, ORANGE, PALE, Display, same_length

BARS = 12  # directions that are drawn


@dataclass(repr=False, eq=False)
class QuantileDisplay(Display):
    """Residuals in order against the quantiles of a normal distribution.

    The shaded band holds 95 % of each order statistic of normal residuals.
    """

    residuals: Array  # (n,), about standard normal if the model is honest

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, ax: Any = None) -> QuantileDisplay:
        """Draw the residuals of y (n,), predicted with ``mean`` and ``std`` (n,)."""
        y, mean, std = same_length("observations and predictions", y, mean, std)
        return cls((y - mean) / std).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> QuantileDisplay:
        """Draw the residuals of the rows of a fit, left out where it has such figures."""
        return cls(estimator.check(X, y).residuals).plot(ax)

    def draw(self, ax: Any) -> None:
        r, n = np.sort(self.residuals), len(self.residuals)
        i = np.arange(1, n + 1)
        x = ndtri((i - 0.5) / n)
        low, high = (ndtri(beta.ppf(p, i, n + 1 - i)) for p in (0.025, 0.975))
        ax.fill_between(x, low, high, color=PALE, lw=0)
        ax.plot(x, x, color=ORANGE, lw=1.5)
        ax.plot(x, r, ".", color=BLUE, ms=4, rasterized=n > MANY)
        self._label(ax, "normal quantiles", "residuals, in deviations")


@dataclass(repr=False, eq=False)
class CheckDisplay(Display):
    """Four pictures of a :class:`~mercer.left_out.check.FitCheck`.

    Quantiles; residuals against the prediction; the index of each direction, which is below 1 where
    neighbours have like residuals (filled where chance does not explain it); and by how much each
    row moves its own prediction, or a histogram where that is not known.
    """

    check: FitCheck

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> CheckDisplay:
        """Check a fitted regressor on its own rows and draw what was found."""
        return cls(estimator.check(X, y)).plot(ax)

    @classmethod
    def from_predictions(
        cls, X: Any, y: Any, mean: Any, std: Any, *, ax: Any = None
    ) -> CheckDisplay:
        """Check y (n,), predicted with ``mean`` and ``std`` (n,) at X (n, d), and draw it."""
        y, mean, std = same_length("observations and predictions", y, mean, std)
        inputs, names = np.asarray(X, dtype=np.float64), column_names(X)
        made = check_of((y - mean) / std, mean, inputs, names, left_out=False, normal=True)
        return cls(made).plot(ax)

    def draw(self, ax: Any) -> None:
        spec = ax.get_subplotspec()
        ax.set_axis_off()
        self._label(ax, "residuals", "checks")  # hidden: each panel has its own
        grid = spec.subgridspec(2, 2)
        panels = [ax.figure.add_subplot(grid[i, j]) for i in range(2) for j in range(2)]
        QuantileDisplay(self.check.residuals).plot(panels[0])
        self._residuals(panels[1])
        self._structure(panels[2])
        self._influence(panels[3])
        self.ax_ = ax

    def _residuals(self, ax: Any) -> None:
        found = self.check
        ax.axhspan(-1.645, 1.645, color=PALE, lw=0)
        ax.axhline(0.0, color=ORANGE, lw=1)
        many = len(found.fitted) > MANY
        ax.plot(found.fitted, found.residuals, ".", color=BLUE, ms=4, rasterized=many)
        ax.locator_params(axis="x", nbins=4)
        self._label(ax, "prediction", "residuals, in deviations")

    def _structure(self, ax: Any) -> None:
        found = sorted(self.check.structure, key=lambda s: s.p)[:BARS][::-1]
        at = np.arange(len(found))
        low = [s.p * len(self.check.structure) < LIKELY for s in found]
        colors = [ORANGE if flagged else GREY for flagged in low]
        ax.barh(at, [s.index for s in found], color=colors, height=0.6)
        ax.axvline(1.0, color=BLUE, lw=1)
        short = (s.name.removeprefix("along ").removeprefix("in ") for s in found)
        labels = [shown(name.removeprefix("the "), 24) for name in short]
        ax.set_yticks(at, labels=labels, fontsize=8, parse_math=False)
        self._label(ax, "index of neighbours' residuals", "")

    def _influence(self, ax: Any) -> None:
        moved = self.check.influence
        if moved is None:
            ax.hist(self.check.residuals, bins=30, color=BLUE)
            self._label(ax, "residuals, in deviations", "rows")
            return
        ax.vlines(np.arange(1, len(moved) + 1), 0.0, moved, color=BLUE, lw=1)
        if float(np.max(moved, initial=0.0)) > 0.5 * MOVED:
            ax.axhline(MOVED, color=ORANGE, lw=1)
        ax.set_ylim(bottom=0.0)
        self._label(ax, "row", "moves its own prediction")
