"""The quadratic bound on the logistic for one label and one Gaussian: its best xi, its value.

    sigma(z) >= sigma(xi) exp{(z - xi)/2 - l(xi) (z^2 - xi^2)},    l(xi) = tanh(xi/2)/(4 xi)

In plain numbers, not arrays: in a stream each label waits for the one before it.

Reference: Jaakkola & Haussler (1999), (8) with its sign corrected, (14), (23).
"""

from __future__ import annotations

import math


def curvature(xi: float) -> float:
    """Return l(xi) = tanh(xi/2)/(4 xi), 1/8 at zero."""
    if xi < 0.01:
        t = xi * xi
        return 1 / 8 - t * (1 / 96 - t * (1 / 960 - t * 17 / 161280))
    return math.tanh(0.5 * xi) / (4.0 * xi)


def curvature_slope(xi: float) -> float:
    """Return dl/dxi = (1/2 sech^2(xi/2) - tanh(xi/2)/xi)/(4 xi), by its series near zero."""
    if xi < 0.1:  # the two terms cancel
        t = xi * xi
        return -xi * (1 / 48 - t * (1 / 240 - t * (17 / 26880 - t * 31 / 362880)))
    half = math.tanh(0.5 * xi)
    return (0.5 * (1.0 - half * half) - half / xi) / (4.0 * xi)


def best_xi(M: float, kappa: float, S: float, w: float) -> float:
    """Return the xi >= 0 whose bound on the label S of weight w is largest for f ~ N(M, kappa).

    The root of xi^2 = q kappa + q^2 (M + w S kappa/2)^2, q = 1/(1 + 2 w l(xi) kappa): (23), with w
    equal examples in place of one. Newton within a bracket: plain iteration needs hundreds of
    steps for a vague prior.
    """
    if kappa == 0.0:
        return abs(M)
    centre = M + 0.5 * w * S * kappa
    low, high = 0.0, math.sqrt(kappa + centre * centre)  # the right side at l = 0
    xi = high
    for _ in range(200):  # Newton's step, or the middle of the bracket where it leaves that
        lam, slope = curvature(xi), curvature_slope(xi)
        q = 1.0 / (1.0 + 2.0 * w * lam * kappa)
        root = math.sqrt(q * kappa + (q * centre) ** 2)
        excess = root - xi
        if excess >= 0.0:
            low = xi
        else:
            high = xi
        growth = -(kappa + 2.0 * q * centre * centre) * q * q * w * kappa * slope / root
        new = xi + excess / (1.0 - growth) if growth < 1.0 else 0.5 * (low + high)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - xi) <= 4e-16 * new:
            return new
        xi = new
    return xi


def log_bound(M: float, kappa: float, S: float, w: float, xi: float) -> float:
    """Return the log of the lower bound on E[sigma(S f)^w], f ~ N(M, kappa), at xi.

    The closed form of (14); no division by kappa. At w = 1 and the best xi it is log q(S), and the
    sum over a stream is a lower bound on the log evidence.

    Examples
    --------
    >>> round(math.exp(log_bound(0.0, 0.0, 1.0, 1.0, 0.0)), 6)
    0.5
    """
    lam = curvature(xi)
    d = 1.0 + 2.0 * w * lam * kappa
    own = -math.log1p(math.exp(-xi)) - 0.5 * xi + lam * xi * xi
    moved = w * S * M + 0.25 * w * w * kappa - 2.0 * w * lam * M * M
    return w * own - 0.5 * math.log(d) + moved / (2.0 * d)
