"""Tables: what comes in is checked, named in the error, and merged where rows repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array


def check_finite(A: Array, what: str, names: Any = None) -> None:
    """Refuse NaN and infinity, naming the first row and column."""
    bad = ~np.isfinite(A)
    if not bad.any():
        return
    row = int(np.flatnonzero(bad.reshape(len(A), -1).any(axis=1))[0])
    column = int(np.flatnonzero(bad.reshape(len(A), -1)[row])[0])
    kind = "NaN" if np.isnan(A.reshape(len(A), -1)[row, column]) else "infinity (inf)"
    where = f"row {row}"
    if A.ndim > 1:
        label = repr(str(names[column])) if names is not None else str(column)
        where = f"column {label}, row {row}"
    raise ValueError(
        f"Input {what} contains {kind} in {where}"
        f" ({int(bad.sum())} such value{'s' if bad.sum() > 1 else ''} in all); drop these rows, or "
        "fill them first, e.g. with sklearn.impute.SimpleImputer in a pipeline"
    )


def check_weights(sample_weight: Any, n: int) -> Array:
    """Return the weights (n,), all one if None; refuse negative, non-finite or all-zero ones."""
    if sample_weight is None:
        return np.ones(n)
    if np.isscalar(sample_weight):
        w = np.full(n, float(sample_weight))  # type: ignore[arg-type]  # np.isscalar says it is one
    else:
        w = np.asarray(sample_weight, dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"sample_weight has shape {w.shape}, expected ({n},): one weight per row")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        row = int(np.flatnonzero(~np.isfinite(w) | (w < 0))[0])
        raise ValueError(f"sample_weight must be finite and not negative; row {row} has {w[row]}")
    if not np.any(w > 0):
        raise ValueError("all sample weights are zero: nothing is left to learn from")
    return w


def distinct_at_least(X: Array) -> int:
    """Return a lower bound on the number of distinct rows of X (n, d), cheaply."""
    direction = np.sqrt(2.0 + np.arange(X.shape[1]))
    return len(np.unique(X @ direction))


def group_rows(X: Array) -> tuple[Array, Array]:
    """Return (first row of each distinct row of X, group of each row); groups in sorted order.

    The order does not depend on the order of the rows, so neither does what follows.
    """
    order = np.lexsort(X.T[::-1])
    ordered = X[order]
    new = np.ones(len(X), dtype=bool)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    group = np.empty(len(X), dtype=np.intp)
    group[order] = np.cumsum(new) - 1
    return order[new], group


def merge(group: Array, n: int, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Merge rows by group: weighted mean (n, m), total weight (n,), weighted spread (n, m)."""
    total = np.bincount(group, weights, n)
    mean = np.column_stack([np.bincount(group, weights * c, n) for c in y.T]) / total[:, None]
    spread = np.column_stack(
        [np.bincount(group, weights * c**2, n) for c in (y - mean[group]).T]
    )
    return mean, total, spread
