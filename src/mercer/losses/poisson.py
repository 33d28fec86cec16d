"""Poisson counts with a log link."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.losses.base import Loss
from mercer.losses.special import exp, lognormal_variance


class Poisson(Loss):
    """Poisson counts of mean e^f: g = e^f - y f + log y!.

    Reference: Jaakkola & Haussler (1999), Theorem 1, (26)-(27).

    Examples
    --------
    >>> mean, variance = Poisson().predict(0.0, 1.0)
    >>> round(float(mean), 4), round(float(variance), 4)
    (1.6487, 6.3195)
    """

    response: ClassVar[str] = "count"
    normalised: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        """Return e^f - y f + log y!."""
        return exp(f) - y * np.asarray(f) + special.gammaln(np.asarray(y) + 1.0)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return e^f - y, e^f and e^f."""
        y, f = np.broadcast_arrays(y, f)
        rate = exp(f)
        return rate - y, rate, rate

    def centers(self, y: Array) -> Array:
        """Return log(y + 1/2)."""
        return np.log(np.asarray(y, dtype=np.float64) + 0.5)[None]

    def width(self, y: Array) -> Array:
        """Return 1/sqrt(y + 1), the width of the likelihood."""
        return np.asarray(1.0 / np.sqrt(np.asarray(y) + 1.0))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.expected`: E e^f = e^{m + v/2}."""
        y, m, v = np.broadcast_arrays(y, m, v)
        rate = exp(m + 0.5 * v)
        return rate - y * m + special.gammaln(y + 1.0), rate - y, 0.5 * rate

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        """See :meth:`Loss.expected_higher`: every derivative of E e^f is itself."""
        rate = 2.0 * self.expected(y, m, v)[2]
        return rate, rate

    def conjugate(self, y: Array, u: Array) -> Array:
        """See :meth:`Loss.conjugate`: w log w - w - log y! for w = u + y >= 0."""
        w = np.asarray(u + y, dtype=np.float64)
        inside = np.maximum(w, 0.0)
        best = special.xlogy(inside, inside) - inside - special.gammaln(np.asarray(y) + 1.0)
        return np.asarray(np.where(w < 0.0, np.inf, best))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Return P(Y <= y | f), an incomplete gamma function of e^f."""
        return np.asarray(special.gammaincc(np.floor(y) + 1.0, exp(f)))

    def moments(self, f: Array) -> tuple[Array, Array]:
        """Return e^f twice."""
        rate = exp(f)
        return rate, rate

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean and variance of the Poisson-lognormal distribution."""
        mean = exp(m + 0.5 * np.asarray(v))
        return mean, mean + lognormal_variance(m, v)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return Poisson draws."""
        return np.asarray(rng.poisson(exp(f)), dtype=np.float64)
