"""Signed weights: some losses are concave in places, so that W_i < 0 there.

K = L L', M = I + L' W L, Sigma = (K^-1 + W)^-1 = L M^-1 L', C = W - W Sigma W
(methods of Seeger's thesis for the normalised hinge).
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array, cholesky, cholesky_logdet, half_solve
from mercer.linalg.errors import NotPositiveDefiniteError
from mercer.linalg.gram import Factor


class SignedFactor(Factor):
    """C for finite W of any sign with K^-1 + W positive definite."""

    def __init__(self, K: Array, W: Array) -> None:
        L: Array = np.asarray(np.linalg.cholesky(K), dtype=np.float64)
        M: Array = np.ascontiguousarray(L.T @ (W[:, None] * L))
        M.flat[:: len(M) + 1] += 1.0
        if cholesky(M):
            raise NotPositiveDefiniteError(
                "the precision K^-1 + W is not positive definite: shorten the step"
            )
        self.W = W
        self._M = M
        self._half_sigma = half_solve(M, np.ascontiguousarray(L.T))  # V with Sigma = V'V

    def _sigma(self, V: Array) -> Array:
        return np.asarray(self._half_sigma.T @ (self._half_sigma @ V))

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        weighted = self.W[:, None] * V
        return np.asarray(weighted - self.W[:, None] * self._sigma(weighted))

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        return np.asarray(A.T @ self.solve(B))

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return np.asarray(np.einsum("ij,ij->j", A, self.solve(A)))

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return np.asarray(self.W - self.W**2 * self.cov_diag())

    def cov_diag(self) -> Array:
        """See :meth:`Factor.cov_diag`."""
        return np.asarray(np.einsum("ij,ij->j", self._half_sigma, self._half_sigma))

    def logdet(self) -> float:
        """See :meth:`Factor.logdet`."""
        return cholesky_logdet(self._M)

    def logdet_noisy(self) -> float:
        """log |K + W^-1| is not defined for signed W."""
        raise ValueError("log |K + W^-1| needs positive weights; use logdet()")

    def gradient_weights(self, a: Array, count: float) -> Array:
        """See :meth:`Factor.gradient_weights`."""
        C = self.solve(np.eye(len(self.W)))
        return np.asarray(0.5 * (a @ a.T - count * C))
