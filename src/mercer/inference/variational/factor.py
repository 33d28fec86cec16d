"""C of formula (2) for the factor-analysed Gaussian, and what a nearby problem begins from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from mercer.core.arrays import Array
from mercer.inference.variational.energy import Family, FreeEnergy
from mercer.linalg.gram import Factor, NoSpread


class FactoredStart(NoSpread):
    """The covariance in coordinates that a nearby problem shares; no n x n array.

    Attributes
    ----------
    whitened : (n, M) C^ of :mod:`mercer.inference.variational.energy`.
    shares : (n,) e of the same.
    """

    def __init__(self, whitened: Array, shares: Array) -> None:
        super().__init__(np.empty(0))
        self.whitened, self.shares = whitened, shares


class FactoredFactor(Factor):
    """C = K^-1 - K^-1 Sigma K^-1 for K with jitter on its diagonal; W plays no part.

    Attributes
    ----------
    d : (n,) diagonal of D.
    loadings : (n, M) C_f.
    whitened, shares : see :class:`FactoredStart`.
    divergence : KL(q || prior), the part of F that does not depend on the loss.
    """

    def __init__(self, family: Family, found: FreeEnergy, x: Array) -> None:
        Z = x.reshape(len(found.d), -1)
        self.d, self.loadings, self.jitter = found.d, found.loadings, family.jitter
        self.whitened, self.shares = Z[:, 1:-1].copy(), Z[:, -1].copy()
        inverse = family.inverse()
        T = cho_solve((family.L, True), self.loadings)
        scaled = inverse * np.sqrt(self.d)
        self.C = inverse - scaled @ scaled.T - T @ T.T
        self.divergence, self._logdet = found.divergence, found.logdet_ratio

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        return np.asarray(self.C @ V)

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        return np.asarray(A.T @ (self.C @ B))

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return np.asarray(np.einsum("ij,ij->j", A, self.C @ A))

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return np.diagonal(self.C).copy()

    def cov_diag(self) -> Array:
        """See :meth:`Factor.cov_diag`: the diagonal of Sigma."""
        return np.asarray(self.d + np.square(self.loadings).sum(axis=1))

    def cov(self) -> Array:
        """See :meth:`Factor.cov`: Sigma."""
        return np.asarray(np.diag(self.d) + self.loadings @ self.loadings.T)

    def logdet(self) -> float:
        """Return log|K| - log|Sigma|, which is log|I + K W| where Sigma = (K^-1 + W)^-1."""
        return self._logdet

    def logdet_noisy(self) -> float:
        """Refuse: there is no W."""
        raise NotImplementedError("a factor-analysed covariance has no weights W")

    def gradient_weights(self, a: Array, count: float) -> Array:
        """(a a' - count C)/2, thesis (C.4), with the diagonal times 1 + jitter.

        The jitter is a share of K_ii and moves with it: left out, the gradient would be wrong in
        the first digit where K^-1 is large.
        """
        Q = np.asarray(0.5 * (a @ a.T - count * self.C))
        Q.flat[:: len(Q) + 1] *= 1.0 + self.jitter
        return Q

    def beginning(self) -> FactoredStart:
        """See :meth:`Factor.beginning`."""
        return FactoredStart(self.whitened, self.shares)

    @property
    def report(self) -> dict[str, Any]:
        """The relative jitter on the diagonal of K."""
        return {"jitter": self.jitter}
