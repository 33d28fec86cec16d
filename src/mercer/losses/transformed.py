"""Positive quantities of which the logarithm, or a power, has Gaussian noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, UNIT, Domains, Words
from mercer.losses.base import Loss, check_levels, check_positive, checked, is_number
from mercer.losses.numbers.special import LOG_2PI, exp, lognormal_variance

NODES = 48  # of the Gauss-Hermite rule for the mean and the variance of y


class TransformedGaussian(Loss):
    """Positive y of which an increasing t(y) has Gaussian noise: t(y) = f + e, e ~ N(0, noise).

        g = (t - f)^2 / (2 noise) + log(2 pi noise) / 2 - log(dt/dy)

    is a density of y itself where t takes every real value, so that evidence and left-out densities
    compare with those of other losses of y. A child states t, its inverse and the logarithm of its
    slope. Laplace inference is exact, g being a quadratic in f. All of the probability is on y > 0,
    and the density tends to zero at y = 0: a new y there or below has the log density -inf.
    """

    abstract: ClassVar[bool] = True
    noise: float
    response: ClassVar[str] = "positive"
    normalised: ClassVar[bool] = True

    @abstractmethod
    def transformed(self, y: Array) -> Array:
        """Return t(y)."""

    @abstractmethod
    def _inverse(self, t: Array) -> Array:
        """Return the y of which t(y) is given."""

    @abstractmethod
    def _slope(self, y: Array) -> Array:
        """Return log(dt/dy)."""

    def _constant(self) -> float:
        return float(0.5 * (LOG_2PI + np.log(self.noise)))

    def value(self, y: Array, f: Array) -> Array:
        r = self.transformed(y) - f
        return np.asarray(0.5 * np.square(r) / self.noise + self._constant() - self._slope(y))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        r = np.asarray(f - self.transformed(y))
        return r / self.noise, np.ones_like(r) / self.noise, np.zeros_like(r)

    def centers(self, y: Array) -> Array:
        return self.transformed(y)[None]

    def width(self, y: Array) -> float:
        return float(np.sqrt(self.noise))

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        total = np.asarray(v + self.noise)
        r, total = np.broadcast_arrays(self.transformed(y) - m, total)
        log_z = -0.5 * (np.square(r) / total + LOG_2PI + np.log(total)) + self._slope(y)
        return log_z, r / total, -1.0 / total

    def check_new_targets(self, y: Any) -> Array:
        return checked(y, "real", type(self).__name__)

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        """Return log p(y) of a new y whose latent value is N(m, v); -inf where y <= 0."""
        y = np.asarray(y, dtype=np.float64)
        inside = y > 0.0
        return np.where(inside, self.tilted(np.where(inside, y, 1.0), m, v)[0], -np.inf)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        d1, d2, _ = self.derivatives(y, m)
        d1, d2, v = np.broadcast_arrays(d1, d2, v)
        return self.value(y, m) + 0.5 * v * d2, d1, 0.5 * d2

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        shape = np.broadcast_shapes(np.shape(y), np.shape(m), np.shape(v))
        return np.zeros(shape), np.zeros(shape)

    def conjugate(self, y: Array, u: Array) -> Array:
        quadratic = u * self.transformed(y) + 0.5 * self.noise * np.square(u)
        return np.asarray(quadratic - self._constant() + self._slope(y))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        return self.cdf(y, f, np.asarray(0.0))

    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        y = np.asarray(y, dtype=np.float64)
        inside = y > 0.0
        z = (self.transformed(np.where(inside, y, 1.0)) - m) / np.sqrt(v + self.noise)
        return np.where(inside, special.ndtr(z), 0.0)

    def quantile(self, q: Array, m: Array, v: Array) -> Array:
        check_levels(np.asarray(q))
        return self._inverse(np.asarray(m + np.sqrt(v + self.noise) * special.ndtri(q)))

    def moments(self, f: Array) -> tuple[Array, Array]:
        return self.predict(f, np.zeros_like(f))

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean and variance of a new y, by a Gauss-Hermite rule of 48 nodes."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = weights / weights.sum()
        m, std = np.broadcast_arrays(np.asarray(m, dtype=np.float64), np.sqrt(v + self.noise))
        y = self._inverse(m[..., None] + std[..., None] * nodes)
        mean = y @ weights
        return mean, np.square(y - mean[..., None]) @ weights

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self._inverse(f + np.sqrt(self.noise) * rng.standard_normal(np.shape(f)))


class LogGaussian(TransformedGaussian):
    """Positive y whose logarithm is f with Gaussian noise: log y = f + e, e ~ N(0, noise).

    g = (log y - f)^2 / (2 noise) + log(2 pi noise) / 2 + log y: a density of y itself, so that its
    evidence and left-out densities compare with those of other losses of y. Laplace inference is
    exact, g being a quadratic in f.
    Reference: Johnson, Kotz & Balakrishnan (1994), chapter 14.

    Parameters
    ----------
    noise : float, default=1.0; positive variance of log y; its root is about the relative error.

    Examples
    --------
    >>> low, high = (float(LogGaussian(0.04).quantile(q, 0.0, 0.0)) for q in (0.05, 0.95))
    >>> round(low, 3), round(high, 3)
    (0.72, 1.39)
    """

    domains: ClassVar[Domains] = {"noise": POSITIVE}
    words: ClassVar[Words] = {"noise": "noise variance of the logarithm of one observation"}

    def __init__(self, noise: float = 1.0) -> None:
        check_positive("LogGaussian", noise=noise)
        self.noise = noise

    def transformed(self, y: Array) -> Array:
        return np.log(np.asarray(y, dtype=np.float64))

    def _inverse(self, t: Array) -> Array:
        return exp(t)

    def _slope(self, y: Array) -> Array:
        return -np.log(y)

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean and variance of a new y, those of a log-normal."""
        total = v + self.noise
        return exp(m + 0.5 * total), lognormal_variance(m, total)


