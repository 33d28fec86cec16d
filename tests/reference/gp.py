"""Gaussian process regression again, slow and obvious: dense inverses, one row at a time.

H is (n, k) here, one row per point; every observation has its own row, nothing is merged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import multivariate_normal, norm

Function = Callable[[np.ndarray], float]


def posterior(Ky, Ks, Kss, y, H=None, Hs=None, width=np.inf):
    """Mean and covariance of the signal at new points: GPML (2.25), (2.26), (2.41), (2.42).

    Ky (n, n) prior plus noise, Ks (n, q) signal between data and new points, Kss (q, q). The
    coefficients of H have the prior N(0, width I).
    """
    Ci = np.linalg.inv(Ky)
    if H is None:
        return Ks.T @ Ci @ y, Kss - Ks.T @ Ci @ Ks
    A = H.T @ Ci @ H + np.eye(H.shape[1]) / width
    beta = np.linalg.solve(A, H.T @ Ci @ y)
    R = Hs.T - H.T @ Ci @ Ks
    mean = Ks.T @ Ci @ (y - H @ beta) + Hs @ beta
    return mean, Kss - Ks.T @ Ci @ Ks + R.T @ np.linalg.solve(A, R)


def log_evidence(Ky, y, H=None):
    """log N(y | 0, Ky), or with a flat prior on the coefficients of H: the literal (2.45)."""
    if H is None:
        return float(multivariate_normal(np.zeros(len(y)), Ky).logpdf(y))
    n, k = H.shape
    Ci = np.linalg.inv(Ky)
    A = H.T @ Ci @ H
    P = Ci - Ci @ H @ np.linalg.inv(A) @ H.T @ Ci
    logdets = np.linalg.slogdet(Ky)[1] + np.linalg.slogdet(A)[1]
    return float(-0.5 * y @ P @ y - 0.5 * logdets - 0.5 * (n - k) * np.log(2 * np.pi))


def contrasts(Ky, y, H):
    """The same evidence by the density of orthonormal contrasts (REML) and its constant."""
    Q, R = np.linalg.qr(H, mode="complete")
    Z = Q[:, H.shape[1] :]
    density = multivariate_normal(np.zeros(Z.shape[1]), Z.T @ Ky @ Z).logpdf(Z.T @ y)
    return float(density) - np.log(np.abs(np.diagonal(R))).sum()


def leave_one_out(Ky, y, H=None):
    """Mean, variance and log density of every y_i from a fit to all the others."""
    mean, variance = np.empty(len(y)), np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        Ks, Kss = Ky[np.ix_(rest, ~rest)], Ky[np.ix_(~rest, ~rest)]
        basis = (None, None) if H is None else (H[rest], H[~rest])
        m, v = posterior(Ky[np.ix_(rest, rest)], Ks, Kss, y[rest], *basis)
        mean[i], variance[i] = m[0], v[0, 0]
    return mean, variance, norm(mean, np.sqrt(variance)).logpdf(y)


def slope(function: Function, u: np.ndarray, step: float = 2e-3) -> np.ndarray:
    """Five-point differences of a function of u (p,)."""
    result = np.empty(len(u))
    for i, e in enumerate(np.eye(len(u))):
        a, b, c, d = (function(u + k * step * e) for k in (-2, -1, 1, 2))
        result[i] = (a - 8 * b + 8 * c - d) / (12 * step)
    return result


def richardson(function: Function, u: np.ndarray, step: float = 4e-3) -> np.ndarray:
    """Five-point differences at two steps, extrapolated: error of order step^6."""
    return (16 * slope(function, u, step / 2) - slope(function, u, step)) / 15
