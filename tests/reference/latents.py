"""Posteriors of two or three latent values by sums over a grid, slow and obvious."""

from __future__ import annotations

import numpy as np


def brute(K, y, loss, w=None, mean=0.0, cells=None, reach=8.0):
    """Return log evidence, mean (n,) and covariance (n, n) of f ~ N(mean, K) given y (n,)."""
    n = len(K)
    cells = {1: 20001, 2: 401, 3: 101}[n] if cells is None else cells
    w = np.ones(n) if w is None else w
    edges = np.linspace(-reach, reach, cells + 1)
    middle, h = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    nu = np.stack(np.meshgrid(*[middle] * n, indexing="ij"), axis=-1).reshape(-1, n)
    f = nu @ np.linalg.cholesky(K).T + mean
    log_p = -0.5 * (nu**2).sum(axis=1) - 0.5 * n * np.log(2 * np.pi) + n * np.log(h)
    log_p -= loss.value(y, f) @ w
    return _moments(log_p, f)


def brute_classes(K, y, loss, c, cells=17, reach=5.0):
    """Return log evidence and mean (n, c) for c latent functions with covariance K each."""
    n = len(K)
    edges = np.linspace(-reach, reach, cells + 1)
    middle, h = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    nu = np.stack(np.meshgrid(*[middle] * (n * c), indexing="ij"), axis=-1).reshape(-1, c, n)
    f = np.swapaxes(nu @ np.linalg.cholesky(K).T, 1, 2)
    log_p = -0.5 * (nu**2).sum(axis=(1, 2)) - 0.5 * n * c * np.log(2 * np.pi) + n * c * np.log(h)
    log_p -= loss.value(np.broadcast_to(y, f.shape[:2]), f).sum(axis=1)
    value, m, _ = _moments(log_p, f.reshape(len(f), -1))
    return value, m.reshape(n, c)


def _moments(log_p, f):
    top = log_p.max()
    p = np.exp(log_p - top)
    total = p.sum()
    m = p @ f / total
    apart = f - m
    return float(np.log(total) + top), m, (p[:, None] * apart).T @ apart / total
