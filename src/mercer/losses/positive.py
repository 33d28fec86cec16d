"""Positive targets with a log link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domain
from mercer.losses.base import Loss, check_positive
from mercer.losses.numbers.special import exp, lognormal_variance


class Gamma(Loss):
    """Gamma distributed y > 0 of mean e^f: g = a f + a y e^-f - a log a - (a-1) log y + log G(a).

    Reference: Jaakkola & Haussler (1999), Theorem 1 (a is the shape, G the gamma function).

    Parameters
    ----------
    shape : float, default=1.0
        a, positive; the variance of y is e^{2f}/a (a = 1: exponential distribution).

    Examples
    --------
    >>> float(Gamma(shape=1.0).value(2.0, 0.0))
    2.0
    """

    response: ClassVar[str] = "positive"
    normalised: ClassVar[bool] = True
    domains: ClassVar[Mapping[str, Domain]] = {"shape": POSITIVE}
    words: ClassVar[Mapping[str, str]] = {
        "shape": "shape: the larger, the smaller the relative noise"
    }

    def __init__(self, shape: float = 1.0) -> None:
        check_positive("Gamma", shape=shape)
        self.shape = shape

    def _constant(self, y: Array) -> Array:
        """The terms of log p without f."""
        a = self.shape
        return np.asarray(a * np.log(a) + special.xlogy(a - 1.0, y) - special.gammaln(a))

    def _ratio(self, y: Array, f: Array) -> Array:
        """a y e^-f, inf rather than a warning beyond the floating range."""
        return exp(np.log(self.shape * np.asarray(y)) - f)

    def value(self, y: Array, f: Array) -> Array:
        """See the class."""
        return np.asarray(self.shape * f + self._ratio(y, f) - self._constant(y))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return a - a y e^-f, a y e^-f and minus that."""
        t = self._ratio(y, f)
        return self.shape - t, t, -t

    def centers(self, y: Array) -> Array:
        """Return log y."""
        return np.log(np.asarray(y, dtype=np.float64))[None]

    def width(self, y: Array) -> float:
        """Return the width of the likelihood, at most 1."""
        return float(1.0 / np.sqrt(1.0 + self.shape))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        y, m, v = np.broadcast_arrays(y, m, v)
        t = self._ratio(y, m - 0.5 * v)
        return self.shape * m + t - self._constant(y), self.shape - t, 0.5 * t

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        t = 2.0 * self.expected(y, m, v)[2]
        return -t, t

    def conjugate(self, y: Array, u: Array) -> Array:
        w = np.asarray(self.shape - u, dtype=np.float64)
        inside = np.maximum(w, 0.0)
        best = special.xlogy(inside, inside) - inside * (1.0 + np.log(self.shape * y))
        return np.asarray(np.where(w < 0.0, np.inf, best + self._constant(y)))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Return P(Y <= y | f), an incomplete gamma function."""
        return np.asarray(special.gammainc(self.shape, self._ratio(y, f)))

    def moments(self, f: Array) -> tuple[Array, Array]:
        """Return e^f and e^{2f}/a."""
        return exp(f), exp(2.0 * np.asarray(f)) / self.shape

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean e^{m + v/2} and variance of a new y."""
        m, v = np.broadcast_arrays(m, v)
        within = exp(2.0 * m + 2.0 * v) / self.shape
        return exp(m + 0.5 * v), within + lognormal_variance(m, v)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return gamma draws."""
        return np.asarray(rng.gamma(self.shape, exp(f) / self.shape))
