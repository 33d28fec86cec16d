"""Sequential variational logistic regression, slow and obvious: (18)-(23) as printed, dense."""

from __future__ import annotations

import numpy as np


def lam(xi):
    return np.tanh(xi / 2) / (4 * xi) if xi > 0 else 1 / 8


def best_xi(M, kappa, S, w=1.0):
    """Return the fixed point of (23) by plain iteration."""
    xi = np.sqrt(kappa + (M + w * S * kappa / 2) ** 2)
    for _ in range(100000):
        q = 1 / (1 + 2 * w * lam(xi) * kappa)
        new = np.sqrt(q * kappa + q**2 * (M + w * S * kappa / 2) ** 2)
        if abs(new - xi) < 1e-15:
            break
        xi = new
    return xi


def recurrences(K, S, n, w=None):
    """Absorb the first n of all points; return mean and covariance of all, and what was met.

    K (N, N) is the Gram of training and new points together.
    """
    w = np.ones(n) if w is None else w
    K, M = K.copy(), np.zeros(len(K))
    met = {"xi": [], "M": [], "kappa": []}
    for t in range(n):
        kappa = K[t, t]
        xi = best_xi(M[t], kappa, S[t], w[t])
        for name, value in (("xi", xi), ("M", M[t]), ("kappa", kappa)):
            met[name].append(value)
        precision = 2 * w[t] * lam(xi)
        c = precision / (1 + precision * kappa)  # (20)
        M = M + c * (S[t] / (4 * lam(xi)) - M[t]) * K[:, t]  # (19)
        K = K - c * np.outer(K[:, t], K[t])  # (18)
    return M, K, {name: np.array(values) for name, values in met.items()}


def joint_bound(K, S, xi):
    """Return the bound on log P(S) for given xi (section 5 of the batch form)."""
    ls = np.array([lam(x) for x in xi])
    A = K + np.diag(1 / (2 * ls))
    mean = K @ np.linalg.solve(A, S / (4 * ls))
    value = np.sum(-np.log1p(np.exp(-xi)) - xi / 2 + ls * xi**2)
    value -= 0.5 * np.linalg.slogdet(A)[1] + 0.5 * np.log(2 * ls).sum()
    return value + 0.25 * S @ mean


def divergence(m, S, mean, cov):
    """Return KL(N(m, S) | N(mean, cov))."""
    inverse = np.linalg.inv(cov)
    d = m - mean
    terms = np.trace(inverse @ S) - len(m) + d @ inverse @ d
    return 0.5 * (terms + np.linalg.slogdet(cov)[1] - np.linalg.slogdet(S)[1])
