"""Several latent functions by dense block matrices of size nm, and by quadrature on few rows."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import minimize


def stacked(V):
    """(n, m) as (mn,), function by function."""
    return np.asarray(V).T.ravel()


def blocks(W):
    """(n, m, m) as a dense (mn, mn) matrix."""
    n, m, _ = W.shape
    out = np.zeros((m * n, m * n))
    for c in range(m):
        for e in range(m):
            out[c * n : (c + 1) * n, e * n : (e + 1) * n] = np.diag(W[:, c, e])
    return out


def laplace(kernels, X, y, loss, w=None):
    """The mode f (n, m) by a general minimiser, W there, and log evidence (theory A22)."""
    n, m = len(X), len(kernels)
    w = np.ones(n) if w is None else w
    K = block_diag(*[k(X) for k in kernels])

    def objective(a):
        f = (K @ a).reshape(m, n).T
        value = w @ loss.value(y, f) + 0.5 * a @ K @ a
        return value, K @ (stacked(w[:, None] * loss.gradient(y, f)) + a)

    start = np.linalg.solve(K + 1e-6 * np.eye(m * n), stacked(loss.start(y)))
    ends = [
        minimize(objective, a, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
        for a in (np.zeros(m * n), 0.3 * start)
    ]
    best = min(ends, key=lambda end: end.fun)
    f = (K @ best.x).reshape(m, n).T
    for _ in range(30):  # Newton's steps with the dense Hessian
        H = blocks(w[:, None, None] * loss.hessian(y, f))
        s = (
            -stacked(w[:, None] * loss.gradient(y, f))
            - np.linalg.lstsq(K, stacked(f), rcond=None)[0]
        )
        f = f + (K @ np.linalg.solve(np.eye(m * n) + H @ K, s)).reshape(m, n).T
    a = -stacked(w[:, None] * loss.gradient(y, f))
    W = blocks(w[:, None, None] * loss.curvature(y, f))
    logdet = np.linalg.slogdet(np.eye(m * n) + K @ W)[1]
    return f, W, K, -w @ loss.value(y, f) - 0.5 * a @ stacked(f) - 0.5 * logdet


def true_moments(kernels, X, y, loss, at, draws=400_000, seed=0):
    """Posterior mean of both functions at X, and of E[y] at ``at``, by importance sampling.

    From the prior of very few rows: slow, and obviously right.
    """
    rng = np.random.default_rng(seed)
    n, both = len(X), np.vstack([X, at])
    f = np.stack(
        [
            np.linalg.cholesky(k(both) + 1e-10 * np.eye(len(both)))
            @ rng.standard_normal((len(both), draws))
            for k in kernels
        ],
        axis=-1,
    )  # (n + q, draws, m)
    log_w = -sum(loss.value(np.full(draws, y[i]), f[i]) for i in range(n))
    weights = np.exp(log_w - log_w.max())
    evidence = np.log(weights.mean()) + log_w.max()
    weights /= weights.sum()
    mean = np.einsum("ndm,d->nm", f, weights)
    second = np.einsum("ndm,d->nm", np.square(f - mean[:, None]), weights)
    return mean, second, evidence
