"""The posterior of a smoothing spline as a process: any point in O(log n), draws in O(n)."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array, Index
from mercer.core.kinds import Kind, Numbers, Plain
from mercer.core.record import Fields
from mercer.kernels.compose import Scale
from mercer.kernels.operators.splines import Spline
from mercer.linalg.spline import SplineRows, States, smooth
from mercer.process.process import Prior, Process

_ALIKE = 1e-4  # of its size: far above the rounding of any compiler, far below what is seen


class SplinePosterior(Process):
    """An integrated Wiener process with a flat prior on its polynomials, given the rows.

    Values are those of standardised targets. The ``states`` are for noise of variance one; all
    variances are multiplied by ``noise``.
    """

    def __init__(self, rows: SplineRows, states: States, noise: float) -> None:
        self.rows, self.states, self.noise_variance = rows, states, noise

    @property
    def points(self) -> Array:
        """The distinct inputs (n, 1)."""
        return self.rows.points[:, None]

    @property
    def parent(self) -> Prior:
        """The part of the prior that is not flat: a Spline of variance noise / lam."""
        s, origin = self.states, float(self.rows.points[0])
        variance = self.noise_variance * s.variance / s.unit ** (2 * s.order - 1)
        return Prior(Scale(Spline(s.order, origin), variance))

    @property
    def straight(self) -> bool:
        """Whether lam is infinite: the curve is a polynomial, and the kernel of no variance."""
        return not self.noise_variance * self.states.variance > 0.0

    @property
    def alpha(self) -> Array:
        """Weights (n, 1) of the kernel of :attr:`parent` on the points: w (y - g) / noise."""
        rest = self.rows.target - self.states.mean[:, 0]
        return np.asarray(self.rows.total * rest / self.noise_variance)[:, None]

    @property
    def beta(self) -> Array:
        """Coefficients (m, 1) of :meth:`basis`: the state at the first point."""
        first, m = self.rows.points[:1], self.states.order
        return np.array([self.states.derivative(first, k, False)[0] for k in range(m)])

    def basis(self, X: Array) -> Array:
        """Return (x - x0)^j / j!, j < m, at X (q, 1), x0 the first point: shape (q, m)."""
        d = X[:, 0] - self.rows.points[0]
        return np.column_stack([d**j / factorial(j) for j in range(self.states.order)])

    def mean(self, X: Array) -> Array:
        return self.states.derivative(X[:, 0], 0, False)[0][:, None]

    def diag(self, X: Array) -> Array:
        return np.asarray(self.noise_variance * np.asarray(self.states.derivative(X[:, 0])[1]))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        x = X[:, 0] if Z is None else np.concatenate([X[:, 0], Z[:, 0]])
        states, index, place = self.among(x)
        joint = self.noise_variance * states.joint(index)[np.ix_(place, place)]
        return np.asarray(joint if Z is None else joint[: len(X), len(X) :])

    def sample(self, X: Array, n_samples: int, rng: np.random.Generator) -> Array:
        states, index, place = self.among(X[:, 0])
        middle, scale = states.mean[:, 0], float(np.sqrt(self.noise_variance))
        draws = np.empty((len(X), 1, n_samples))
        for j in range(n_samples):
            drawn = states.draw(rng.standard_normal(states.mean.shape))
            draws[:, 0, j] = (middle + scale * (drawn - middle))[index][place]
        return draws

    def among(self, x: Array, pulls: Array | None = None) -> tuple[States, Index, Index]:
        """Return the states with the distinct x as knots of weight zero.

        ``pulls``, a row for each knot, is set as :func:`~mercer.linalg.spline.smooth` does.
        With them the numbers of these knots, ascending, and for each x its place among them.
        """
        rows, known = self.rows, self.states
        distinct, place = np.unique(x, return_inverse=True)
        silent = np.zeros(len(distinct))
        knots = np.concatenate([rows.points, distinct])
        order = np.argsort(knots, kind="stable")
        W = np.concatenate([rows.total, silent])[order]
        target = np.concatenate([rows.target, silent])[order]
        states = smooth(knots[order], W, target, known.order, known.variance, known.unit, pulls)
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        return states, rank[len(rows.points) :], place.reshape(-1)

    def check(self) -> None:
        """Refuse states that are not those of the rows: they are computed again, in O(n)."""
        rows, known, m = self.rows, self.states, self.states.order
        found = smooth(rows.points, rows.total, rows.target, m, known.variance, rows.unit)
        i, j = np.tril_indices(m)
        deviation = np.sqrt(found.cov[:, i == j])
        pairs = [(known.cov, found.cov, deviation[:, i] * deviation[:, j])]
        for given, true in zip(_unique(known), _unique(found), strict=True):
            pairs.append((given, true, np.max(np.abs(true), axis=0, initial=0.0)))
        if not all(np.all(np.abs(given - true) <= _ALIKE * size) for given, true, size in pairs):
            raise ValueError("the states of the curve are not those of its rows")


def _unique(states: States) -> tuple[Array, ...]:
    """Means, and the covariance of the last state and of the steps back: roots have any sign."""
    m = states.order
    G, N = np.split(states.back, [m * m], axis=1)
    N = N.reshape(-1, m, m)
    return states.mean, states.root @ states.root.T, G, N @ N.swapaxes(1, 2)


def derivative(
    spline: SplinePosterior, x: Array, order: int, spread: bool
) -> tuple[Array, Array | None]:
    """Mean (q,) of the derivative of ``order`` at x (q,), and its variance for unit noise.

    Between two points h apart, differences of the curve over h^order would lose the digits, on
    crowded points all of them. There x become knots that say nothing, in O(n + q): below order m
    the derivative is part of their state, and above it a sum of the weights of the points to the
    right, which the filter has (see :func:`~mercer.linalg.spline.smooth`).
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


def _curve(rows: SplineRows, states: dict[str, Any], noise_variance: float) -> SplinePosterior:
    """The knots of the states and their unit are those of the rows."""
    found = States(rows.points, rows.unit, **states)
    m = found.order
    if not 1 <= m <= markov.HIGHEST or not np.any(rows.weights > 0.0):
        raise ValueError("a curve is of an order from 1 to 6, and some row has a weight")
    if found.cov.shape[1] != m * (m + 1) // 2 or found.back.shape[1] != markov.room(m):
        raise ValueError("the states do not have the covariances of their order")
    if np.any(np.diff(rows.points) < 0.0):
        raise ValueError("the points are not in order")
    return SplinePosterior(rows, found, noise_variance)


_ROWS: dict[str, Kind] = {
    "x": Numbers("N"),
    "y": Numbers("N"),
    "weights": Numbers("N", 0.0),
    "points": Numbers("n"),
    "target": Numbers("n"),
    "total": Numbers("n", 0.0),
    "within": Plain(float, 0.0),
    "y_shift": Plain(float),
    "y_scale": Plain(float, 0.0, above=True),
    "unit": Plain(float, 0.0, above=True),
}
_STATES: dict[str, Kind] = {
    "variance": Plain(float, 0.0),
    "mean": Numbers("n o"),
    "cov": Numbers("n t"),
    "root": Numbers("o o"),
    "back": Numbers("n-1 r"),
    "logdet": Plain(float),
    "rss": Plain(float),
}
# N rows as given, n knots, order o
_PARTS: dict[str, Kind] = {"rows": Fields(SplineRows, _ROWS), "states": Fields(dict, _STATES)}
CURVE = Fields(_curve, _PARTS | {"noise_variance": Plain(float, 0.0)})
