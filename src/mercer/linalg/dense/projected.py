"""An unpenalised basis: C is replaced by P, which annihilates the basis (GPML 2.7, flat prior).

With C = (K + W^-1)^-1 and H (n, k) (the book's H transposed):

    A = H' C H,    P = C - C H A^-1 H' C,    beta = A^-1 H' C z,    alpha = P z,    H' alpha = 0.

Theory (G7), (G8).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mercer.core.arrays import Array, Index
from mercer.core.errors import NotPositiveDefiniteError
from mercer.kernels.base import Gradient
from mercer.linalg.dense.factor import DenseFactor
from mercer.linalg.dense.signed import SignedFactor
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import BasisOperator, ExplicitBasisOperator, PosteriorOperator


class Projected(Factor):
    """P for a factor C and basis columns H (n, k) of full rank.

    With half(V) = L^-1 S V and the thin QR half(H) = Q R: A = R'R and
    P = S L^-T (I - Q Q') L^-1 S. The prior is K and, beside it, H beta with a flat prior: the
    covariance is that of f + H beta.
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

    def solve(self, V: Array) -> Array:
        u = self.inner.half(V)
        return self.inner.half_transposed(u - self.Q @ (self.Q.T @ u))

    def diag(self) -> Array:
        return np.asarray(self.inner.diag() - (self.T**2).sum(axis=1))

    def reach(self) -> Array:
        """B (n, k) with K - K C K + B B' the posterior covariance: B = W^-1 T = H R^-1 - K T."""
        inner = self.inner
        weak = [(some, self._rows(self.H[some]) - K.T @ self.T) for some, K in inner._weak()]
        with np.errstate(divide="ignore", invalid="ignore"):
            B = np.asarray(self.T / inner.W[:, None])
        for some, rows in weak:
            B[some] = rows
        return B

    def _rows(self, h: Array) -> Array:
        """H R^-1 for rows h (q, k)."""
        return np.asarray(solve_triangular(self.R, h.T, trans="T").T)

    def cov_diag(self) -> Array:
        """Posterior variance of f + h'beta at the points, shape (n,): two positive terms."""
        return np.asarray(self.inner.cov_diag() + np.square(self.reach()).sum(axis=1))

    def cov(self) -> Array:
        B = self.reach()
        return self.inner.cov() + B @ B.T

    def release(self) -> None:
        self.inner.release()

    def sites(self, h: Array, off: Array | float = 0.0) -> tuple[Array, Array]:
        """Weights a = P W^-1 h and coefficients of natural parameters h (n, m); W_i = 0 allowed.

        With u = (I - C K) h: beta = A^-1 (H'u + off), a = u - C H beta, so that H'a = -off.
        """
        u = h - self.inner.solve(np.asarray(self.inner._gram @ h))
        g = solve_triangular(self.R, self.H.T @ u + off, trans="T")
        return np.asarray(u - self.T @ g), np.asarray(solve_triangular(self.R, g))

    def _logdet_basis(self) -> float:
        """log |A|."""
        return float(2.0 * np.log(np.abs(np.diagonal(self.R))).sum())

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return self.inner.logdet() + self._logdet_basis()

    def logdet_noisy(self) -> float:
        """log |K + W^-1| + log |A|: the determinant of the vague evidence, GPML (2.45)."""
        return self.inner.logdet_noisy() + self._logdet_basis()

    def basis_coefficients(self, z: Array) -> Array:
        """Beta = A^-1 H' C z for z (n, m): shape (k, m). GPML (2.42)."""
        return np.asarray(solve_triangular(self.R, self.Q.T @ self.inner.half(z)))

    def gradient_weights(self, a: Array, count: float) -> Array:
        """(a a' - count P) / 2 = (a a' + count T T' - count C) / 2."""
        if count < 0.0:  # a root of it has no place among the columns of a
            weights = self.inner.gradient_weights(a, count)
            return np.asarray(weights + (0.5 * count * self.T) @ self.T.T)
        return self.inner.gradient_weights(np.hstack([a, np.sqrt(count) * self.T]), count)

    def operator(self) -> PosteriorOperator:
        return BasisOperator(self.inner.cholesky, self.inner.scale, self.Q, self.R)


class SignedProjected(Projected):
    """The same where some precisions are negative: there is no half of C, but T = C H R^-1."""

    inner: SignedFactor  # type: ignore[assignment]  # asked for no halves

    def __init__(self, inner: SignedFactor, H: Array) -> None:
        self.inner, self.H, self.jitter = inner, H, inner.jitter
        G = inner.solve(H)
        A = H.T @ G
        try:
            self.R = np.asarray(cholesky(0.5 * (A + A.T)))
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                "the precision is not positive along the basis: shorten the step"
            ) from None
        self.T = self._rows(G)

    def solve(self, V: Array) -> Array:
        return np.asarray(self.inner.solve(V) - self.T @ (self.T.T @ V))

    def basis_coefficients(self, z: Array) -> Array:
        return np.asarray(solve_triangular(self.R, self.T.T @ z))

    def operator(self) -> PosteriorOperator:
        operator = self.inner.operator()
        assert operator.C is not None
        return ExplicitBasisOperator(operator.C, self.T, self.R)


class FlatGram(Gram):
    """K with functions H (n, k) of a flat prior beside it, as sites see them; theory (A16).

    Products are those with K alone. ``wide`` stands for the infinite prior variance of h'beta:
    nothing but checks, and where a search for sites begins, depend on it.
    """

    def __init__(self, gram: Gram, H: Array, wide: float) -> None:
        self.gram, self.H, self.wide = gram, H, wide
        self.points, self.name, self.flat = gram.points, gram.name, H.shape[1]
        self.exact, self.few = gram.exact, gram.few  # type: ignore[misc]  # those of its matrix

    def __matmul__(self, V: Array) -> Array:
        return self.gram @ V

    def diag(self) -> Array:
        return self.gram.diag() + self.wide

    def rows(self, index: Index) -> Array:
        return self.gram.rows(index)

    def factor(self, W: Array) -> Factor:
        return self.gram.factor(W).projected(self.H)

    def placed(self, factor: Factor, z: Array, rest: Array) -> tuple[Array, Array]:
        a, b = factor.solve(z[:, None]), factor.basis_coefficients(z[:, None])
        if np.any(rest):
            more, slopes = factor.sites(rest[:, None])
            a, b = a + more, b + slopes
        return np.asarray(self @ a + self.H @ b)[:, 0], np.asarray(a[:, 0])

    def step(self, factor: Factor, s: Array, a: Array) -> tuple[Array, Array]:
        return factor.sites(s, self.H.T @ a)

    def smoothed(self, factor: Factor, s: Array) -> tuple[Array, Array]:
        if self.few:  # H is among its columns
            return self.gram.smoothed(factor, s)
        z, b = factor.sites(s[:, None])
        return np.asarray(self @ z + self.H @ b)[:, 0], z[:, 0]

    def take(self) -> Array:
        return self.gram.take()

    def give(self, *done: Array | None) -> None:
        self.gram.give(*done)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        return self.gram.pullback(alpha, factor, U, V)

    def contract(self, Q: Array) -> Gradient:
        return self.gram.contract(Q)


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
