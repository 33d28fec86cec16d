"""The quadratic bound, slow and obvious: EM with dense inverses, as written in the paper."""

from __future__ import annotations

import numpy as np


def em(K, S, steps=5000, tol=1e-13, record=None):
    """Return xi, mean, covariance and E for labels S = -1 or +1 (Jaakkola & Haussler, batch)."""
    xi = np.sqrt(np.diag(K))
    for _ in range(steps):
        lam = np.tanh(xi / 2) / (4 * xi)
        A = K + np.diag(1 / (2 * lam))
        inverse = np.linalg.inv(A)
        mean = K @ inverse @ (S / (4 * lam))
        covariance = K - K @ inverse @ K
        E = np.sum(-np.log1p(np.exp(-xi)) - xi / 2 + lam * xi**2)
        E += -0.5 * np.linalg.slogdet(A)[1] - 0.5 * np.log(2 * lam).sum() + 0.25 * S @ mean
        if record is not None:
            record.append(E)
        new = np.sqrt(np.diag(covariance) + mean**2)
        done = np.abs(new - xi).max() < tol
        xi = new
        if done:
            break
    return xi, mean, covariance, E
