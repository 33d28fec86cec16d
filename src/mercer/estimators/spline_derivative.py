"""Derivatives of a smoothing spline anywhere, to the digits of the curve itself."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.estimators.spline_posterior import SplinePosterior


def derivative(
    spline: SplinePosterior, x: Array, order: int, spread: bool
) -> tuple[Array, Array | None]:
    """Mean (q,) of the derivative of ``order`` at x (q,), and its variance for unit noise.

    Between two points h apart, differences of the curve over h^order would lose the digits, on
    crowded points all of them. There x become knots that say nothing, in O(n + q): below order m
    the derivative is part of their state, and above it a sum of the weights of the points to the
    right, which the filter has (see :func:`~mercer.linalg.markov_states.smooth`).
    """
    value, variance = spline.states.derivative(x, order, spread)
    points, m, unit = spline.rows.points, spline.states.order, spline.states.unit
    inner = (x >= points[0]) & (x <= points[-1]) & (0 < order < 2 * m)
    if order < m:  # at a point the state has it already
        inner &= points[np.minimum(np.searchsorted(points, x), len(points) - 1)] != x
    if not np.any(inner):
        return value, variance
    at = x[inner]
    if order < m:
        states, index, place = spline.among(at)
        knots = index[place]
        value[inner] = states.mean[knots, order] / unit**order
        if variance is not None:
            diagonal = order * (order + 3) // 2  # of a lower triangle by rows
            variance[inner] = states.cov[knots, diagonal] / unit ** (2 * order)
        return value, variance
    pulls = np.empty((len(points) + len(np.unique(at)), m))
    states, index, place = spline.among(at, pulls)
    found = pulls[index[place], 2 * m - 1 - order]
    if order == 2 * m - 1:  # jumps at each point; at the last one it is that from the left
        a = spline.noise_variance * spline.alpha[:, 0]
        found[at == points[-1]] = a[points == points[-1]].sum()
    value[inner] = (-1.0) ** (order - m) * states.variance * found / unit**order
    return value, variance
