"""An unpenalised basis: C is replaced by P, which annihilates the basis (GPML 2.7, flat prior).

With C = (K + W^-1)^-1 and H (n, k) (the book's H transposed):

    A = H' C H,    P = C - C H A^-1 H' C,    beta = A^-1 H' C z,    alpha = P z,    H' alpha = 0.

Theory (G7), (G8).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from mercer.core.arrays import Array, Index
from mercer.linalg.dense.factor import DenseFactor
from mercer.linalg.gram import Factor
from mercer.linalg.operators import BasisOperator


class Projected(Factor):
    """P for a dense factor C and basis columns H (n, k) of full rank.

    With half(V) = L^-1 S V and the thin QR half(H) = Q R: A = R'R and
    P = S L^-T (I - Q Q') L^-1 S.
    """

    def __init__(self, inner: DenseFactor, H: Array) -> None:
        self.inner, self.H, self.jitter = inner, H, inner.jitter
        self.Q, self.R = np.linalg.qr(inner.half(H))
        self.T = inner.half_transposed(self.Q)  # (n, k) with P = C - T T'
        # each column against its own length: a cubic of large inputs is not dependent
        lengths = np.linalg.norm(self.R, axis=0)
        weak = np.flatnonzero(np.abs(np.diagonal(self.R)) <= 1e-13 * lengths[: len(H)])
        if H.shape[1] > len(H) or len(weak):
            raise ValueError(dependent(H, weak))
        self._logdet_basis = float(2.0 * np.log(np.abs(np.diagonal(self.R))).sum())  # log |A|

    def solve(self, V: Array) -> Array:
        u = self.inner.half(V)
        return self.inner.half_transposed(u - self.Q @ (self.Q.T @ u))

    def diag(self) -> Array:
        return np.asarray(self.inner.diag() - (self.T**2).sum(axis=1))

    def cov_diag(self) -> Array:
        """Posterior variance of f + h'beta at the points, shape (n,): W^-1 - W^-1 P W^-1."""
        W = self.inner.W
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(np.isinf(W), 0.0, (1.0 - self.diag() / W) / W))

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return self.inner.logdet() + self._logdet_basis

    def logdet_noisy(self) -> float:
        """log |K + W^-1| + log |A|: the determinant of the vague evidence, GPML (2.45)."""
        return self.inner.logdet_noisy() + self._logdet_basis

    def basis_coefficients(self, z: Array) -> Array:
        """Beta = A^-1 H' C z for z (n, m): shape (k, m). GPML (2.42)."""
        return np.asarray(solve_triangular(self.R, self.Q.T @ self.inner.half(z)))

    def gradient_weights(self, a: Array, count: float) -> Array:
        """(a a' - count P) / 2 = (a a' + count T T' - count C) / 2."""
        return self.inner.gradient_weights(np.hstack([a, np.sqrt(count) * self.T]), count)

    def operator(self) -> BasisOperator:
        return BasisOperator(self.inner.cholesky, self.inner.scale, self.Q, self.R)


def dependent(H: Array, weak: Index) -> str:
    """Say which functions of H (n, k) are combinations of those before them, and why if known."""
    n, k = H.shape
    constant = np.flatnonzero(np.ptp(H, axis=0) == 0.0)
    if k > n:
        why = "they are more than the inputs can tell apart; choose a smaller basis"
    elif np.isin(weak, constant).any():
        which = ", ".join(str(j) for j in constant)
        why = f"those with number {which}, counted from 0, are constant there; leave constant "
        why += "columns out of the table, or choose a smaller basis"
    else:
        why = f"number {weak[0]}, counted from 0, is a combination of those before it; drop some "
        why += "of them or choose a lower degree"
    return f"the {k} basis functions are linearly dependent on the {n} training inputs: {why}"
