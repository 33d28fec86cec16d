"""Smoothing splines on a line in O(n): an integrated Wiener process, flat along its polynomials.

Exact tables, the state at every knot, and the rows that are observed. Theory (P6).

The state (g, g', .., g^(m-1)) moves over a gap d by A(d), and gains the covariance Q(d):

    A_ij(d) = d^(j-i) / (j-i)!  (j >= i),      Q_ij(d) = d^(2m-1-i-j) Q1_ij,
    Q1_ij   = 1 / ((2m-1-i-j) (m-1-i)! (m-1-j)!),     i, j = 0 .. m-1.

Between two known states the process is a bridge: at u in (0, 1) its mean is the Hermite
interpolant of both ends, with F(u) = Q(u) A(1-u)' Q(1)^-1 on the right one, and its covariance is
Q(u) - F(u) A(1-u) Q(u).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb, factorial

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array, Index, group_rows, location_scale, merge
from mercer.core.memory import available_bytes

Polynomial = list[Fraction]  # coefficients, lowest power first


def _Q1(m: int, i: int, j: int) -> Fraction:
    return Fraction(1, (2 * m - 1 - i - j) * factorial(m - 1 - i) * factorial(m - 1 - j))


@cache
def unit_cholesky(m: int) -> Array:
    """L1 (m, m), lower triangular, with L1 L1' = Q1, from the exact L D L' of Q1."""
    Q = [[_Q1(m, i, j) for j in range(m)] for i in range(m)]
    L = np.zeros((m, m))
    for j in range(m):
        pivot = Q[j][j]
        column = [Q[i][j] / pivot for i in range(m)]
        L[j:, j] = [float(c) for c in column[j:]]
        L[:, j] *= float(pivot) ** 0.5
        Q = [[Q[i][k] - column[i] * column[k] * pivot for k in range(m)] for i in range(m)]
    return _frozen(L)


def _hermite(m: int, order: int) -> list[Polynomial]:
    """F_kj(u), j = 0 .. m-1, the k-th derivative of F_0j for k = ``order``; -1 is its integral.

    F_0j has the derivative j at u = 1 and no other below m at either end:

        F_0j(u) = u^m (u - 1)^j / j! sum_i C(m-1+i, i) (1 - u)^i,      i = 0 .. m-1-j.
    """
    found = []
    for j in range(m):
        total: Polynomial = [Fraction(0)] * (2 * m)
        for i in range(m - j):
            for power, c in enumerate(_binomial(i + j)):
                total[m + power] += c * (-1) ** j * comb(m - 1 + i, i) / factorial(j)
        if order < 0:
            total = [Fraction(0), *(c / (i + 1) for i, c in enumerate(total))]
        for _ in range(order):
            total = [c * (i + 1) for i, c in enumerate(total[1:])] + [Fraction(0)]
        found.append(total)
    return found


@cache
def hermite(m: int, order: int) -> Array:
    """Weights of the right end's state in the derivative of ``order``: coefficients (m, 2m) in u.

    -1 is the integral from the left end on, and has one coefficient more: (m, 2m + 1).
    """
    return _frozen(np.array([[float(c) for c in poly] for poly in _hermite(m, order)]))


@cache
def bridge(m: int, order: int) -> Array:
    """Variance of the derivative of ``order`` < m at u, given both ends: coefficients in u.

    For order zero it is (u (1-u))^(2m-1) / ((2m-1) ((m-1)!)^2).
    """
    result: Polynomial = [Fraction(0)] * (4 * m)
    result[2 * m - 1 - 2 * order] = _Q1(m, order, order)
    for j, F in enumerate(_hermite(m, order)):
        for i in range(j, m):  # (A(1-u) Q(u))_j,order
            for power, c in enumerate(_binomial(i - j)):
                shift = 2 * m - 1 - i - order + power
                for p, f in enumerate(F):
                    if f:
                        result[p + shift] -= f * c * _Q1(m, i, order) / factorial(i - j)
    return _frozen(np.array([float(c) for c in result]))


def _binomial(n: int) -> Polynomial:
    """(1-u)^n in powers of u."""
    return [Fraction((-1) ** i * comb(n, i)) for i in range(n + 1)]


def _frozen(A: Array) -> Array:
    A.flags.writeable = False
    return A


@dataclass(frozen=True)
class States:
    """The posterior of an integrated Wiener process of order m, given observations at x.

    The noise has variance 1 / W, and what is said of variances is in the same units. Inside, x is
    measured in ``unit`` (the mean gap), so that no power of a gap is large or small.
    """

    x: Array  # (n,) knots, ascending; equal ones are allowed
    unit: float  # of the states
    variance: float  # of the integrated white noise, over unit^(1 - 2m): 1 / lam in that unit
    mean: Array  # (n, m) of the state (g, g', .., g^(m-1)), in powers of ``unit``
    cov: Array  # (n, m (m + 1) / 2) covariances of the state, lower triangles by rows
    root: Array  # (m, m) with root root' the covariance at the last knot
    back: Array  # (n - 1, .) for each gap G and N (m, m): s_t = G s_{t+1} + N e + .., e ~ N(0, I)
    logdet: float  # (log |I + K W| + log |A|) / 2, A = H'C H for h_j = (x / unit)^j / j!
    rss: float  # y'P y, see :mod:`mercer.linalg.dense.projected`

    @property
    def order(self) -> int:
        """The order m of the penalty."""
        return int(self.mean.shape[1])

    def derivative(
        self, at: Array, order: int = 0, spread: bool = True
    ) -> tuple[Array, Array | None]:
        """Mean and variance of the derivative of ``order`` at the points ``at`` (q,).

        Beyond the knots the mean goes on as a polynomial of degree m - 1. The process itself has
        m - 1 derivatives; the mean has more, without a variance: give ``spread=False``. Between two
        knots h apart a derivative of order k is a difference over h^k, and loses as many digits.
        """
        m = self.order
        value, variance = np.empty(len(at)), np.empty(len(at)) if spread else None
        if order >= 2 * m:
            return np.zeros(len(at)), variance
        known = min(order, m - 1)
        model = (self.x, self.unit, self.variance, self.mean, self.cov, self.back)
        weights, away = hermite(m, order), float(_Q1(m, known, known))  # a unit beyond a state
        queries = np.ascontiguousarray(at)
        markov.at(*model, order, weights, bridge(m, known), away, queries, value, variance)
        if order:
            value /= self.unit**order
            if variance is not None:
                variance /= self.unit ** (2 * order)
        return value, variance

    def integral(self, at: Array) -> Array:
        """Integral of the mean from the first knot to each of the points ``at`` (q,)."""
        m, x, s = self.order, self.x, self.mean
        weights, signs, powers = hermite(m, -1), (-1.0) ** np.arange(m), np.arange(1, m + 1)
        h = (np.diff(x) / self.unit)[:, None] ** powers
        whole = weights.sum(axis=1)  # the integral over the whole gap, of the right end's part
        pieces = (h * (whole * s[1:] + signs * whole * s[:-1])).sum(axis=1)
        total = np.concatenate([[0.0], np.cumsum(pieces)])
        j = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 1)
        a = (at - x[j]) / self.unit
        inside, result = (a > 0.0) & (j + 1 < len(x)), total[j]
        out = ~inside
        result[out] += (s[j[out]] * a[out, None] ** powers / np.cumprod(powers)).sum(axis=1)
        i = j[inside]
        width = x[i + 1] - x[i]
        u, v = (at[inside] - x[i]) / width, (x[i + 1] - at[inside]) / width
        h = (width / self.unit)[:, None] ** powers
        right = np.polynomial.polynomial.polyval(u, weights.T).T
        # the left end's weight at u is the right end's at 1 - u, mirrored
        left = signs * (whole - np.polynomial.polynomial.polyval(v, weights.T).T)
        result[inside] += (h * (right * s[i + 1] + left * s[i])).sum(axis=1)
        return np.asarray(result * self.unit)

    def draw(self, normals: Array) -> Array:
        """One joint draw of g at the knots (n,) from standard normal numbers (n, m)."""
        deviations = np.array(normals, dtype=np.float64, order="C")
        markov.draws(self.root, self.back, deviations)
        return np.asarray(self.mean[:, 0] + deviations[:, 0])

    def joint(self, index: Index) -> Array:
        """Covariance matrix of g at the knots ``index`` (q,), ascending: (q, q), in O(n q)."""
        m, last = self.order, int(index[-1])
        result, C, lower = np.empty((len(index), len(index))), np.zeros((m, m)), np.tril_indices(m)
        rows = np.zeros((len(index), m))  # Cov(g_i, s_t) for the knots i after t
        place = {int(i): k for k, i in enumerate(index)}
        for t in range(last, int(index[0]) - 1, -1):
            if t < last:  # Cov(g_i, s_t) = Cov(g_i, s_{t+1}) G'
                rows = rows @ self.back[t, : m * m].reshape(m, m).T
            if t in place:
                k = place[t]
                C[lower] = self.cov[t]
                rows[k] = C[:, 0]
                result[k, k:] = result[k:, k] = rows[k:, 0]
        return result


def smooth(
    x: Array, W: Array, y: Array, m: int, variance: float, unit: float, pulls: Array | None = None
) -> States:
    """Condition the process at x (n,), ascending, on y (n,) with precisions W (n,) >= 0.

    ``variance`` is in units of ``unit``. W_i = 0 says nothing; at least m distinct points must.
    ``pulls`` (n, m), if given, is set to sum_{i>t} a_i ((x_i - x_t) / unit)^k / k! with
    a = W (y - g): times (-1)^(m-1-k) variance the derivative of order 2m - 1 - k of the mean, right
    of x_t and in powers of ``unit``.
    """
    n = len(x)
    require_states(n, m)
    mean, cov = np.empty((n, m)), np.empty((n, m * (m + 1) // 2))
    root, back = np.empty((m, m)), np.empty((n - 1, markov.room(m)))
    gaps, deviation = gaps_of(x, unit), float(np.sqrt(variance))
    model = (unit_cholesky(m), gaps, W, np.ascontiguousarray(y), deviation)
    logdet, rss = markov.smooth(*model, mean, cov, root, back, pulls)
    return States(x, unit, variance, mean, cov, root, back, logdet, rss)


def of_others(states: States, W: Array, y: Array) -> tuple[Array, Array]:
    """Mean and variance of g at each knot (n,), given the observations W, y (n,) at all others.

    Each is exact however much the process hangs on its own observation, in O(n).
    """
    mean, variance = np.empty(len(y)), np.empty(len(y))
    gaps, deviation = gaps_of(states.x, states.unit), float(np.sqrt(states.variance))
    model = (unit_cholesky(states.order), gaps, W, np.ascontiguousarray(y), deviation)
    markov.others(*model, mean, variance)
    return mean, variance


def gaps_of(x: Array, unit: float) -> Array:
    """Differences first, then the unit: differences of rescaled numbers would lose digits."""
    return np.asarray(np.diff(x) / unit)


def mean_gap(x: Array) -> float:
    """Return the mean gap of x (n,), ascending; 1 if all are equal."""
    reach = float(x[-1]) - float(x[0])
    if not np.isfinite(reach):
        raise ValueError(
            "the inputs reach over more than floating-point numbers hold; give x in other units"
        )
    return reach / (len(x) - 1) if reach > 0.0 else 1.0


def require_states(n: int, m: int) -> None:
    """Refuse if the states of n knots do not fit into memory."""
    need, limit = 8 * n * (markov.room(m) + m * (m + 3) // 2 + 4), available_bytes()
    if need > limit:
        raise MemoryError(
            f"a spline of order {m} through {n} points needs {need / 2**30:.1f} GiB and "
            f"{limit / 2**30:.1f} GiB are available; fit a random sample of at most "
            f"{int(n * limit / need)} points"
        )


@dataclass(frozen=True)
class SplineRows:
    """Observations on a line: every row as given, and what is left of them after merging."""

    x: Array  # (N,) the rows, in the user's units
    y: Array
    weights: Array
    points: Array  # (n,) distinct inputs of positive weight, ascending
    target: Array  # (n,) weighted mean at each point, standardised
    total: Array  # (n,) total weight
    within: float  # weighted sum of squares about these means, standardised
    y_shift: float  # y = y_shift + y_scale * standardised
    y_scale: float
    unit: float  # mean gap of the points

    @property
    def count(self) -> float:
        """Number of observations N: the sum of the weights."""
        return float(self.total.sum())

    def inside(self, y: Array) -> Array:
        """Return targets in standardised units."""
        return np.asarray((y - self.y_shift) / self.y_scale)


def check_scale(scale: float) -> None:
    """Refuse targets whose squares are no floating-point numbers."""
    if not 1e-140 < scale < 1e140:
        raise ValueError(
            f"the targets have deviation {scale:.3g}: their squares leave the range of "
            "floating-point numbers; give y in other units"
        )


def merge_rows(x: Array, y: Array, weights: Array) -> SplineRows:
    """Sort and merge the rows x, y, weights (N,); rows of weight zero are left out.

    The points do not depend on the order of the rows, and two equal rows are one of weight two.
    """
    if np.all(x[1:] > x[:-1]) and np.all(weights > 0.0):
        points, mean, total, spread = x, y[:, None], weights, None
    else:
        keep = weights > 0.0
        first, group = group_rows(x[keep][:, None])
        points = x[keep][first]
        mean, total, spread = merge(group, len(first), y[keep][:, None], weights[keep])
    shift, scale = location_scale(mean, total, spread)
    check_scale(float(scale[0]))
    within = 0.0 if spread is None else float(spread.sum()) / float(scale[0]) ** 2
    target, units = (mean[:, 0] - shift[0]) / scale[0], (float(shift[0]), float(scale[0]))
    return SplineRows(x, y, weights, points, target, total, within, *units, mean_gap(points))
