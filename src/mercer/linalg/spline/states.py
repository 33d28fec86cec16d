"""States of a smoothing spline: value and derivatives at every knot, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array, Index
from mercer.core.memory import available_bytes
from mercer.linalg.spline import tables


@dataclass(frozen=True)
class States:
    """The posterior of an integrated Wiener process of order m, given observations at x.

    The noise has variance 1 / W, and what is said of variances is in the same units. Inside, x is
    measured in ``unit`` (the mean gap), so that no power of a gap is large or small.

    Attributes
    ----------
    x : (n,) knots, ascending; equal ones are allowed.
    unit : the unit of the states.
    variance : of the white noise that is integrated, over unit^(1 - 2m): 1 / lam in that unit.
    mean : (n, m) of the state (g, g', .., g^(m-1)), in powers of ``unit``.
    cov : (n, m (m + 1) / 2) covariances of the state, lower triangles by rows.
    root : (m, m) with root root' the covariance at the last knot.
    back : (n - 1, .) for each gap G and N (m, m): s_t = G s_{t+1} + N e + .., e ~ N(0, I).
    logdet : log |I + K W| / 2 + log |A| / 2, A = H'C H for the basis h_j = (x / unit)^j / j!.
    rss : y'P y, see :mod:`mercer.linalg.dense.projected`.
    """

    x: Array
    unit: float
    variance: float
    mean: Array
    cov: Array
    root: Array
    back: Array
    logdet: float
    rss: float

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
        markov.at(
            self.x,
            self.unit,
            self.variance,
            self.mean,
            self.cov,
            self.back,
            order,
            tables.hermite(m, order),
            tables.bridge(m, known),
            tables.spread(m, known),
            np.ascontiguousarray(at),
            value,
            variance,
        )
        if order:
            value /= self.unit**order
            if variance is not None:
                variance /= self.unit ** (2 * order)
        return value, variance

    def integral(self, at: Array) -> Array:
        """Integral of the mean from the first knot to each of the points ``at`` (q,)."""
        m, x, s = self.order, self.x, self.mean
        weights = tables.hermite(m, -1)
        signs = (-1.0) ** np.arange(m)
        powers = np.arange(1, m + 1)
        h = (np.diff(x) / self.unit)[:, None] ** powers
        whole = weights.sum(axis=1)  # the integral over the whole gap, of the right end's part
        pieces = (h * (whole * s[1:] + signs * whole * s[:-1])).sum(axis=1)
        total = np.concatenate([[0.0], np.cumsum(pieces)])
        j = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 1)
        a = (at - x[j]) / self.unit
        inside = (a > 0.0) & (j + 1 < len(x))
        result = total[j]
        factorials = np.cumprod(powers)
        out = ~inside
        result[out] += (s[j[out]] * a[out, None] ** powers / factorials).sum(axis=1)
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
        result = np.empty((len(index), len(index)))
        lower = np.tril_indices(m)
        C = np.zeros((m, m))
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
    x: Array,
    W: Array,
    y: Array,
    order: int,
    variance: float,
    unit: float,
    pulls: Array | None = None,
) -> States:
    """Condition the process at x (n,), ascending, on y (n,) with precisions W (n,) >= 0.

    ``variance`` is in units of ``unit``. W_i = 0 says nothing; at least m distinct points must.
    ``pulls`` (n, m), if given, is set to sum_{i>t} a_i ((x_i - x_t) / unit)^k / k! with
    a = W (y - g): times (-1)^(m-1-k) variance the derivative of order 2m - 1 - k of the mean, right
    of x_t and in powers of ``unit``.
    """
    n, m = len(x), order
    require_states(n, m)
    mean, cov = np.empty((n, m)), np.empty((n, m * (m + 1) // 2))
    root, back = np.empty((m, m)), np.empty((n - 1, markov.room(m)))
    gaps = gaps_of(x, unit)
    sf = float(np.sqrt(variance))
    logdet, rss = markov.smooth(
        tables.unit_cholesky(m), gaps, W, np.ascontiguousarray(y), sf, mean, cov, root, back, pulls
    )
    return States(x, unit, variance, mean, cov, root, back, logdet, rss)


def gaps_of(x: Array, unit: float) -> Array:
    """Differences first, then the unit: differences of rescaled numbers would lose digits."""
    gaps = np.diff(x)
    gaps /= unit
    return np.asarray(gaps)


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
