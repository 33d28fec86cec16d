"""Rows of a table: equal ones grouped and merged; location and scale of columns."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array, Index


def group_rows(X: Array) -> tuple[Index, Index]:
    """Return (a row of each distinct row of X, the group of each row); groups in sorted order."""
    order = np.lexsort(X.T[::-1])
    ordered = X[order]
    new = np.ones(len(X), dtype=bool)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    group = np.empty(len(X), dtype=np.intp)
    group[order] = np.cumsum(new) - 1
    return order[new], group


def merge(group: Index, n: int, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Merge rows by group: weighted mean (n, m), total weight (n,), weighted spread (n, m)."""
    if len(group) == n:  # nothing repeats: the values as they are, in the order of the groups
        order = np.argsort(group)
        return y[order].copy(), weights[order].copy(), np.zeros((n, y.shape[1]))
    total: Array = np.asarray(np.bincount(group, weights, n), dtype=np.float64)
    first = np.zeros(n, dtype=np.intp)
    first[group[::-1]] = np.arange(len(group))[::-1]
    base = y[first]  # differences to a member of the group: equal values merge without rounding
    shift = y - base[group]
    mean = np.column_stack([np.bincount(group, weights * c, n) for c in shift.T]) / total[:, None]
    rest = shift - mean[group]
    spread: Array = np.column_stack([np.bincount(group, weights * c**2, n) for c in rest.T])
    return base + mean, total, spread


def location_scale(A: Array, weights: Array, spread: Array | None = None) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of the columns of A (n, d).

    ``spread`` (n, d) is the weighted sum of squares of merged observations about each A_i.

    A constant column gets its absolute value as scale (1 for zeros). The columns are divided by
    their largest absolute value first, so that squares of 1e200 do not overflow.
    """
    top = np.max(np.abs(A), axis=0)
    top = np.where(top > 0, top, 1.0)
    B = A / top
    total = weights.sum()
    mean = weights @ B / total
    squares = weights @ (B - mean) ** 2
    if spread is not None:
        squares = squares + ((np.sqrt(spread) / top) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / total)
    constant = deviation <= 8 * np.finfo(float).eps
    return mean * top, np.where(constant, 1.0, deviation) * top
