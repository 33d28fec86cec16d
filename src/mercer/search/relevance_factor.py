"""The triangular factor of the posterior precision of the weights, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

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
        return np.asarray(lapack.dtrtrs(self.R, V, trans=1)[0] if len(self.R) else V)

    def back(self, V: Array) -> Array:
        """R^-1 V for V (p,) or (p, m)."""
        return np.asarray(lapack.dtrtrs(self.R, V)[0] if len(self.R) else V)

    def inverse(self) -> Array:
        """R^-1, upper triangular; the squares in its rows sum to the variances of the weights."""
        return np.asarray(lapack.dtrtri(self.R)[0] if len(self.R) else self.R)

    def logdet(self) -> float:
        """log |F'BF + diag(prior)|."""
        return 2.0 * float(np.log(np.abs(np.diagonal(self.R))).sum())


def factor(normal: Array, F: Array, b: Array, prior: Array) -> WeightFactor:
    """Factor F'BF + diag(prior): ``normal`` (p, p) is that sum, F (p, n) one function a row.

    By Cholesky where its pivots keep their digits, else by the QR of the stacked rows
    [B^1/2 F; prior^1/2], which does not square the condition (methods of GPML 2.7 and A.4).
    """
    if not len(normal):
        return WeightFactor(normal)
    R, info = lapack.dpotrf(normal, lower=0, clean=1)
    if info == 0 and np.all(np.diagonal(R) ** 2 > PIVOT * np.diagonal(normal)):
        return WeightFactor(R)
    stacked = np.concatenate([F * np.sqrt(b), np.diag(np.sqrt(prior))], axis=1).T
    R = np.linalg.qr(stacked, mode="r")
    return WeightFactor(np.asfortranarray(R * np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None]))
