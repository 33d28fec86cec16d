"""What the inputs do to the predictions."""

from __future__ import annotations

import numpy as np

from mercer.app.single.fitted import Fitted
from mercer.core.arrays import Array
from mercer.plots.inputs import shuffled_effects


def effects_of_inputs(fitted: Fitted, seed: int = 0) -> Array:
    """Return by how much predictions change when one column is shuffled, (d,).

    Root mean square over at most 500 rows, in standard deviations of the target.
    """

    class Mean:
        def predict(self, X: Array) -> Array:
            return fitted.mean(X)

    scale = float(fitted.y.std()) or 1.0
    return shuffled_effects(Mean(), fitted.X, repeats=1, seed=seed, scale=scale).effects


def slice_along(fitted: Fitted, j: int) -> tuple[Array, Array, Array]:
    """Return (grid, mean, std), (k,) each, along input j with the others at their medians."""
    grid = np.linspace(fitted.X[:, j].min(), fitted.X[:, j].max(), 120)
    X = np.tile(np.median(fitted.X, axis=0), (len(grid), 1))
    X[:, j] = grid
    mean, std = fitted.predict(X)
    return grid, mean, std
