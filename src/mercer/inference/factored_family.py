"""Coordinates for the factor-analysed Gaussian in which its free energy is well conditioned.

Sigma = D + C_f C_f' with mu = mean + A m, C_f = A C^ and log d_i = log scale_i + sqrt(2) e_i, where
A A' = (K^-1 + W_0)^-1 for weights W_0 near those of the solution, scale_i = 1 / (K^-1 + W_0)_ii.
In (m, C^, e) the Hessian is near the identity: A whitens the mean and the directions of C_f, and
1/2 (d_i / scale_i - log d_i) has unit curvature in e_i where it is smallest. None is bounded.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from mercer.arrays import Array
from mercer.inference.sites import Task
from mercer.linalg.errors import NotPositiveDefiniteError
from mercer.linalg.memory import require_memory

UNIT = np.sqrt(2.0)  # log d_i in units of this has unit curvature


class Family:
    """The prior K + jitter diag K = L L', whitened by A for the weights W_0 >= 0.

    Attributes
    ----------
    L, A : (n, n) Cholesky factor, and A with A A' = (K^-1 + W_0)^-1.
    own : (n,) diagonal of K^-1.
    scale : (n,) 1 / (K^-1 + W_0)_ii.
    logdet : log|K|.
    """

    def __init__(self, task: Task, jitter: float, W: Array) -> None:
        self.task, self.jitter, self.W = task, jitter, np.maximum(W, 0.0)
        n = len(task.y)
        require_memory(n, 5, "a factor-analysed posterior")
        K = np.array(task.gram.rows(np.arange(n)), order="F")
        K.flat[:: n + 1] += jitter * task.gram.diag()
        self.L, failed = lapack.dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise NotPositiveDefiniteError(
                f"a factor-analysed covariance needs K^-1, and with a jitter of {jitter:g} K is "
                "not positive definite: raise Variational(jitter=...), or use factors=None, which "
                "needs none"
            )
        # A = L R^-T with R R' = I + L'W L, a matrix >= I
        B = np.sqrt(self.W)[:, None] * self.L
        B = B.T @ B
        B.flat[:: n + 1] += 1.0
        R = np.linalg.cholesky(B)
        del B
        self.A = np.ascontiguousarray(solve_triangular(R, self.L.T, lower=True).T)
        del R
        inverse = lapack.dtrtri(self.L, lower=1)[0]
        self.own = np.square(inverse).sum(axis=0)
        self.scale = 1.0 / (self.own + self.W)
        self.logdet = 2.0 * float(np.log(np.diagonal(self.L)).sum())

    def inverse(self) -> Array:
        """K^-1, in a fresh (n, n) array."""
        half = lapack.dpotri(self.L, lower=1)[0]
        return np.asarray(np.tril(half) + np.tril(half, -1).T)

    def variances(self, e: Array) -> Array:
        """The diagonal of D."""
        return np.asarray(self.scale * np.exp(UNIT * e))
