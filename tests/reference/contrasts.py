"""Universal kriging again, slow and obvious: explicit contrasts, nothing merged, no spectrum."""

from __future__ import annotations

import numpy as np


def kriging(K, noise, H, y, Ks, Kss, Hs):
    """Mean and covariance at new points for a K (n, n) that is positive on contrasts only.

    The best linear unbiased predictor: weights w that minimise the variance of f(x) - w'y among
    those with H'w = h(x), by the Lagrange system [K + N, H; H', 0].
    """
    n, k = H.shape
    system = np.block([[K + np.diag(noise), H], [H.T, np.zeros((k, k))]])
    w = np.linalg.solve(system, np.vstack([Ks, Hs.T]))[:n]
    cov = Kss - w.T @ Ks - Ks.T @ w + w.T @ (K + np.diag(noise)) @ w
    return w.T @ y, cov


def smoother(K, noise, H):
    """The matrix (n, n) that maps y to the fitted values."""
    n, k = H.shape
    system = np.block([[K + np.diag(noise), H], [H.T, np.zeros((k, k))]])
    return np.linalg.solve(system, np.vstack([K, H.T]))[:n].T


def titsias(K, Kz, Kzz, noise, H, y):
    """Lower bound of the log evidence with a flat basis, all matrices explicit: K is proper here.

    log N(y | H beta, Q + N) integrated over beta, less the trace of N^-1 (K - Q) / 2.
    """
    from tests.reference import gp

    Q = Kz.T @ np.linalg.pinv(Kzz, rcond=1e-13) @ Kz
    Ky = Q + np.diag(noise)
    return gp.log_evidence(Ky, y, H) - 0.5 * np.sum(np.diagonal(K - Q) / noise)
