"""Displays of regressions: observed values, residuals, coverage of intervals, and bands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.left_out.figures import coverage
from mercer.plots.style import BLUE, MANY, ORANGE, PALE, Display


class GaussianPredictions(Display):
    """A display of observations y (n,) and their Gaussian predictions."""

    @classmethod
    @abstractmethod
    def compute(cls, y: Array, mean: Array, std: Array, **names: Any) -> Self:
        """Return the display of y, mean and std, (n,) each, without drawing it."""

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, ax: Any = None, **names: Any) -> Self:
        """Draw observations y (n,) against predictions with ``mean`` and ``std`` (n,)."""
        return cls.compute(*checked_predictions(y, mean, std), **names).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **names: Any
    ) -> Self:
        """Draw the predictions of a fitted regressor for X (n, d), best rows it has not seen."""
        return cls.from_predictions(y, *gaussian(estimator, X), ax=ax, **names)

    @classmethod
    def from_loo(cls, estimator: Any, y: Any, *, ax: Any = None, **names: Any) -> Self:
        """Draw every training row y (n,) as it is predicted from all others (``loo_``)."""
        loo: Any = getattr(estimator, "loo_", None)
        if getattr(loo, "std", None) is None:
            raise ValueError(
                f"{type(estimator).__name__} has no leave-one-out predictions (loo_ with mean and "
                "std): use from_estimator with rows that were held out"
            )
        counted = loo.weights > 0
        y = np.asarray(y, dtype=np.float64)
        if y.shape != loo.mean.shape:
            raise ValueError(
                f"y has shape {y.shape}, but the fit had {loo.mean.shape}: give the y of the fit"
            )
        return cls.from_predictions(y[counted], loo.mean[counted], loo.std[counted], ax=ax, **names)


def gaussian(estimator: Any, X: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation (n,) of new observations at X."""
    try:
        mean, std = estimator.predict(X, return_std=True)
    except TypeError as error:
        raise ValueError(
            f"{type(estimator).__name__}.predict gives no standard deviation (return_std=True), "
            "and this picture is about it: use a probabilistic regressor, e.g. GPRegressor"
        ) from error
    return np.asarray(mean), np.asarray(std)


def checked_predictions(y: Any, mean: Any, std: Any) -> tuple[Array, Array, Array]:
    """Return the three as float64 (n,), or refuse what is wrong with them."""
    found = [np.asarray(a, dtype=np.float64) for a in (y, mean, std)]
    shapes = {a.shape for a in found}
    if len(shapes) > 1 or found[0].ndim != 1 or not len(found[0]):
        raise ValueError(
            "y, mean and std need the same length and one dimension, not shapes "
            f"{', '.join(str(a.shape) for a in found)}"
        )
    if not all(np.all(np.isfinite(a)) for a in found) or not np.all(found[2] > 0):
        raise ValueError("y, mean and std need finite values, and std positive ones")
    return found[0], found[1], found[2]


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
        return cls(y, mean, std, **names)

    def draw(self, ax: Any) -> None:
        y, mean, half = self.y, self.mean, ndtri(0.95) * self.std
        many = len(y) > MANY
        width = 0.8 if many else 1.6
        bars = ax.vlines(mean, mean - half, mean + half, color=PALE, lw=width, rasterized=many)
        bars.set_label("90 % interval")
        ax.plot(mean, y, "o", ms=3, color=BLUE, alpha=0.7, rasterized=many, label="observed")
        ends = [min(mean.min(), y.min()), max(mean.max(), y.max())]
        ax.plot(ends, ends, color=ORANGE, lw=1, label="observed = predicted")
        self._label(ax, "predicted", f"observed {shown(self.target, 30)}")
        self._legend(ax, "upper left")


