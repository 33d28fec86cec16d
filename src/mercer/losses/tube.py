"""The insensitive tube of support vector regression; theory (S2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.component import POSITIVE, Domain
from mercer.losses.base import check_positive, is_number
from mercer.losses.location import LocationLoss
from mercer.losses.piecewise import PiecewiseLinear
from mercer.losses.special import exp


class EpsilonInsensitive(PiecewiseLinear, LocationLoss):
    """The tube of support vector regression: g = C (|y - f| - eps)_+ + log(2 (1 + C eps) / C).

    The constant normalises exp(-g), and does not depend on f (unlike the hinge's).
    Reference: GPML section 6.4.2 and (6.41).

    Parameters
    ----------
    C : slope outside the tube, > 0.
    epsilon : half width of the tube, >= 0 (0: Laplace noise of scale 1/C).

    Examples
    --------
    >>> loss = EpsilonInsensitive(C=2.0, epsilon=0.1)
    >>> round(float(loss.value(0.0, 1.1) - loss.value(0.0, 0.05)), 6)
    2.0
    """

    domains: ClassVar[Mapping[str, Domain]] = {"C": POSITIVE}

    def __init__(self, C: float = 1.0, epsilon: float = 0.1) -> None:
        check_positive("EpsilonInsensitive", C=C)
        if not (epsilon == 0.0 or is_number(epsilon, 0.0, np.inf)):
            raise ValueError(f"EpsilonInsensitive needs epsilon >= 0, not {epsilon!r}")
        self.C = C
        self.epsilon = epsilon

    def value(self, y: Array, f: Array) -> Array:
        """Return C (|y - f| - eps)_+ plus the log of the normaliser."""
        constant = np.log(2.0 * (1.0 + self.C * self.epsilon) / self.C)
        return np.asarray(self.C * np.maximum(np.abs(y - f) - self.epsilon, 0.0) + constant)

    def pieces(self, y: Array) -> tuple[Array, Array]:
        """See :class:`PiecewiseLinear`."""
        C, y = np.full(np.shape(y), float(self.C)), np.asarray(y, dtype=np.float64)
        if self.epsilon == 0.0:
            return y[None], np.array([-C, C])
        return np.array([y - self.epsilon, y + self.epsilon]), np.array([-C, 0.0 * C, C])

    def width(self, y: Array) -> float:
        """Return 1/C."""
        return 1.0 / self.C

    def centers(self, y: Array) -> Array:
        """Return the two edges of the tube."""
        return self.kinks(y)

    def noise_moments(self) -> tuple[float, float]:
        """Return 0 and the variance of the flat top with exponential tails."""
        b, e = 1.0 / self.C, self.epsilon
        return 0.0, (e**3 / 3.0 + b * (e**2 + 2.0 * e * b + 2.0 * b**2)) / (b + e)

    def noise_cdf(self, r: Array) -> Array:
        """Return the distribution function of y - f."""
        b, e = 1.0 / self.C, self.epsilon
        tail = 0.5 * b / (b + e) * exp(-np.maximum(np.abs(r) - e, 0.0) / b)
        middle = 0.5 + 0.5 * np.clip(r, -e, e) / (b + e)
        outer = np.where(r < 0.0, tail, 1.0 - tail)
        return np.asarray(np.where(np.abs(r) < e, middle, outer))

    def noise_quantile(self, p: Array) -> Array:
        """Return the inverse of :meth:`noise_cdf`."""
        b, e = 1.0 / self.C, self.epsilon
        tail = 0.5 * b / (b + e)
        small = np.maximum(np.minimum(p, 1.0 - p), 0.5**60)
        outer = np.sign(p - 0.5) * (e - b * np.log(np.minimum(small / tail, 1.0)))
        return np.asarray(np.where(small < tail, outer, (2.0 * p - 1.0) * (b + e)))
