"""Counts and positive amounts with a log link: Poisson, negative binomial, gamma."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.losses.base import Loss, check_positive
from mercer.losses.numbers.special import exp, lognormal_variance, negative_entropy


class Poisson(Loss):
    """Poisson counts of mean e^f: g = e^f - y f + log y!.

    Reference: Jaakkola & Haussler (1999), Theorem 1, (26)-(27).

    Examples
    --------
    >>> round(float(Poisson().predict(0.0, 1.0)[0]), 4)
    1.6487
    """

    response: ClassVar[str] = "count"
    normalised: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return exp(f) - y * np.asarray(f) + special.gammaln(np.asarray(y) + 1.0)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        y, f = np.broadcast_arrays(y, f)
        rate = exp(f)
        return rate - y, rate, rate

    def centers(self, y: Array) -> Array:
        return np.log(np.asarray(y, dtype=np.float64) + 0.5)[None]

    def width(self, y: Array) -> Array:
        return np.asarray(1.0 / np.sqrt(np.asarray(y) + 1.0))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        y, m, v = np.broadcast_arrays(y, m, v)
        rate = exp(m + 0.5 * v)
        return rate - y * m + special.gammaln(y + 1.0), rate - y, 0.5 * rate

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        rate = 2.0 * self.expected(y, m, v)[2]
        return rate, rate

    def conjugate(self, y: Array, u: Array) -> Array:
        w = np.asarray(u + y, dtype=np.float64)
        inside = np.maximum(w, 0.0)
        best = special.xlogy(inside, inside) - inside - special.gammaln(np.asarray(y) + 1.0)
        return np.asarray(np.where(w < 0.0, np.inf, best))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        return np.asarray(special.gammaincc(np.floor(y) + 1.0, exp(f)))

    def moments(self, f: Array) -> tuple[Array, Array]:
        rate = exp(f)
        return rate, rate

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        mean = exp(m + 0.5 * np.asarray(v))
        return mean, mean + lognormal_variance(m, v)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return np.asarray(rng.poisson(exp(f)), dtype=np.float64)


class NegativeBinomial(Loss):
    """Overdispersed counts of mean e^f and variance e^f + e^{2f}/r.

    g = (y + r) log(1 + e^x) - y x + log B(r, y + 1) + log(r + y), x = f - log r: so arranged, large
    r loses no digits. Reference: Jaakkola & Haussler (1999), Theorem 1.

    Parameters
    ----------
    size : float, default=1.0; r, positive; as it grows, the loss tends to the Poisson loss.

    Examples
    --------
    >>> round(float(np.exp(-NegativeBinomial(size=2.0).value(0.0, 0.0))), 6)
    0.444444
    """

    response: ClassVar[str] = "count"
    normalised: ClassVar[bool] = True
    domains: ClassVar[Domains] = {"size": POSITIVE}
    words: ClassVar[Words] = {"size": "size: the smaller, the more counts vary beyond Poisson"}

    def __init__(self, size: float = 1.0) -> None:
        check_positive("NegativeBinomial", size=size)
        self.size = size

    def _parts(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        y, x = np.broadcast_arrays(np.asarray(y, dtype=np.float64), f - np.log(self.size))
        return y, x, np.asarray(special.betaln(self.size, y + 1.0) + np.log(self.size + y), float)

    def value(self, y: Array, f: Array) -> Array:
        y, x, constant = self._parts(y, f)
        return np.asarray((y + self.size) * np.logaddexp(0.0, x) - y * x + constant)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        y, x, _ = self._parts(y, f)
        up, down = (np.asarray(special.expit(z), dtype=np.float64) for z in (x, -x))
        d2 = (y + self.size) * up * down
        return self.size * up - y * down, d2, d2 * (down - up)

    def centers(self, y: Array) -> Array:
        """Return log r, where the logistic turns, and log(y + 1/2), where the likelihood sits."""
        y = np.asarray(y, dtype=np.float64)
        return np.array([np.full(y.shape, np.log(self.size)), np.log(y + 0.5)])

    def width(self, y: Array) -> Array:
        y = np.asarray(y, dtype=np.float64)
        return np.asarray(np.sqrt((1.0 + y + self.size) / ((1.0 + y) * (1.0 + self.size))))

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=np.float64), u)
        _, _, constant = self._parts(y, u)
        p = (u + y) / (y + self.size)
        best = (y + self.size) * negative_entropy(np.clip(p, 0.0, 1.0))
        best = best + u * np.log(self.size) - constant
        return np.asarray(np.where((p < 0.0) | (p > 1.0), np.inf, best))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        p = special.expit(np.log(self.size) - np.asarray(f))
        return np.asarray(special.betainc(self.size, np.floor(y) + 1.0, p))

    def moments(self, f: Array) -> tuple[Array, Array]:
        rate = exp(f)
        return rate, rate + exp(2.0 * np.asarray(f)) / self.size

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        m, v = np.broadcast_arrays(m, v)
        mean = exp(m + 0.5 * v)
        within = mean + exp(2.0 * m + 2.0 * v) / self.size
        return mean, within + lognormal_variance(m, v)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return Poisson draws whose rates are gamma draws."""
        rate = rng.gamma(self.size, exp(f) / self.size)
        return np.asarray(rng.poisson(rate), dtype=np.float64)


class Gamma(Loss):
    """Gamma distributed y > 0 of mean e^f: g = a f + a y e^-f - a log a - (a-1) log y + log G(a).

    Reference: Jaakkola & Haussler (1999), Theorem 1 (a is the shape, G the gamma function).

    Parameters
    ----------
    shape : float, default=1.0; a, positive; Var y = e^{2f}/a (a = 1: exponential distribution).

    Examples
    --------
    >>> float(Gamma(shape=1.0).value(2.0, 0.0))
    2.0
    """

    response: ClassVar[str] = "positive"
    normalised: ClassVar[bool] = True
    domains: ClassVar[Domains] = {"shape": POSITIVE}
    words: ClassVar[Words] = {"shape": "shape: the larger, the smaller the relative noise"}

    def __init__(self, shape: float = 1.0) -> None:
        check_positive("Gamma", shape=shape)
        self.shape = shape

    def _constant(self, y: Array) -> Array:
        a = self.shape
        return np.asarray(a * np.log(a) + special.xlogy(a - 1.0, y) - special.gammaln(a))

    def _ratio(self, y: Array, f: Array) -> Array:
        return exp(np.log(self.shape * np.asarray(y)) - f)

    def value(self, y: Array, f: Array) -> Array:
        return np.asarray(self.shape * f + self._ratio(y, f) - self._constant(y))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        t = self._ratio(y, f)
        return self.shape - t, t, -t

    def centers(self, y: Array) -> Array:
        return np.log(np.asarray(y, dtype=np.float64))[None]

    def width(self, y: Array) -> float:
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
        return np.asarray(special.gammainc(self.shape, self._ratio(y, f)))

    def moments(self, f: Array) -> tuple[Array, Array]:
        return exp(f), exp(2.0 * np.asarray(f)) / self.shape

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        m, v = np.broadcast_arrays(m, v)
        within = exp(2.0 * m + 2.0 * v) / self.shape
        return exp(m + 0.5 * v), within + lognormal_variance(m, v)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return np.asarray(rng.gamma(self.shape, exp(f) / self.shape))
