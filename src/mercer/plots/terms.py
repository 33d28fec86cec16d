"""Displays of the terms of a sum: what each column adds, with its band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.estimators.gaussian_process.additive import chosen_parts
from mercer.plots.style import BLUE, GREY, MANY, ORANGE, PALE, Display, optional, same_length

GRID = 100
WIDE = 1.96  # deviations on either side of a 95 % band
ACROSS = 3  # panels beside one another


@dataclass(repr=False, eq=False)
class TermDisplay(Display):
    """What a column adds to the prediction, with a band of 95 % at each value.

    The effect is centred: its average over the training points is zero. Ticks at the lower edge are
    values of the training points; points are partial residuals, effect plus residual, where rows
    were given.
    """

    name: str
    values: Array  # (q,) of the column
    mean: Array  # (q,)
    std: Array  # (q,)
    seen: Array  # (n,) values of the training points
    partial: tuple[Array, Array] | None = None  # values (n,) and effect plus residual (n,)
    edf: float | None = None

    def draw(self, ax: Any) -> None:
        half = WIDE * self.std
        ax.fill_between(self.values, self.mean - half, self.mean + half, color=PALE, lw=0)
        if self.partial is not None:
            many = len(self.partial[0]) > MANY
            ax.plot(*self.partial, ".", color=BLUE, ms=3, alpha=0.6, rasterized=many)
        ax.axhline(0.0, color=GREY, lw=0.8)
        ax.plot(self.values, self.mean, color=ORANGE, lw=2)
        low = ax.get_ylim()[0]
        ax.plot(self.seen, np.full(len(self.seen), low), "|", color=BLUE, ms=8, clip_on=False)
        ax.set_ylim(bottom=low)
        ax.locator_params(axis="x", nbins=5)
        free = "" if self.edf is None else f", edf {self.edf:.1f}"
        self._label(ax, shown(self.name, 30), f"effect{free}")

    @classmethod
    def from_predictions(
        cls, values: Any, mean: Any, std: Any, *, name: str = "input", ax: Any = None
    ) -> TermDisplay:
        """Draw an effect with ``mean`` and ``std`` (q,) at ``values`` (q,) of a column."""
        v, m, s = same_length("values, means and deviations", values, mean, std)
        return cls(name, v, m, s, np.unique(v)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, part: int | str, X: Any = None, y: Any = None, *, ax: Any = None
    ) -> TermDisplay:
        """Draw what one column adds to a fitted GPRegressor or AdditiveRegressor.

        Parameters
        ----------
        part : the column, by name or number: all terms of this column alone are drawn together.
        X, y : rows, for partial residuals.
        """
        return cls.compute(estimator, part, X, y).plot(ax)

    @classmethod
    def compute(cls, estimator: Any, part: int | str, X: Any = None, y: Any = None) -> TermDisplay:
        """Return the display without drawing it."""
        check_is_fitted(estimator, "posteriors_")
        names = getattr(estimator, "feature_names_in_", None)
        d = estimator.n_features_in_
        columns = [f"x{j}" for j in range(d)] if names is None else [str(n) for n in names]
        j = columns.index(part) if part in columns else part
        if not isinstance(j, (int, np.integer)) or not 0 <= j < d:
            raise ValueError(f"{part!r} is no column; the columns are {', '.join(columns)}")
        points = estimator.units_.in_user_units(estimator.posteriors_[0].points)
        if not len(points):
            raise ValueError(
                "the fit has kept the weights of its features, and no points: terms() has the "
                "slopes of straight lines; with gram='dense' they can be drawn"
            )
        rows = np.tile(np.median(points, axis=0), (GRID, 1))
        rows[:, j] = np.linspace(points[:, j].min(), points[:, j].max(), GRID)
        ask = {"return_std": True, "center": True}
        mean, std = estimator.predict_component(_table(rows, names), columns[j], **ask)
        partial = None
        if X is not None:
            given = np.asarray(X, dtype=np.float64)
            effect = estimator.predict_component(X, columns[j], center=True)
            partial = (given[:, j], effect + np.asarray(y, dtype=np.float64) - estimator.predict(X))
        seen, kernels = np.unique(points[:, j]), estimator.posteriors_[0].parent.signal.terms()
        own = chosen_parts(columns[j], estimator.components_, kernels, names)
        each: list[Any] = [t.edf for t in estimator.terms().terms] if len(points) <= MANY else []
        free = float(sum(each[i] for i in own)) if each and None not in each else None
        return cls(columns[j], rows[:, j], mean, std, seen, partial, free)


@dataclass(repr=False, eq=False)
class TermsDisplay(Display):
    """All columns that have a term of their own, side by side on the same scale."""

    displays: list[TermDisplay]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None
    ) -> TermsDisplay:
        """Draw what each column adds to a fitted GPRegressor or AdditiveRegressor."""
        found = []
        for j in range(estimator.n_features_in_):
            try:
                found.append(TermDisplay.compute(estimator, j, X, y))
            except ValueError as error:
                reason = error  # a column without a term of its own
        if not found:
            raise ValueError(f"no column has a term of its own: {reason}")
        return cls(found).plot(ax)

    @classmethod
    def from_predictions(cls, effects: Mapping[str, Any], *, ax: Any = None) -> TermsDisplay:
        """Draw effects by name, with ``values``, ``mean`` and ``std``: ``partial_effects()``."""
        pairs = effects.items()
        return cls([TermDisplay(n, e.values, e.mean, e.std, e.values) for n, e in pairs]).plot(ax)

    def plot(self, ax: Any = None) -> TermsDisplay:
        if ax is not None or len(self.displays) == 1:
            return super().plot(ax)
        across, count = min(ACROSS, len(self.displays)), len(self.displays)
        down = -(-count // across)
        size = (3.2 * across, 2.8 * down)
        figure = optional("matplotlib.pyplot", "plotting").figure(
            figsize=size, layout="constrained"
        )
        return super().plot(figure.add_subplot())

    def draw(self, ax: Any) -> None:
        across = min(ACROSS, len(self.displays))
        grid = ax.get_subplotspec().subgridspec(-(-len(self.displays) // across), across)
        ax.set_axis_off()
        self._label(ax, "columns", "effects")  # hidden: each panel has its own
        first = None
        for i, display in enumerate(self.displays):
            panel = ax.figure.add_subplot(grid[i // across, i % across], sharey=first)
            first = first or panel
            display.plot(panel)
        self.ax_ = ax


def _table(rows: Array, names: Any) -> Any:
    """Return the rows (q, d) with names, where the estimator was fitted with some."""
    if names is None:
        return rows
    return optional("pandas", "a table with names").DataFrame(rows, columns=list(names))
