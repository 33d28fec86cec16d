"""Weights: how often each row of a table counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.estimators.shared.table import check_weights
from mercer.tables.data.frame import Frame

LIGHT = 0.5  # of a row: weights that are less, on average, leave hardly any rows


def read_weights(frame: Frame, weights: Any) -> Array | None:
    """Return the weight of each row (n,); None where every row counts once.

    ``weights`` is the name of a column, or one number for each row. A weight of 2 counts as the
    row twice, a weight of zero as no row; negative, missing and infinite ones are refused.

    Examples
    --------
    >>> from mercer.tables import as_frame
    >>> read_weights(as_frame({"x": [4.0, 5.0], "count": [1, 3]}), "count").tolist()
    [1.0, 3.0]
    """
    if weights is None:
        return None
    if not isinstance(weights, str):
        try:
            counts = check_weights(weights, frame.n)
        except (TypeError, ValueError):
            if np.ndim(weights):
                raise
            raise TypeError(
                f"weights must be the name of a column or {frame.n} numbers, not a "
                f"{type(weights).__name__}"
            ) from None
    elif weights not in frame.columns:
        raise ValueError(f"the table has no column '{shown(weights)}' with the weights")
    elif frame.kind(weights) != "number":
        raise ValueError(f"the weights '{shown(weights)}' are {frame.kind(weights)}s, not numbers")
    else:
        try:
            counts = check_weights(frame.columns[weights], frame.n)
        except ValueError as error:
            raise ValueError(f"the weights '{shown(weights)}': {error}") from None
    return None if np.all(counts == 1.0) else counts


def notes_of_weights(weights: Array | None) -> list[str]:
    """Return what a reader should know of weights (n,)."""
    if weights is None:
        return []
    notes, none = [], int(np.sum(weights == 0.0))
    if none:
        notes.append(f"{none} rows of weight zero were left out")
    total, count = float(weights.sum()), len(weights) - none
    if total < LIGHT * count:
        notes.append(
            f"the weights of {count} rows add up to {total:.4g}: a weight says how often a row "
            "counts, so that the model is as uncertain as with so few rows; multiply them by a "
            "constant if they are meant to be relative"
        )
    return notes


def fitted(machine: Any, X: Array, labels: Any, weights: Array | None) -> Any:
    """Return the machine, fitted to X (n, d), the labels (n,) and, if there are any, weights."""
    if weights is None:
        return machine.fit(X, labels)
    return machine.fit(X, labels, sample_weight=weights)


def middle(values: Array, weights: Array) -> float:
    """Return the median of values (n,), each repeated as its weight (n,) says.

    Half of the weight lies on either side; where that is between two values, their mean.

    Examples
    --------
    >>> import numpy as np
    >>> middle(np.array([1.0, 2.0, 8.0]), np.array([1.0, 1.0, 2.0]))
    5.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    half = 0.5 * total[-1]
    low = int(np.searchsorted(total, half, side="left"))
    high = int(np.searchsorted(total, half, side="right"))
    last = len(values) - 1
    return float(0.5 * (values[order[min(low, last)]] + values[order[min(high, last)]]))
