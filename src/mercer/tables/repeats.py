"""Repeats: rows that have the inputs of others, and what is known of the rows that have not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.plots.recorded import recorded
from mercer.tables.left_out import LeftOut


def repeated(X: Array) -> int:
    """Return how many rows of X (n, d) have the inputs of an earlier one."""
    return len(X) - len(np.unique(X, axis=0))


def alone(X: Array) -> NDArray[np.bool_]:
    """Return which rows of X (n, d) share their inputs with no other, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> alone(np.array([[1.0], [2.0], [1.0]])).tolist()
    [False, True, False]
    """
    _, place, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.ravel()] == 1)


def note_of_repeats(left: LeftOut, X: Array) -> list[str]:
    """Return what to expect of new inputs; ``left`` are the figures of the rows X (n, d)."""
    new = alone(X)
    if not new.any() or new.all():
        return []
    score = float(np.mean(recorded(left.log_density, left.y)[new]))
    return [
        f"{int((~new).sum())} rows share their inputs with another and are predicted from it; the "
        f"score of the {int(new.sum())} others is {score:.4g}: that is what to expect of new inputs"
    ]
