"""The inverse of Sigma = D + C C' and how it changes, in O(M^2 n): thesis (C.5) by Woodbury."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from mercer.arrays import Array


class Precision:
    """What is needed of Sigma^-1 for D = diag(d), d > 0, and C (n, M).

    Attributes
    ----------
    logdet : log|Sigma|.
    solved : (n, M) S = Sigma^-1 C.
    level : (n,) 1 - d_i (Sigma^-1)_ii, between 0 and 1: the share that the factors take.

    Examples
    --------
    >>> import numpy as np
    >>> d, C = np.array([1.0, 2.0]), np.array([[1.0], [1.0]])
    >>> found = Precision(d, C)
    >>> inverse = np.linalg.inv(np.diag(d) + C @ C.T)
    >>> bool(np.allclose(found.solved, inverse @ C))
    True
    """

    def __init__(self, d: Array, C: Array) -> None:
        self.d, self.C = d, C
        self._scaled = C / d[:, None]
        inner = C.T @ self._scaled
        inner.flat[:: len(inner) + 1] += 1.0  # A = I + C'D^-1 C
        root = np.linalg.cholesky(inner)
        # what is not finite is found out by whoever asked
        self._inner = cho_solve((root, True), np.eye(len(root)), check_finite=False)
        half = solve_triangular(root, self._scaled.T, lower=True, check_finite=False)
        self._rows = half * np.sqrt(d)
        self.logdet = float(np.log(d).sum()) + 2.0 * float(np.log(np.diagonal(root)).sum())
        self.level = np.asarray(np.square(self._rows).sum(axis=0))
        self.solved = np.asarray(
            solve_triangular(root, half, lower=True, trans=1, check_finite=False).T
        )

    def change(self, log_d: Array, dC: Array) -> tuple[Array, Array]:
        """Derivatives of ``solved`` and ``level`` when log d and C move by log_d (n,), dC (n, M).

        From d Sigma^-1 = -Sigma^-1 dSigma Sigma^-1, dSigma = diag(d o log_d) + dC C' + C dC' and
        I - C'S = A^-1. All is in ratios to d, which may be tiny.
        """
        S = self.solved
        Y = dC / self.d[:, None] - S @ (self._scaled.T @ dC)  # Sigma^-1 dC
        part = log_d[:, None] * S
        solved = Y @ self._inner - part + S @ (self.C.T @ part - dC.T @ S)
        # sum_j d_i (Sigma^-1)_ij^2 d_j log_d_j less its diagonal, with rows r_i'r_j off it
        gathered = (self._rows * log_d) @ self._rows.T
        mixed = np.einsum("ki,ki->i", self._rows, gathered @ self._rows)
        own = 2.0 * self.d * np.einsum("ij,ij->i", Y, S)
        return solved, np.asarray(mixed + own - log_d * self.level)
