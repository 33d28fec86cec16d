"""An unpenalised basis beside an exact C that is known by its solutions: theory (G7), (G8).

With the thin QR H = Q0 R0 and Q0'C Q0 = L L':

    A = H'C H = R'R,  R = L'R0,    T = C H R^-1,    P = C - T T'.

Orthogonal columns keep the digits of A, whatever the units of the basis are.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from mercer.core.arrays import Array, transposed_solve
from mercer.linalg.dense.projected import dependent
from mercer.linalg.gram import Factor, Gram


class SolvedProjection(Factor):
    """P for an exact factor C of the Gram, and basis columns H (n, k) of full rank."""

    def __init__(self, inner: Factor, gram: Gram, H: Array) -> None:
        self.inner, self.gram, self.H = inner, gram, H
        lengths = np.linalg.norm(H, axis=0)
        Q0, R0 = np.linalg.qr(H)
        weak = np.flatnonzero(np.abs(np.diagonal(R0)) <= 1e-13 * lengths[: len(H)])
        if H.shape[1] > len(H) or len(weak):
            raise ValueError(dependent(H, weak))
        solved = inner.solve(Q0)
        B = Q0.T @ solved
        L = np.linalg.cholesky(0.5 * (B + B.T))
        self.R = L.T @ R0  # (k, k), upper: R'R = H'C H
        self.T = np.ascontiguousarray(solve_triangular(L, solved.T, lower=True).T)  # (n, k)
        self._logdet_basis = float(2.0 * np.log(np.abs(np.diagonal(self.R))).sum())

    def solve(self, V: Array) -> Array:
        return np.asarray(self.inner.solve(V) - self.T @ (self.T.T @ V))

    def diag(self) -> Array:
        return np.asarray(self.inner.diag() - (self.T**2).sum(axis=1))

    def cov_diag(self) -> Array:
        """Posterior variance of f + h'beta at the points, shape (n,)."""
        rest = transposed_solve(self.R, self.H.T).T - self.gram @ self.T
        return np.asarray(self.inner.cov_diag() + (rest**2).sum(axis=1))

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return self.inner.logdet() + self._logdet_basis

    def logdet_noisy(self) -> float:
        """log |K + W^-1| + log |A|: the determinant of the vague evidence, GPML (2.45)."""
        return self.inner.logdet_noisy() + self._logdet_basis

    def basis_coefficients(self, z: Array) -> Array:
        """Beta = A^-1 H'C z = R^-1 T'z for z (n, m): shape (k, m). GPML (2.42)."""
        return np.asarray(solve_triangular(self.R, self.T.T @ z))

    def gradient_weights(self, a: Array, count: float) -> Array:
        return self.inner.gradient_weights(np.hstack([a, np.sqrt(count) * self.T]), count)
