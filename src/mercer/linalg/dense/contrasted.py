"""Classes that share K beside functions with a flat prior on each, as a softmax sees them.

A softmax does not see a function that is added to all of its c classes: of the coefficients beta_c
(k,) only the contrasts between classes are known, beta_c = sum_l N_cl gamma_l with the orthonormal
contrasts N (c, c - 1), and only gamma has a flat prior, of unit density. With V the columns
N_cl h_j over points and classes and C of :mod:`mercer.linalg.dense.coupled`,

    A = V'C V = R'R,   T = C V R^-1,   P = C - T T',   Sigma = K - K C K + B B',   B = V R^-1 - K T

Theory (A19).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, helmert, solve_triangular

from mercer.core.arrays import Array, transposed_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.projected import FlatGram
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import SeveralOperator


def class_contrasts(classes: int) -> Array:
    """N (c, c - 1), orthonormal columns that sum to zero."""
    return np.asarray(helmert(classes).T)


@dataclass(eq=False)
class ContrastedOperator(SeveralOperator):
    """Coupled functions with a flat basis on their contrasts: C_ce - T_c T_e', by h(x)'beta_c.

    ``T`` is (n, m q) and ``R`` (q, q), q = (m - 1) k: :mod:`mercer.linalg.dense.contrasted`.
    """

    shared: Array
    T: Array
    R: Array

    def blocks(self, A: Array | list[Array], hA: Array | None = None) -> Array:
        assert hA is not None
        assert not isinstance(A, list)  # classes share a kernel
        m = len(self.operators)
        N = class_contrasts(m)
        V = np.einsum("pj,cl->cljp", hA, N).reshape(m, -1, len(hA))  # (m, q, p)
        known = (self.T.T @ A).reshape(m, -1, len(hA))
        r = np.stack([transposed_solve(self.R, v) for v in V]) - known
        return np.asarray(super().blocks(A) - np.einsum("cqp,eqp->pce", r, r))


class ContrastedFactor(CoupledFactor):
    """P for coupled classes and basis columns H (n, k); vectors are (n, c)."""

    def __init__(self, inner: CoupledFactor, H: Array) -> None:
        super().__init__(inner.factors, inner.shared, inner.total, inner._gram)
        self.H, self.N = H, class_contrasts(len(inner.factors))
        V = np.einsum("ij,cl->iclj", H, self.N)
        self.V = V.reshape(*V.shape[:2], -1)  # (n, c, q), q = (c - 1) k
        G = np.stack([inner.solve(np.ascontiguousarray(v)) for v in np.moveaxis(self.V, 2, 0)], 2)
        A = np.einsum("icp,icq->pq", self.V, G)
        try:
            self.R = np.asarray(cholesky(0.5 * (A + A.T)))
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                "the basis functions are linearly dependent on these rows, or no row holds them"
            ) from None
        self.T = self._per_column(G)

    def _per_column(self, G: Array) -> Array:
        """G R^-1 for G (n, c, q)."""
        flat = solve_triangular(self.R, G.reshape(-1, G.shape[2]).T, trans="T").T
        return np.ascontiguousarray(flat.reshape(G.shape))

    def solve(self, V: Array) -> Array:
        return np.asarray(super().solve(V) - self.T @ np.einsum("icq,ic->q", self.T, V))

    def sites(self, h: Array, off: Array | float = 0.0) -> tuple[Array, Array]:
        """Weights and coefficients (k, c), see :meth:`Factor.sites`; ``off`` is H'a (k, c)."""
        assert self._gram is not None
        u = h - super().solve(np.asarray(self._gram @ h))
        pull = (self.N.T @ (self.H.T @ u + off).T).ravel()  # by contrasts, then functions
        g = solve_triangular(self.R, pull, trans="T")
        gamma = solve_triangular(self.R, g).reshape(self.N.shape[1], -1)
        return np.asarray(u - self.T @ g), np.asarray((self.N @ gamma).T)

    def point_blocks(self, gram: Gram) -> Array:
        n, c, q = self.T.shape
        KT = np.asarray(gram @ self.T.reshape(n, c * q)).reshape(n, c, q)
        B = self._per_column(self.V) - KT
        return np.asarray(super().point_blocks(gram) + np.einsum("icq,ieq->ice", B, B))

    def gradient_weights(self, a: Array, count: float) -> Array:
        T = self.T.reshape(len(self.T), -1)
        return np.asarray(super().gradient_weights(a, count) + 0.5 * T @ T.T)

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return super().logdet() + 2.0 * float(np.log(np.diagonal(self.R)).sum())

    def operator(self) -> ContrastedOperator:
        inner = super().operator()
        assert inner.shared is not None
        flat = self.T.reshape(len(self.T), -1)
        return ContrastedOperator(inner.operators, inner.shared, flat, self.R)


class ContrastedGram(FlatGram):
    """K of classes with functions H (n, k) of a flat prior on the contrasts between them."""

    def factor(self, W: Array) -> Factor:
        """Return the factor of one class; the basis is that of all together."""
        return self.gram.factor(W)

    def joined(self, factor: Factor) -> Factor:
        assert isinstance(factor, CoupledFactor)
        return ContrastedFactor(factor, self.H)
