"""What the inputs do to the predictions."""

from __future__ import annotations

import numpy as np

from mercer.app.fitted import Fitted
from mercer.arrays import Array

ROWS = 500  # rows used for the effect of an input: enough for a bar chart


def effects_of_inputs(fitted: Fitted, seed: int = 0) -> Array:
    """Return by how much predictions change when one column is shuffled, (d,).

    Root mean square over at most 500 rows, in standard deviations of the target.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(fitted.X))[:ROWS]
    X, scale = fitted.X[rows], float(fitted.y.std()) or 1.0
    base, effects = fitted.mean(X), np.empty(X.shape[1])
    for j in range(X.shape[1]):
        moved = X.copy()
        moved[:, j] = rng.permutation(moved[:, j])
        effects[j] = np.sqrt(np.mean((fitted.mean(moved) - base) ** 2)) / scale
    return effects


def slice_along(fitted: Fitted, j: int) -> tuple[Array, Array, Array]:
    """Return (grid, mean, std), (k,) each, along input j with the others at their medians."""
    grid = np.linspace(fitted.X[:, j].min(), fitted.X[:, j].max(), 120)
    X = np.tile(np.median(fitted.X, axis=0), (len(grid), 1))
    X[:, j] = grid
    mean, std = fitted.predict(X)
    return grid, mean, std
