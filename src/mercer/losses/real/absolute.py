"""Losses of the absolute residual: Laplace noise, quantiles, insensitive tube; theory (S2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.losses.base import check_positive, is_number
from mercer.losses.numbers.special import exp
from mercer.losses.real.base import LocationLoss, PiecewiseLinear


class LaplaceNoise(PiecewiseLinear, LocationLoss):
    """Double exponential noise: g = |y - f| / b + log(2 b); f is the median of y.

    Reference: Jaakkola & Haussler (1999), Theorem 1 with psi = |y - z| / s.

    Parameters
    ----------
    scale : float, default=1.0; b, positive, in the units of y; the noise has variance 2 b^2.

    Examples
    --------
    >>> float(LaplaceNoise(scale=0.5).value(1.0, 3.0))
    4.0
    """

    domains: ClassVar[Domains] = {"scale": POSITIVE}
    units: ClassVar[dict[str, float]] = {"scale": 1.0}
    words: ClassVar[Words] = {"scale": "mean absolute deviation of one observation"}

    def __init__(self, scale: float = 1.0) -> None:
        check_positive("LaplaceNoise", scale=scale)
        self.scale = scale

    def value(self, y: Array, f: Array) -> Array:
        return np.asarray(np.abs(y - f) / self.scale + np.log(2.0 * self.scale))

    def pieces(self, y: Array) -> tuple[Array, Array]:
        b = np.full(np.shape(y), 1.0 / self.scale)
        return np.asarray(y, dtype=np.float64)[None], np.array([-b, b])

    def width(self, y: Array) -> float:
        return self.scale

    def noise_moments(self) -> tuple[float, float]:
        return 0.0, 2.0 * self.scale**2

    def noise_cdf(self, r: Array) -> Array:
        tail = 0.5 * exp(-np.abs(r) / self.scale)
        return np.asarray(np.where(r < 0.0, tail, 1.0 - tail))

    def noise_quantile(self, p: Array) -> Array:
        right = -np.log(2.0 * np.maximum(1.0 - p, 0.5**60))
        return np.asarray(np.where(p < 0.5, np.log(2.0 * p), right) * self.scale)


class Pinball(PiecewiseLinear, LocationLoss):
    """Quantile regression: g = rho(y - f) / s - log(q (1 - q) / s); f is the q-quantile of y.

    rho(r) = q r for r > 0, else (q - 1) r. exp(-g) is the asymmetric Laplace density. Machines with
    this loss predict f; no search moves the level, which is asked for and not learned.
    Reference: Takeuchi, Le, Sears & Smola (2006); Koenker & Bassett (1978).

    Parameters
    ----------
    level : float, default=0.5; q, the level of the quantile, strictly between 0 and 1.
    scale : float, default=1.0; s, positive, in the units of y.

    Examples
    --------
    >>> float(Pinball(level=0.9).derivatives(1.0, 0.0)[0])
    -0.9
    """

    domains: ClassVar[Domains] = {"scale": POSITIVE}
    units: ClassVar[dict[str, float]] = {"scale": 1.0}
    words: ClassVar[Words] = {"scale": "scale of the noise"}
    latent_is_answer: ClassVar[bool] = True

    def __init__(self, level: float = 0.5, scale: float = 1.0) -> None:
        check_positive("Pinball", scale=scale)
        if not is_number(level, 0.0, 1.0):
            raise ValueError(f"Pinball needs a level strictly between 0 and 1, not {level!r}")
        self.level, self.scale = level, scale

    def value(self, y: Array, f: Array) -> Array:
        q, s, r = self.level, self.scale, y - f
        return np.asarray(np.maximum(q * r, (q - 1.0) * r) / s - np.log(q * (1.0 - q) / s))

    def pieces(self, y: Array) -> tuple[Array, Array]:
        one, q = np.full(np.shape(y), 1.0 / self.scale), self.level
        return np.asarray(y, dtype=np.float64)[None], np.array([-q * one, (1.0 - q) * one])

    def width(self, y: Array) -> float:
        return self.scale

    def noise_moments(self) -> tuple[float, float]:
        """Return the mean and variance of the asymmetric Laplace distribution."""
        q, s = self.level, self.scale
        p = q * (1.0 - q)
        return s * (1.0 - 2.0 * q) / p, s**2 * (1.0 - 2.0 * p) / p**2

    def noise_cdf(self, r: Array) -> Array:
        q, x = self.level, r / self.scale
        left = q * exp((1.0 - q) * np.minimum(x, 0.0))
        right = 1.0 - (1.0 - q) * exp(-q * np.maximum(x, 0.0))
        return np.asarray(np.where(x < 0.0, left, right))

    def noise_quantile(self, p: Array) -> Array:
        q = self.level
        left = np.log(np.minimum(p / q, 1.0)) / (1.0 - q)
        right = -np.log(np.clip((1.0 - p) / (1.0 - q), 0.5**60, 1.0)) / q
        return np.asarray(np.where(p < q, left, right) * self.scale)


class EpsilonInsensitive(PiecewiseLinear, LocationLoss):
    """The tube of support vector regression: g = C (|y - f| - eps)_+ + log(2 (1 + C eps) / C).

    The constant normalises exp(-g), and does not depend on f (unlike the hinge's).
    Reference: GPML section 6.4.2 and (6.41).

    Parameters
    ----------
    C : float, default=1.0; positive slope outside the tube, in inverse units of y.
    epsilon : float, default=0.1; half width of the tube, >= 0, in units of y (0: Laplace noise).

    Examples
    --------
    >>> loss = EpsilonInsensitive(C=2.0, epsilon=0.1)
    >>> round(float(loss.value(0.0, 1.1) - loss.value(0.0, 0.05)), 6)
    2.0
    """

    domains: ClassVar[Domains] = {"C": POSITIVE}
    units: ClassVar[dict[str, float]] = {"C": -1.0, "epsilon": 1.0}
    words: ClassVar[Words] = {"C": "weight of a residual outside the tube"}

    def __init__(self, C: float = 1.0, epsilon: float = 0.1) -> None:
        check_positive("EpsilonInsensitive", C=C)
        if not (epsilon == 0.0 or is_number(epsilon, 0.0, np.inf)):
            raise ValueError(f"EpsilonInsensitive needs epsilon >= 0, not {epsilon!r}")
        self.C, self.epsilon = C, epsilon

    def value(self, y: Array, f: Array) -> Array:
        constant = np.log(2.0 * (1.0 + self.C * self.epsilon) / self.C)
        return np.asarray(self.C * np.maximum(np.abs(y - f) - self.epsilon, 0.0) + constant)

    def pieces(self, y: Array) -> tuple[Array, Array]:
        C, y = np.full(np.shape(y), float(self.C)), np.asarray(y, dtype=np.float64)
        if self.epsilon == 0.0:
            return y[None], np.array([-C, C])
        return np.array([y - self.epsilon, y + self.epsilon]), np.array([-C, 0.0 * C, C])

    def width(self, y: Array) -> float:
        return 1.0 / self.C

    def noise_moments(self) -> tuple[float, float]:
        b, e = 1.0 / self.C, self.epsilon
        return 0.0, (e**3 / 3.0 + b * (e**2 + 2.0 * e * b + 2.0 * b**2)) / (b + e)

    def noise_cdf(self, r: Array) -> Array:
        b, e = 1.0 / self.C, self.epsilon
        tail = 0.5 * b / (b + e) * exp(-np.maximum(np.abs(r) - e, 0.0) / b)
        middle = 0.5 + 0.5 * np.clip(r, -e, e) / (b + e)
        outer = np.where(r < 0.0, tail, 1.0 - tail)
        return np.asarray(np.where(np.abs(r) < e, middle, outer))

    def noise_quantile(self, p: Array) -> Array:
        b, e = 1.0 / self.C, self.epsilon
        tail = 0.5 * b / (b + e)
        small = np.maximum(np.minimum(p, 1.0 - p), 0.5**60)
        outer = np.sign(p - 0.5) * (e - b * np.log(np.minimum(small / tail, 1.0)))
        return np.asarray(np.where(small < tail, outer, (2.0 * p - 1.0) * (b + e)))
