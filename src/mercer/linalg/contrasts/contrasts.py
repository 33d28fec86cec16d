"""Contrasts: the combinations of observations in which an unpenalised basis cancels.

For a K that is positive on contrasts only (a thin-plate Green's function), or huge along the
basis, neither K nor K + W^-1 can be factored. With S = diag(sqrt(w)) and the QR decomposition
S H = [Q1 Q2] [R; 0] the columns of S Q2 annihilate H, and one eigendecomposition

    Q2' S G S Q2 = U diag(d) U',      V = S Q2 U,      z = V'y

serves K = v G with noise lam v / w for every variance v and ratio lam (methods of GPML 2.7):

    P = V diag(1 / (v (d + lam))) V',     log |K_y| + log |A| = (n - k) log v + sum log(d + lam)
                                                               + 2 log |det R| - sum log w.

Theory (P10), (P11), (P12).

The factor of one variance and one ratio, from the eigendecomposition that all share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.lapack import dgeqrf, dormqr

from mercer.core.arrays import Array
from mercer.linalg.gram import Factor
from mercer.linalg.operators import ContrastOperator


class Null:
    """The QR decomposition of S H (n, k), H of full rank: what of y is basis, and what is not."""

    def __init__(self, H: Array, weights: Array) -> None:
        n, k = H.shape
        self.root = np.sqrt(weights)
        self._reflectors, self._tau, _, _ = dgeqrf(np.asfortranarray(self.root[:, None] * H))
        self.R = np.triu(self._reflectors[:k])
        lengths = np.linalg.norm(self.R, axis=0)
        if n < k or np.any(np.abs(np.diagonal(self.R)) <= 1e-10 * lengths):
            raise ValueError(
                f"the {k} unpenalised functions are linearly dependent on the {n} distinct inputs: "
                "give points that are not all on one line or surface, drop columns that depend on "
                "others, or choose a lower order"
            )
        first = np.zeros((n, k))
        first[:k] = np.eye(k)
        self.Q1 = self.rotate(first, "N")

    def rotate(self, A: Array, trans: str, side: str = "L") -> Array:
        """Return Q'A ("T") or Q A ("N"), or with side "R" A Q, for the full Q of n reflections."""
        lwork = 64 * A.shape[1] if side == "L" else 64 * len(A)
        out, _, info = dormqr(side, trans, self._reflectors, self._tau, A, lwork=max(1, lwork))
        assert info == 0
        return np.asarray(out)

    def lift(self, B: Array) -> Array:
        """Return R^-1 B (k, m)."""
        return np.asarray(solve_triangular(self.R, B))

    @property
    def anchor(self) -> Array:
        """J = S Q1 R^-T (n, k): J h(x) are the weights by which data give the basis part at x."""
        J = solve_triangular(self.R, self.Q1.T).T
        return np.asarray(self.root[:, None] * J)

    def logdet(self) -> float:
        """2 log |det R| - sum log w."""
        pivots = np.abs(np.diagonal(self.R))
        return 2.0 * float(np.log(pivots).sum()) - 2.0 * float(np.log(self.root).sum())


class Contrasts:
    """One eigendecomposition of G (n, n) on the contrasts of H (n, k), under weights (n,).

    Attributes
    ----------
    d : (n - k,) eigenvalues, ascending, not below zero.
    V : (n, n - k), with H'V = 0 and V'(G + lam / w) V = diag(d + lam).
    floor : float, the rounding error of d: smaller differences mean nothing.

    Reference: Wahba, Spline models for observational data (1990), sections 1.3 and 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> G = np.abs(x[:, None] - x) ** 3 / 12.0
    >>> H = np.column_stack([np.ones(3), x])
    >>> Contrasts(G, H, np.ones(3)).d.round(6)  # the second difference, normalised
    array([0.111111])
    """

    def __init__(self, G: Array, H: Array, weights: Array) -> None:
        self.null = null = Null(H, weights)
        k = H.shape[1]
        S = null.root
        M = null.rotate(np.asfortranarray(S[:, None] * G * S), "T")
        M = null.rotate(M, "N", "R")[k:, k:]
        values, U = eigh(0.5 * (M + M.T), driver="evd", overwrite_a=True)
        top = float(np.abs(values).max(initial=0.0))
        self.floor = len(G) * float(np.finfo(float).eps) * top
        self.d = np.maximum(values, 0.0)  # negative ones are of the size of the floor
        padded = np.zeros((len(G), len(values)), order="F")
        padded[k:] = U
        self.V = S[:, None] * null.rotate(padded, "N")


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
        T = self.contrasts.V
        return np.asarray(T @ (self.shrunk[:, None] * (T.T @ V)))

    def quad(self, A: Array, B: Array) -> Array:
        T = self.contrasts.V
        return np.asarray((T.T @ A).T @ (self.shrunk[:, None] * (T.T @ B)))

    def quad_diag(self, A: Array) -> Array:
        return np.asarray(self.shrunk @ (self.contrasts.V.T @ A) ** 2)

    def diag(self) -> Array:
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
        null, J = self.contrasts.null, self.contrasts.null.anchor
        cross = self.variance * (self.G @ J)
        inverse = null.lift(np.eye(J.shape[1]))
        noise = self.variance * self.lam * (inverse @ inverse.T)
        half = np.sqrt(self.shrunk)[:, None] * self.contrasts.V.T
        return ContrastOperator(half, J, cross, J.T @ cross + noise)
