"""DecisionRegionDisplay: where a classifier of two inputs decides for which class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.plots.style import INK, Display, class_style

GRID = 120


@dataclass(repr=False, eq=False)
class DecisionRegionDisplay(Display):
    """Regions of the classes over two inputs; the surer the model, the stronger the colour.

    The dark line is where the decision changes. A classifier without probabilities is drawn with
    regions of one strength.

    Parameters
    ----------
    x0, x1 : (g,) the grid of each input.
    codes : (g, g) the class at (x1_i, x0_j).
    sure : (g, g) its probability.
    classes : (k,) the labels.
    points : X (n, 2) and codes (n,) of observations; None draws none.
    names : of the two inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> display = DecisionRegionDisplay.from_estimator(GPClassifier().fit(X, y), X, y)
    >>> display.classes.tolist(), bool(display.codes[60, 0] < display.codes[60, -1])
    (['left', 'right'], True)
    """

    x0: Array
    x1: Array
    codes: Array
    sure: Array
    classes: Array
    points: tuple[Array, Array] | None = None
    names: tuple[str, str] = ("column 0", "column 1")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        columns: tuple[int, int] = (0, 1),
        names: tuple[str, str] | None = None,
        grid: int = GRID,
        margin: float = 0.05,
        ax: Any = None,
    ) -> Self:
        """Draw a fitted classifier over two columns of X (n, d), the others at their medians.

        The rows of X are drawn with their labels y (n,) where X has two columns. ``margin`` is how
        far the picture reaches beyond them, as a share of their range.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] < 2 or not all(0 <= c < X.shape[1] for c in columns):
            raise ValueError(f"regions need two columns of X (n, d), d >= 2; X has {X.shape}")
        a, b = columns
        low, high = X.min(axis=0), X.max(axis=0)
        room = np.where(high > low, margin * (high - low), 0.5)
        x0, x1 = (np.linspace(low[c] - room[c], high[c] + room[c], grid) for c in columns)
        at = np.tile(np.median(X, axis=0), (grid * grid, 1))
        at[:, a], at[:, b] = np.tile(x0, grid), np.repeat(x1, grid)
        classes, points = np.asarray(estimator.classes_), None
        if hasattr(estimator, "predict_proba"):
            p = np.asarray(estimator.predict_proba(at))
            codes, sure = p.argmax(axis=1), p.max(axis=1)
        else:  # the method has no probability
            codes, sure = _codes(classes, estimator.predict(at)), np.ones(len(at))
        if y is not None and X.shape[1] == 2:
            points = (X[:, list(columns)], _codes(classes, y))
        words = (f"column {a}", f"column {b}") if names is None else names
        square = (grid, grid)
        display = cls(x0, x1, codes.reshape(square), sure.reshape(square), classes, points, words)
        return display.plot(ax)

    def draw(self, ax: Any) -> None:
        from matplotlib.colors import to_rgb

        k = len(self.classes)
        colours = np.array([to_rgb(class_style(c)["color"]) for c in range(k)])
        # white where every class is as probable, a third of the full colour where one is certain
        share = 0.08 + 0.32 * np.clip((self.sure - 1 / k) / (1 - 1 / k), 0, 1)[..., None]
        image = 1 - share * (1 - colours[self.codes])
        halves = [(v, (v[1] - v[0]) / 2) for v in (self.x0, self.x1)]
        box = tuple(end for v, half in halves for end in (v[0] - half, v[-1] + half))
        ax.imshow(image, origin="lower", extent=box, aspect="auto", interpolation="nearest")
        for c in range(k):
            inside = self.codes == c
            if inside.any() and not inside.all():
                ax.contour(self.x0, self.x1, inside, [0.5], colors=INK, linewidths=0.8)
        if self.points is not None:
            X, codes = self.points
            for c in np.unique(codes):
                name = "no label" if c < 0 else shown(str(self.classes[c]), 18)
                style = {"color": "#9ca3af", "marker": "."} if c < 0 else class_style(int(c))
                here = X[codes == c]
                ax.scatter(*here.T, s=18, edgecolors="white", linewidths=0.4, label=name, **style)
            self._legend(ax, frameon=None)
        self._label(ax, *(shown(name, 30) for name in self.names))
        ax.set(xlim=box[:2], ylim=box[2:])


def _codes(classes: Array, labels: Any) -> Array:
    """The place of each label among the classes, -1 where it is none of them."""
    places = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in np.asarray(labels).tolist()])