class BoxCox(TransformedGaussian):
    """Positive y of which a power has Gaussian noise, t(y) = f + e, e ~ N(0, noise).

    With u = log(y / unit) and the power p, in its dual form,

        t(y) = ((y / unit)^p - (y / unit)^-p) / (2 p) = sinh(p u) / p,

    which tends to the logarithm as p goes to zero and is a line in y, up to a reciprocal, at p = 1.
    Box and Cox's own ((y / unit)^p - 1) / p has no values below -1 / p, so that Gaussian noise
    about it is no density of y; this one takes every real value, and

        g = (t - f)^2 / (2 noise) + log(2 pi noise) / 2 - log(dt/dy)

    is one, to be compared with those of other losses of y. Laplace inference is exact, g being a
    quadratic in f.
    References: Box & Cox (1964); Yang (2006), A modified family of power transformations.

    Parameters
    ----------
    power : float, default=0.5; p, between 0 and 1.
    noise : float, default=1.0; positive variance of t(y).
    unit : float, default=1.0; positive, in units of y: about the middle of the values; of a loss by
        name their geometric mean. It is not searched.

    Examples
    --------
    >>> low, high = (float(BoxCox(0.5, 0.04).quantile(q, 0.0, 0.0)) for q in (0.05, 0.95))
    >>> round(low, 3), round(high, 3)
    (0.721, 1.388)
    """

    domains: ClassVar[Domains] = {"power": UNIT, "noise": POSITIVE}
    units: ClassVar[Mapping[str, float]] = {"unit": 1.0}  # t has none
    words: ClassVar[Words] = {
        "power": "power of the target: near 0 its logarithm, near 1 itself",
        "noise": "noise variance of the transformed target",
    }

    def __init__(self, power: float = 0.5, noise: float = 1.0, unit: float = 1.0) -> None:
        check_positive("BoxCox", noise=noise, unit=unit)
        if not is_number(power, 0.0, np.nextafter(1.0, 2.0)):
            raise ValueError(f"BoxCox needs a power between 0 and 1, not {power!r}")
        self.power, self.noise, self.unit = power, noise, unit

    def transformed(self, y: Array) -> Array:
        return np.asarray(np.sinh(self.power * self._log(y)) / self.power)

    def _log(self, y: Array) -> Array:
        return np.log(np.asarray(y, dtype=np.float64) / self.unit)

    def _inverse(self, t: Array) -> Array:
        return self.unit * exp(np.arcsinh(self.power * np.asarray(t)) / self.power)

    def _slope(self, y: Array) -> Array:
        """Return log(dt/dy) = log cosh(p u) - log y, stable where p u is large."""
        x = np.abs(self.power * self._log(y))
        return np.asarray(x + np.log1p(np.exp(-2.0 * x)) - np.log(2.0) - np.log(y))
