"""Influence: how much each training row weighs in the function that a machine learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array


def influence(machine: Any, X: Array, weights: Array | None = None) -> Array:
    """Return the share of each row of X (n, d), the training rows, in the sum of |alpha|, (n,).

    f(x) = sum_i alpha_i k(x, x_i) + ...: a large coefficient is a row that the others do not
    explain (for a likelihood alpha_i is the slope of its log density at the fit). Rows with equal
    inputs share theirs as their ``weights`` (n,) say; all are zero where a machine has no
    coefficients for rows.
    """
    machine = getattr(machine, "machine_", machine)
    size = np.zeros(len(X))
    for rows, coefficients in (("support_", "dual_coef_"), ("relevance_", "weights_")):
        where = getattr(machine, rows, None)
        values = getattr(machine, coefficients, None)
        if where is not None and values is not None and np.shape(values)[-1] == len(where):
            size[np.asarray(where, dtype=np.intp)] = np.abs(values).sum(axis=0)
            return _shares(size)
    posteriors = getattr(machine, "posteriors_", None)
    if not posteriors or not hasattr(posteriors[0], "alpha"):
        return size
    points, alpha = np.asarray(posteriors[0].points), np.abs(posteriors[0].alpha).sum(axis=1)
    inside = machine.units_.inside(X)
    if points.shape != inside.shape[:1] + points.shape[1:] or not np.array_equal(points, inside):
        place: dict[bytes, list[int]] = {}
        for i, row in enumerate(np.ascontiguousarray(inside)):
            place.setdefault(row.tobytes(), []).append(i)
        for row, value in zip(np.ascontiguousarray(points), alpha, strict=True):
            same = place.get(row.tobytes(), [])
            w = np.ones(len(same)) if weights is None else weights[same]
            size[same] += value * w / w.sum()
        return _shares(size)
    return _shares(alpha)


def _shares(size: Array) -> Array:
    total = float(size.sum())
    return size / total if total > 0.0 else size
