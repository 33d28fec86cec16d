"""Eigen Gram: one eigendecomposition, then C = (K + lam S^-2)^-1 for every lam at O(n^2) each.

With S = diag(sqrt(weights)) and S K S = U diag(d) U':

    C = S U diag(1 / (d + lam)) U' S,     C_ii = w_i sum_j U_ij^2 / (d_j + lam).

It costs about six Cholesky factorisations with their inverses: for a path of more values.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from mercer.core.arrays import Array
from mercer.core.deadline import check_time
from mercer.core.memory import require_memory
from mercer.linalg.dense.factor import DenseFactor
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Covariance, Factor
from mercer.linalg.operators import CholeskyOperator


class EigenGram(DenseGram):
    """K = k(P, P) by the eigenvalues of S K S; only multiples of ``weights`` (n,) can be factored.

    Reference: GPML section 6.5; Rifkin & Lippert (2007), Notes on regularized least squares.
    """

    def __init__(self, kernel: Covariance, points: Array, weights: Array) -> None:
        require_memory(len(points), arrays=5)
        super().__init__(kernel, points)
        self.weights = weights
        self.root = np.sqrt(weights)
        M = np.array(kernel(points), dtype=np.float64)
        M *= self.root
        M *= self.root[:, None]
        check_time()
        values, self.vectors = eigh(M, driver="evd", overwrite_a=True)
        self.values = np.maximum(values, 0.0)  # rounding can leave -1e-16 of the largest
        self.squares = self.vectors**2

    def factor(self, W: Array) -> Factor:
        lam = float(self.weights[0] / W[0])
        if not (lam > 0.0 and np.allclose(W * lam, self.weights, rtol=1e-9, atol=0.0)):
            raise ValueError("an eigendecomposition works for multiples of its weights only")
        return EigenFactor(self, W, lam)


class EigenFactor(DenseFactor):
    """C for one lam, from the eigenvectors that all of them share."""

    jitter = 0.0

    def __init__(self, gram: EigenGram, W: Array, lam: float) -> None:
        self.W, self.lam, self.eigen = W, lam, gram
        self.shrunk = 1.0 / (gram.values + lam)

    def half(self, V: Array) -> Array:
        """Return (d + lam)^-1/2 U' S V, so that V' C V = |half(V)|^2."""
        rotated = self.eigen.vectors.T @ (self.eigen.root[:, None] * V)
        return np.asarray(np.sqrt(self.shrunk)[:, None] * rotated)

    def half_transposed(self, V: Array) -> Array:
        """Return S U (d + lam)^-1/2 V."""
        back = self.eigen.vectors @ (np.sqrt(self.shrunk)[:, None] * V)
        return np.asarray(self.eigen.root[:, None] * back)

    def inverse(self) -> Array:
        raise NotImplementedError("an EigenFactor forms no inverse; use a DenseGram for gradients")

    def diag(self) -> Array:
        return np.asarray(self.eigen.weights * (self.eigen.squares @ self.shrunk))

    def cov_diag(self) -> Array:
        kept = self.eigen.values * self.lam * self.shrunk
        return np.asarray(self.eigen.squares @ kept / self.eigen.weights)

    def logdet(self) -> float:
        return float(np.log1p(self.eigen.values / self.lam).sum())

    def logdet_noisy(self) -> float:
        return float(-np.log(self.shrunk).sum() - np.log(self.eigen.weights).sum())

    def operator(self) -> CholeskyOperator:
        raise NotImplementedError("an EigenFactor is for a path of lam; factor the chosen one")
