"""The factor of one variance and one ratio, from the eigendecomposition that all share."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.linalg.contrasts.contrasts import Contrasts
from mercer.linalg.gram import Factor
from mercer.linalg.operators import ContrastOperator


class ContrastFactor(Factor):
    """P for K = variance * G and noise variances lam * variance / w; lam = 0 interpolates.

    ``G`` (n, n) is needed for the coefficients of the basis and for the operator.
    """

    def __init__(self, contrasts: Contrasts, G: Array, variance: float, lam: float) -> None:
        if lam <= 0.0 and contrasts.d[0] <= contrasts.floor:
            raise np.linalg.LinAlgError(
                "the points are too close to each other to interpolate in double precision; "
                "smooth a little: lam > 0"
            )
        self.contrasts, self.G = contrasts, G
        self.variance, self.lam = variance, lam
        self.shrunk = 1.0 / (variance * (contrasts.d + lam))
        with np.errstate(divide="ignore"):
            self.W = contrasts.null.root**2 / np.float64(variance * lam)

    @property
    def report(self) -> dict[str, Any]:
        """Nothing was added to the diagonal."""
        return {"jitter": 0.0}

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        T = self.contrasts.V
        return np.asarray(T @ (self.shrunk[:, None] * (T.T @ V)))

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        T = self.contrasts.V
        return np.asarray((T.T @ A).T @ (self.shrunk[:, None] * (T.T @ B)))

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return np.asarray(self.shrunk @ (self.contrasts.V.T @ A) ** 2)

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return np.asarray(self.contrasts.V**2 @ self.shrunk)

    def cov_diag(self) -> Array:
        """Posterior variance at the points, shape (n,): W^-1 - W^-1 P W^-1."""
        if self.lam == 0.0:
            return np.zeros(len(self.W))
        return np.asarray((1.0 - self.diag() / self.W) / self.W)

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return self.logdet_noisy() + float(np.log(self.W).sum())

    def logdet_noisy(self) -> float:
        """log |K + W^-1| + log |A|: the determinant of the vague evidence, GPML (2.45)."""
        return self.contrasts.null.logdet() - float(np.log(self.shrunk).sum())

    def coefficients(self, y: Array, alpha: Array) -> Array:
        """Beta = R^-1 Q1'S (y - K alpha) (k, m); the noise part of K_y alpha is orthogonal to H."""
        null = self.contrasts.null
        rest = y - self.variance * (self.G @ alpha)
        return null.lift(null.Q1.T @ (null.root[:, None] * rest))

    def operator(self) -> ContrastOperator:
        """See :meth:`Factor.operator`."""
        null, J = self.contrasts.null, self.contrasts.null.anchor
        cross = self.variance * (self.G @ J)
        inverse = null.lift(np.eye(J.shape[1]))
        noise = self.variance * self.lam * (inverse @ inverse.T)
        half = np.sqrt(self.shrunk)[:, None] * self.contrasts.V.T
        return ContrastOperator(half, J, cross, J.T @ cross + noise)
