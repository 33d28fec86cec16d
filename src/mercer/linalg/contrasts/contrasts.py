"""Contrasts: the combinations of observations in which an unpenalised basis cancels.

For a K that is positive on contrasts only (a thin-plate Green's function), or huge along the
basis, neither K nor K + W^-1 can be factored. With S = diag(sqrt(w)) and the QR decomposition
S H = [Q1 Q2] [R; 0] the columns of S Q2 annihilate H, and one eigendecomposition

    Q2' S G S Q2 = U diag(d) U',      V = S Q2 U,      z = V'y

serves K = v G with noise lam v / w for every variance v and ratio lam (methods of GPML 2.7):

    P = V diag(1 / (v (d + lam))) V',     log |K_y| + log |A| = (n - k) log v + sum log(d + lam)
                                                               + 2 log |det R| - sum log w.

Theory (P10), (P11), (P12).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.lapack import dgeqrf, dormqr

from mercer.core.arrays import Array


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
