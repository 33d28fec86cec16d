"""BandDisplay: a prediction with its band along one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from mercer.arrays import Array
from mercer.plots.predictions import checked_predictions, gaussian
from mercer.plots.style import BLUE, MANY, ORANGE, PALE, Display
from mercer.wording import shown

GRID = 200
BANDS = (PALE, "#fdba74", "#fb923c")  # from the widest to the narrowest


@dataclass(repr=False, eq=False)
class BandDisplay(Display):
    """Mean and central intervals of new observations along one input.

    Parameters
    ----------
    x : (k,) values of the input, increasing.
    mean, std : (k,) of the prediction, noise included where the model says so.
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
        mean, std = gaussian(estimator, at)
        points = None
        if y is not None and X.shape[1] == 1:
            points = (X[:, 0], np.asarray(y, dtype=np.float64))
        name = ("x" if X.shape[1] == 1 else f"column {column}") if name is None else name
        return cls.from_predictions(
            grid, mean, std, levels=levels, points=points, name=name, target=target, ax=ax
        )

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        for level, shade in zip(sorted(self.levels, reverse=True), cycle(BANDS), strict=False):
            half = ndtri((1 + level) / 2) * self.std
            ax.fill_between(
                self.x,
                self.mean - half,
                self.mean + half,
                color=shade,
                lw=0,
                label=f"{100 * level:.4g} % band",
            )
        ax.plot(self.x, self.mean, color=ORANGE, lw=2, label="prediction")
        if self.points is not None:
            many = len(self.points[0]) > MANY
            style: dict[str, Any] = {"ms": 3, "alpha": 0.7, "rasterized": many}
            ax.plot(*self.points, "o", color=BLUE, label="observed", **style)
        ax.set_xlabel(shown(self.name, 30), parse_math=False)
        ax.set_ylabel(shown(self.target, 30), parse_math=False)
        ax.legend(loc="best", fontsize=9, frameon=False)
