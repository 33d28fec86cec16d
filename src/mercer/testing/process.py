"""The contract of a process: mean, variance, covariance and draws belong to one law."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.process.process import Process
from mercer.testing.clauses import close_whole, holds


def check_process(process: Process, X: Array, tol: float = 1e-8) -> None:
    """Variance is the diagonal of the covariance, which is symmetric and positive semidefinite.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: symmetric, variance, positive semidefinite,
        rectangle, mean, rows or draws.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.process.process import Prior
    >>> check_process(Prior(RBF()), np.arange(4.0)[:, None])
    """
    cov, mean = process.cov(X), process.mean(X)
    holds("mean", mean.ndim == 2 and len(mean) == len(X), "mean(X) must be (n, m)")
    holds("mean", np.all(np.isfinite(mean)), "mean(X) must be finite")
    close_whole("symmetric", cov, cov.T, tol, "the covariance must be symmetric")
    size = float(max(1.0, np.abs(cov).max()))
    close_whole("variance", process.var(X), np.diagonal(cov), tol, "var(X) is the diagonal")
    close_whole("variance", process.diag(X), np.diagonal(cov), tol, "diag(X) is the diagonal")
    holds("variance", np.all(process.var(X) >= 0.0), "no variance may be negative")
    lowest = np.linalg.eigvalsh(0.5 * (cov + cov.T))[0]
    sentence = f"the covariance must have no negative eigenvalue, and has {lowest:.2e}"
    holds("positive semidefinite", lowest > -tol * size, sentence)
    close_whole("rectangle", process(X[:2], X), cov[:2], 10 * tol, "k(X[:2], X) is part of k(X)")
    order = np.arange(len(X))[::-1]
    close_whole("rows", process.mean(X[order]), mean[order], tol, "the order must not matter")
    close_whole("rows", process.var(X[:1]), process.var(X)[:1], tol, "a row stands by itself")
    draws = process.sample(X, 3, np.random.default_rng(0))
    holds("draws", draws.shape == (*mean.shape, 3), "sample(X, s) must be (n, m, s)")
    again = process.sample(X, 3, np.random.default_rng(0))
    holds("draws", np.array_equal(draws, again), "draws must repeat with the random numbers")
    many = process.sample(X, 4000, np.random.default_rng(1))
    deviation = np.sqrt(np.maximum(process.var(X), tol * size))[:, None]
    off = np.abs(many.mean(axis=2) - mean) / deviation
    holds("draws", np.all(off < 6.0 / np.sqrt(4000)), "draws must have the mean of the process")
    ratio = many.var(axis=2) / deviation**2
    known = process.var(X) > 1e3 * tol * size
    holds("draws", np.all(np.abs(ratio[known] - 1.0) < 0.2), "draws must have its variance")
