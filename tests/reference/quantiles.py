"""Quantiles of a new y the slow way: bisection of the distribution function, row by row."""

from __future__ import annotations

import numpy as np
from scipy import integrate, stats


def bisected(loss: object, q: float, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the q-quantile of y for f ~ N(m, v) from ``loss.cdf``, to 1e-15 of the width."""
    reach = np.sqrt(v) + loss.width(m)
    low, high = m - reach, m + reach
    while np.any(loss.cdf(low, m, v) > q):
        low = m - 2.0 * (m - low)
    while np.any(loss.cdf(high, m, v) < q):
        high = m + 2.0 * (high - m)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = loss.cdf(middle, m, v) < q
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def student_cdf(y: float, scale: float, df: float, m: float, v: float) -> float:
    """P(Y <= y) for Y = f + scale t by adaptive quadrature over the noise, no code of mercer."""
    noise = stats.t(df, scale=scale)

    def inside(u: float) -> float:  # u is the probability of the noise
        return float(stats.norm.cdf((y - m - noise.ppf(u)) / np.sqrt(v)))

    found = integrate.quad(inside, 0.0, 1.0, epsabs=1e-13, epsrel=1e-13, limit=2000)
    return float(found[0])
