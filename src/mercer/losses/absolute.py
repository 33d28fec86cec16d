"""Losses of the absolute residual: Laplace noise and quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.component import POSITIVE, UNIT, Domain
from mercer.losses.base import check_positive, is_number
from mercer.losses.location import LocationLoss
from mercer.losses.piecewise import PiecewiseLinear
from mercer.losses.special import exp


class LaplaceNoise(PiecewiseLinear, LocationLoss):
    """Double exponential noise: g = |y - f| / b + log(2 b); f is the median of y.

    Reference: Jaakkola & Haussler (1999), Theorem 1 with psi = |y - z| / s.

    Parameters
    ----------
    scale : b > 0; the noise has variance 2 b^2.

    Examples
    --------
    >>> float(LaplaceNoise(scale=0.5).value(1.0, 3.0))
    4.0
    """

    domains: ClassVar[Mapping[str, Domain]] = {"scale": POSITIVE}

    def __init__(self, scale: float = 1.0) -> None:
        check_positive("LaplaceNoise", scale=scale)
        self.scale = scale

    def value(self, y: Array, f: Array) -> Array:
        """Return |y - f| / b + log(2 b)."""
        return np.asarray(np.abs(y - f) / self.scale + np.log(2.0 * self.scale))

    def pieces(self, y: Array) -> tuple[Array, Array]:
        """See :class:`PiecewiseLinear`."""
        b = np.full(np.shape(y), 1.0 / self.scale)
        return np.asarray(y, dtype=np.float64)[None], np.array([-b, b])

    def width(self, y: Array) -> float:
        """Return b."""
        return self.scale

    def noise_moments(self) -> tuple[float, float]:
        """Return 0 and 2 b^2."""
        return 0.0, 2.0 * self.scale**2

    def noise_cdf(self, r: Array) -> Array:
        """Return e^{r/b}/2 left of 0, and 1 minus its mirror image on the right."""
        tail = 0.5 * exp(-np.abs(r) / self.scale)
        return np.asarray(np.where(r < 0.0, tail, 1.0 - tail))

    def noise_quantile(self, p: Array) -> Array:
        """Return the inverse of :meth:`noise_cdf`."""
        return np.asarray(
            np.where(p < 0.5, np.log(2.0 * p), -np.log(2.0 * np.maximum(1.0 - p, 0.5**60)))
            * self.scale
        )


class Pinball(PiecewiseLinear, LocationLoss):
    """Quantile regression: g = rho(y - f) / s - log(q (1 - q) / s); f is the q-quantile of y.

    rho(r) = q r for r > 0, (q - 1) r for r < 0. exp(-g) is the asymmetric Laplace density; its
    predictive quantiles are those of that noise, not a model-free statement about y.
    Reference: Takeuchi, Le, Sears & Smola (2006); Koenker & Bassett (1978).

    Parameters
    ----------
    level : q, strictly between 0 and 1.
    scale : s > 0.

    Examples
    --------
    >>> loss = Pinball(level=0.9)
    >>> float(loss.derivatives(1.0, 0.0)[0]), round(float(loss.derivatives(0.0, 1.0)[0]), 6)
    (-0.9, 0.1)
    """

    domains: ClassVar[Mapping[str, Domain]] = {"scale": POSITIVE, "level": UNIT}

    def __init__(self, level: float = 0.5, scale: float = 1.0) -> None:
        check_positive("Pinball", scale=scale)
        if not is_number(level, 0.0, 1.0):
            raise ValueError(f"Pinball needs a level strictly between 0 and 1, not {level!r}")
        self.level = level
        self.scale = scale

    def value(self, y: Array, f: Array) -> Array:
        """Return rho(y - f)/s - log(q (1 - q)/s)."""
        q, s, r = self.level, self.scale, y - f
        return np.asarray(np.maximum(q * r, (q - 1.0) * r) / s - np.log(q * (1.0 - q) / s))

    def pieces(self, y: Array) -> tuple[Array, Array]:
        """See :class:`PiecewiseLinear`."""
        one = np.full(np.shape(y), 1.0 / self.scale)
        return np.asarray(y, dtype=np.float64)[None], np.array(
            [-self.level * one, (1.0 - self.level) * one]
        )

    def width(self, y: Array) -> float:
        """Return s."""
        return self.scale

    def noise_moments(self) -> tuple[float, float]:
        """Return the mean and variance of the asymmetric Laplace distribution."""
        q, s = self.level, self.scale
        p = q * (1.0 - q)
        return s * (1.0 - 2.0 * q) / p, s**2 * (1.0 - 2.0 * p) / p**2

    def noise_cdf(self, r: Array) -> Array:
        """Return q e^{(1-q) r/s} left of 0, 1 - (1-q) e^{-q r/s} right of it."""
        q, x = self.level, r / self.scale
        left = q * exp((1.0 - q) * np.minimum(x, 0.0))
        right = 1.0 - (1.0 - q) * exp(-q * np.maximum(x, 0.0))
        return np.asarray(np.where(x < 0.0, left, right))

    def noise_quantile(self, p: Array) -> Array:
        """Return the inverse of :meth:`noise_cdf`."""
        q = self.level
        left = np.log(np.minimum(p / q, 1.0)) / (1.0 - q)
        right = -np.log(np.clip((1.0 - p) / (1.0 - q), 0.5**60, 1.0)) / q
        return np.asarray(np.where(p < q, left, right) * self.scale)
