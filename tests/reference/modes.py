"""Modes of kernel machines, slow and obvious: a general-purpose minimiser on the primal."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def mode(K, loss, y, weights=None, H=None):
    """Return the objective, f and the coefficients of H at the minimum, for a smooth loss.

    With K = L L' (eigenvalues) the penalty is |v|^2 / 2 for f = L v + H b.
    """
    n = len(y)
    w = np.ones(n) if weights is None else weights
    H = np.zeros((n, 0)) if H is None else H
    values, vectors = np.linalg.eigh(K)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    A = np.hstack([L, H])

    def objective(x):
        f = A @ x
        d1 = loss.derivatives(y, f)[0]
        penalised = np.concatenate([x[:n], np.zeros(H.shape[1])])
        return w @ loss.value(y, f) + 0.5 * x[:n] @ x[:n], A.T @ (w * d1) + penalised

    start = np.zeros(A.shape[1])
    found = minimize(
        objective, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    )
    return float(found.fun), A @ found.x, found.x[n:]


def left_out_margins(K, S, fit):
    """Return S_t f^(-t)(x_t) by refitting without each row; fit(K, S) -> alpha."""
    margins = np.empty(len(S))
    for t in range(len(S)):
        rest = np.delete(np.arange(len(S)), t)
        alpha = fit(K[np.ix_(rest, rest)], S[rest])
        margins[t] = S[t] * K[t, rest] @ alpha
    return margins


def coordinate_ascent(K, S, C, sweeps):
    """Dual coordinates lam of the hinge after some sweeps from zero, no bias."""
    lam, f = np.zeros(len(S)), np.zeros(len(S))
    for _ in range(sweeps):
        for i in range(len(S)):
            new = np.clip(lam[i] + (1.0 - S[i] * f[i]) / K[i, i], 0.0, C)
            f += K[:, i] * S[i] * (new - lam[i])
            lam[i] = new
    return lam
