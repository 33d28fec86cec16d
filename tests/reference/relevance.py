"""Relevance vector machines the slow way: dense covariances, one function at a time."""

from __future__ import annotations

import numpy as np


def evidence(Phi, alpha, beta, t, flat=None):
    """log N(t; 0, I/beta + Phi diag(1/alpha) Phi'), with a flat prior on flat's coefficients."""
    n = len(t)
    C = np.eye(n) / beta + (Phi / alpha) @ Phi.T
    _, logdet = np.linalg.slogdet(C)
    if flat is None:
        return -0.5 * (t @ np.linalg.solve(C, t) + logdet + n * np.log(2 * np.pi))
    A = flat.T @ np.linalg.solve(C, flat)
    b = flat.T @ np.linalg.solve(C, t)
    quad = t @ np.linalg.solve(C, t) - b @ np.linalg.solve(A, b)
    rest = np.linalg.slogdet(A)[1] + (n - flat.shape[1]) * np.log(2 * np.pi)
    return -0.5 * (quad + logdet + rest)


def sparsity_and_quality(Phi, alpha, beta, t, candidates, flat=None):
    """S_m = phi'C^-1 phi and Q_m = phi'C^-1 t; a flat prior is one of variance 1e8."""
    C = np.eye(len(t)) / beta + (Phi / alpha) @ Phi.T
    inverse = np.linalg.inv(C)
    if flat is not None:
        G = inverse @ flat
        inverse = inverse - G @ np.linalg.solve(flat.T @ G, G.T)
    return np.einsum("im,ij,jm->m", candidates, inverse, candidates), candidates.T @ inverse @ t


def posterior(Phi, alpha, beta, t, new):
    """Mean and variance at functions ``new`` (q, M): a Gaussian process with (6.45)."""
    K = (Phi / alpha) @ Phi.T + np.eye(len(t)) / beta
    k = (Phi / alpha) @ new.T
    mean = k.T @ np.linalg.solve(K, t)
    prior = np.einsum("qm,m,qm->q", new, 1 / alpha, new)
    return mean, prior - np.einsum("iq,iq->q", k, np.linalg.solve(K, k))


def share(alpha, s, q):
    """l(alpha): what a function of precision alpha adds to the log evidence."""
    return 0.5 * (np.log(alpha) - np.log(alpha + s) + q**2 / (alpha + s))


def best_precision(s, q):
    """Return the precision that maximises l; infinity if the function is better out."""
    theta = q * q - s
    return s * s / theta if theta > 0.0 else np.inf
