"""What a label has as the next one, at least: the bound of the sequential learner before it."""

from __future__ import annotations

import numpy as np

from mercer._native import sequential as native
from mercer.core.arrays import Array


def bounds(mean: Array, var: Array) -> Array:
    """Return lower bounds (q, k) on the log probabilities of the classes, each by its best xi.

    Of the labels -1 and +1 of one latent function, or of +1 of each of several, against the rest.
    Reference: Jaakkola & Haussler (1999), (14) at the xi of (23); theory (O7).
    """
    one = mean.shape[1] == 1
    found = np.empty((len(mean), 2 if one else mean.shape[1]))
    for i, column in np.ndindex(*found.shape):
        S, j = (1.0, column) if not one else (2.0 * column - 1.0, 0)
        M, kappa = float(mean[i, j]), float(var[i, j])
        found[i, column] = native.log_bound(M, kappa, S, 1.0, native.best_xi(M, kappa, S, 1.0))
    return found
