"""The triangular factor of the posterior precision of the weights, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from mercer.arrays import Array

# Below this share of its diagonal a pivot has lost too many digits to the square of the condition.
PIVOT = 1e-9


@dataclass(frozen=True)
class WeightFactor:
    """R (p, p), upper triangular, with R'R = F'BF + diag(prior); p functions, the flat ones first.

    R^-1 and R^-T are applied one after the other: an explicit inverse loses the digits that the
    differences between near-collinear functions are made of.
    """

    R: Array

    def half(self, V: Array) -> Array:
        """R^-T V for V (p,) or (p, m)."""
        if V.ndim == 1:
            return np.asarray(blas.dtrsv(self.R, V, trans=1)) if len(V) else V
        return self.half_in_place(V.copy(), 1.0)

    def half_in_place(self, V: Array, scale: float) -> Array:
        """Write scale R^-T V over V (p, m), row-major."""
        if V.size:
            self._solve(V, scale, 0)
        return V

    def back(self, V: Array) -> Array:
        """R^-1 V for V (p,) or (p, m)."""
        if V.ndim == 1:
            return np.asarray(blas.dtrsv(self.R, V)) if len(V) else V
        V = V.copy()
        if V.size:
            self._solve(V, 1.0, 1)
        return V

    def _solve(self, V: Array, scale: float, transposed: int) -> None:
        # V' R^-1 or V' R^-T: for BLAS, which counts by columns, the rows of V are columns
        blas.dtrsm(scale, self.R, V.T, side=1, trans_a=transposed, overwrite_b=1)

    def inverse(self) -> Array:
        """R^-1, upper triangular; the squares in its rows sum to the variances of the weights."""
        return np.asarray(lapack.dtrtri(self.R)[0] if len(self.R) else self.R)

    def logdet(self) -> float:
        """log |F'BF + diag(prior)|."""
        return 2.0 * float(np.log(np.abs(np.diagonal(self.R))).sum())


def factor(normal: Array, F: Callable[[], Array], b: Array, prior: Array) -> WeightFactor:
    """Factor F'BF + diag(prior): ``normal`` (p, p) is that sum, F() (p, n) one function a row.

    ``normal``, if column-major, is written over.

    By Cholesky where its pivots keep their digits, else by the QR of the stacked rows
    [B^1/2 F; prior^1/2], which does not square the condition (methods of GPML 2.7 and A.4).
    """
    if not len(normal):
        return WeightFactor(normal)
    least = PIVOT * np.diagonal(normal)
    R, info = lapack.dpotrf(normal, lower=0, clean=1, overwrite_a=1)
    if info == 0 and np.all(np.diagonal(R) ** 2 > least):
        return WeightFactor(R)
    stacked = np.concatenate([F() * np.sqrt(b), np.diag(np.sqrt(prior))], axis=1).T
    R = np.linalg.qr(stacked, mode="r")
    return WeightFactor(np.asfortranarray(R * np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None]))
