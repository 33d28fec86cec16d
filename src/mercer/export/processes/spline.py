"""A smoothing spline in ONNX: a polynomial for each interval, found by bisection.

The mean is a polynomial of degree 2 m - 1 between two knots, and of degree m - 1 beyond them. So is
the variance, of degree 4 m - 2 between and 2 m - 1 beyond: the bridge between two states adds
squares of the polynomials that carry them. Both are taken from as many values as they have
coefficients, about the middle of each interval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.export.expression import Value, where
from mercer.process.spline import SplinePosterior


class TracedSpline:
    """The posterior of a smoothing spline at rows X (q, 1) that are not known yet."""

    def __init__(self, posterior: SplinePosterior, X: Value) -> None:
        self.posterior, self.X = posterior, X
        self.knots = np.unique(posterior.states.x)
        gaps = np.diff(self.knots)
        reach = float(self.knots[-1] - self.knots[0])
        self.half = 0.5 * np.concatenate([[reach], gaps, [reach]])
        inside = 0.5 * (self.knots[1:] + self.knots[:-1])
        ends = self.knots[[0, -1]] + np.array([-0.5, 0.5]) * reach
        self.middle = np.concatenate([ends[:1], inside, ends[1:]])

    def mean(self) -> Value:
        """The curve, (q, 1)."""
        m = self.posterior.states.order
        return self._value(lambda x: self.posterior.mean(x[:, None])[:, 0], 2 * m - 1, m - 1)

    def var(self) -> Value:
        """Its variance, (q, 1)."""
        m = self.posterior.states.order
        variance: Any = self._value(lambda x: self.posterior.diag(x[:, None]), 4 * m - 2, 2 * m - 1)
        return np.maximum(variance, 0.0)

    def noise(self) -> Value:
        """Zero: all noise is the loss's."""
        return self.X.graph.constant(np.zeros((1, 1)))

    def _value(self, function: Callable[[Array], Array], inner: int, outer: int) -> Value:
        """A piecewise polynomial of degree ``inner`` between knots and ``outer`` beyond."""
        table, index = self._table(function, inner, outer), self._interval()
        t = (self.X - self._chosen(self.middle, index)) / self._chosen(self.half, index)
        total = 0.0 * t
        for column in table.T[::-1]:
            total = total * t + self._chosen(column, index)
        return total

    def _table(self, function: Callable[[Array], Array], inner: int, outer: int) -> Array:
        """Coefficients (n + 1, inner + 1) of t in [-1, 1] on each interval, lowest power first."""
        last = len(self.half) - 1
        table = np.zeros((last + 1, max(inner, outer) + 1))
        for rows, degree in ((np.arange(1, last), inner), (np.array([0, last]), outer)):
            nodes = np.polynomial.chebyshev.chebpts1(degree + 1)
            places = self.middle[rows, None] + self.half[rows, None] * nodes
            values = function(places.ravel()).reshape(places.shape)
            powers = np.linalg.solve(np.vander(nodes, increasing=True), values.T)
            table[rows, : degree + 1] = powers.T
        return table

    def _interval(self) -> Value:
        """Number of knots at or below x, (q, 1) of 64-bit integers, by bisection."""
        n = len(self.knots)
        low = 0.0 * self.X
        step = 1 << (n.bit_length() - 1)
        while step:
            tried = low + float(step)
            known = self._chosen(self.knots, np.minimum(tried - 1.0, n - 1.0).cast(np.int64))
            fits = where(known > self.X, 0.0, 1.0) * where(tried > float(n), 0.0, 1.0)
            low = low + fits * float(step)
            step //= 2
        return low.cast(np.int64)

    def _chosen(self, table: Array, index: Value) -> Value:
        return self.X.graph.add("Gather", table, index, axis=0)
