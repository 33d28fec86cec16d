"""The unknown level of a noise, and how well a stream of quantities was foreseen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from mercer.core.arrays import Array
from mercer.losses.numbers.special import LOG_2PI

VAGUE = 2.0  # a and b before any row: s^2 is about one, to a factor of a few


@dataclass(frozen=True)
class NoiseLevel:
    """s^2 ~ inverse gamma(a, b) in f ~ GP(0, s^2 k), y = f + e, e ~ N(0, s^2 noise).

    A new y is Student t with 2 a degrees of freedom, of scale^2 (b / a)(var + noise). If it is
    ``known``, s^2 = 1, and y is Gaussian. Theory (O19).
    """

    a: float = VAGUE
    b: float = VAGUE
    known: bool = False

    @property
    def level(self) -> float:
        """The squared scale of a new y, as a multiple of what a scale of one says."""
        return 1.0 if self.known else self.b / self.a

    @property
    def spread(self) -> float:
        """Its variance, as such a multiple; infinite up to two degrees of freedom."""
        if self.known:
            return 1.0
        return self.b / (self.a - 1.0) if self.a > 1.0 else np.inf

    def given(self, weight: float, quad: float) -> NoiseLevel:
        """Return it given rows of so much weight, whose innovations have the square sum quad."""
        return replace(self, a=self.a + 0.5 * weight, b=self.b + 0.5 * quad)

    def forget(self, kept: float) -> NoiseLevel:
        """Return it with what was learned counting ``kept`` of what it did."""
        a, b = VAGUE + kept * (self.a - VAGUE), VAGUE + kept * (self.b - VAGUE)
        return replace(self, a=a, b=b)

    def log_joint(self, weight: float, quad: float, logdet: float) -> float:
        """Return the log density of rows with such innovations, log|S| = logdet."""
        if self.known:
            return -0.5 * (weight * LOG_2PI + logdet + quad)
        n, a, b = 0.5 * weight, self.a, self.b
        power = (a + n) * np.log1p(0.5 * quad / b)
        constant = gammaln(a + n) - gammaln(a) - n * (LOG_2PI + np.log(b))
        return float(constant - power - 0.5 * logdet)

    def log_density(self, r: Array, var: Array) -> Array:
        """Return the log density (q,) of y at distance r from its mean, var = var(f) + noise."""
        if self.known:
            return np.asarray(-0.5 * (LOG_2PI + np.log(var) + r * r / var))
        a, b = self.a, self.b
        constant = gammaln(a + 0.5) - gammaln(a) - 0.5 * (LOG_2PI + np.log(b))
        power = (a + 0.5) * np.log1p(0.5 * r * r / (b * var))
        return np.asarray(constant - power - 0.5 * np.log(var))

    def quantile(self, level: float, mean: Array, var: Array) -> Array:
        """Return the quantile (q,) of y."""
        # a million degrees are a Gaussian to 1e-6
        degrees = 1e6 if self.known else min(2.0 * self.a, 1e6)
        return np.asarray(mean + np.sqrt(self.level * var) * stdtrit(degrees, level))

    def cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Return P(Y <= y), (q,)."""
        degrees = 1e6 if self.known else min(2.0 * self.a, 1e6)
        return np.asarray(stdtr(degrees, (y - mean) / np.sqrt(self.level * var)))


@dataclass(frozen=True)
class PrequentialValues:
    """Running sums over a stream whose rows are predicted before they are learned."""

    weight: float = 0.0  # of the rows so far
    log_density_sum: float = 0.0
    square_sum: float = 0.0  # of y less its predicted mean, in the user's units

    @property
    def nlpd(self) -> float:
        """Mean of -log p(y) before each update; NaN before the first."""
        return -self.log_density_sum / self.weight if self.weight else float("nan")

    @property
    def rmse(self) -> float:
        """Root of the mean squared error before each update; NaN before the first."""
        return float(np.sqrt(self.square_sum / self.weight)) if self.weight else float("nan")

    def add(self, log_density: Array, error: Array, w: Array) -> PrequentialValues:
        """Return the figures with b further rows: log densities, errors and weights (b,).

        Examples
        --------
        >>> import numpy as np
        >>> PrequentialValues().add(np.zeros(2), np.array([3.0, 4.0]), np.ones(2)).rmse ** 2
        12.500000000000002
        """
        return PrequentialValues(
            self.weight + float(w.sum()),
            self.log_density_sum + float(w @ log_density),
            self.square_sum + float(w @ (error * error)),
        )