@dataclass(repr=False, eq=False)
class ResidualDisplay(GaussianPredictions):
    """Residuals divided by their predicted deviation, against the prediction.

    Nine out of ten should lie in the pale band. A bend or a funnel means that the model misses a
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
        return cls(mean, (y - mean) / std)

    def draw(self, ax: Any) -> None:
        z, n = self.residuals, len(self.residuals)
        ax.axhspan(-ndtri(0.95), ndtri(0.95), color=PALE, lw=0)
        ax.axhline(0, color=ORANGE, lw=1)
        ax.plot(self.mean, z, "o", ms=3, color=BLUE, alpha=0.7, rasterized=n > MANY)
        ax.set(xlabel="predicted", ylabel="residual / predicted deviation")
        ax.locator_params(axis="x", nbins=6)  # long numbers do not run together
        top = max(3.5, float(np.abs(z).max()) * 1.05)
        ax.set_ylim(-top, top)
        side = ax.inset_axes((1.03, 0.0, 0.28, 1.0), sharey=ax)
        bins = np.linspace(-top, top, 1 + int(np.clip(2 * np.sqrt(n), 10, 60)))
        side.hist(z, bins, orientation="horizontal", density=True, color=BLUE, alpha=0.6)
        grid = np.linspace(-top, top, 200)
        side.plot(np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi), grid, color=ORANGE, lw=1.5)
        side.tick_params(labelleft=False)
        side.set_xticks([])  # its shape is what counts
        side.set_xlabel("density")


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
        """Return the display without drawing it; ``weights`` (n,) are how often a row counts."""
        levels = np.linspace(0.05, 0.99, 48)
        rows = len(y) if weights is None else effective(weights)
        return cls(levels, coverage(y, mean, std, levels, weights), rows)

    def draw(self, ax: Any) -> None:
        low, high = sampling_band(self.levels, self.rows)
        ax.fill_between(self.levels, low, high, color=PALE, lw=0, label="honest, within chance")
        ax.plot([0, 1], [0, 1], color=ORANGE, lw=1)
        ax.plot(self.levels, self.shares, color=BLUE, lw=2, label="this model")
        ax.set(xlabel="probability of the interval", ylabel="share of rows inside")
        self._square(ax, 0.0)
        self._legend(ax, "upper left")


GRID = 200
BANDS = (PALE, "#fdba74", "#fb923c")  # from the widest to the narrowest


@dataclass(repr=False, eq=False)
class BandDisplay(Display):
    """Mean and central intervals of new observations along one input.

    Parameters
    ----------
    x : (k,) values of the input, increasing.
    mean, std : (k,) of the prediction, noise included where the model has it.
    levels : probabilities of the bands, each drawn over the wider ones.
    points : x and y, (n,) each, of observations; None draws none.
    name, target : what stands at the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x[:, 0])
    >>> display = BandDisplay.from_estimator(GPRegressor().fit(x, y), x, y)
    >>> len(display.ax_.collections), len(display.x)
    (1, 200)
    """

    x: Array
    mean: Array
    std: Array
    levels: Sequence[float] = (0.9,)
    points: tuple[Array, Array] | None = None
    name: str = "x"
    target: str = "prediction"

    @classmethod
    def from_predictions(
        cls, x: Any, mean: Any, std: Any, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw mean and std (k,) at x (k,); ``options`` are the other parameters."""
        along, mean, std = checked_predictions(x, mean, std)
        order = np.argsort(along, kind="stable")
        levels = options.get("levels", (0.9,))
        if not levels or not all(0 < level < 1 for level in levels):
            raise ValueError(f"levels are probabilities between 0 and 1, not {levels!r}")
        return cls(along[order], mean[order], std[order], **options).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        column: int = 0,
        levels: Sequence[float] = (0.9,),
        name: str | None = None,
        target: str = "prediction",
        ax: Any = None,
    ) -> Self:
        """Draw a fitted regressor along one column of X (n, d), the others at their medians.

        The observations y (n,) are drawn where X has one column: with more, they do not lie where
        the others are at their medians.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or not 0 <= column < X.shape[1]:
            raise ValueError(f"X needs two dimensions and a column {column}; it has {X.shape}")
        grid = np.linspace(X[:, column].min(), X[:, column].max(), GRID)
        at = np.tile(np.median(X, axis=0), (GRID, 1))
        at[:, column] = grid
        points = None
        if y is not None and X.shape[1] == 1:
            points = (X[:, 0], np.asarray(y, dtype=np.float64))
        usual = "x" if X.shape[1] == 1 else f"column {column}"
        words = {"name": usual if name is None else name, "target": target}
        predicted = gaussian(estimator, at)
        return cls.from_predictions(grid, *predicted, levels=levels, points=points, ax=ax, **words)

    def draw(self, ax: Any) -> None:
        for level, shade in zip(sorted(self.levels, reverse=True), cycle(BANDS), strict=False):
            half, label = ndtri((1 + level) / 2) * self.std, f"{100 * level:.4g} % band"
            ends = (self.mean - half, self.mean + half)
            ax.fill_between(self.x, *ends, color=shade, lw=0, label=label)
        ax.plot(self.x, self.mean, color=ORANGE, lw=2, label="prediction")
        if self.points is not None:
            many = len(self.points[0]) > MANY
            style: dict[str, Any] = {"ms": 3, "alpha": 0.7, "rasterized": many}
            ax.plot(*self.points, "o", color=BLUE, label="observed", **style)
        self._label(ax, shown(self.name, 30), shown(self.target, 30))
        self._legend(ax)
