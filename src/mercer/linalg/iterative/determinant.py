"""log|K + D| by probes: with G G' = P the matrix M = G^-1 (K + D) G^-T >= I.

Hence Gauss and Gauss-Radau quadrature with a node at one bracket z'log(M) z for every probe z.

Reference: Golub and Meurant (1994). Theory (I11).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from mercer.core.arrays import Array


@dataclass
class LogDet:
    """log|K + D| by probes: ``pairs`` (s, 2) are the lower and upper value of each."""

    pairs: Array

    @property
    def value(self) -> float:
        """The mean over the probes."""
        return float(self.pairs.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        middle = self.pairs.mean(axis=1)
        return float(middle.std(ddof=1) / np.sqrt(len(middle))) if len(middle) > 1 else np.inf

    @property
    def bracket(self) -> tuple[float, float]:
        """The means of the two quadratures: between them is the value for infinitely many steps."""
        low, high = self.pairs.mean(axis=0)
        return float(low), float(high)


def quadrature(steps: list[tuple[Array, Array]], j: int) -> tuple[float, float]:
    """Return e1'log(T) e1 by Gauss-Radau with a node at one (lower), and by Gauss (upper).

    T comes from the coefficients of conjugate gradients: T_11 = 1/t_1 and, with ratios b,
    T_ii = 1/t_i + b_{i-1}/t_{i-1},  T_i,i+1 = sqrt(b_i)/t_i.
    """
    t = np.array([length[j] for length, _ in steps if np.isfinite(length[j])])
    b = np.array([ratio[j] for length, ratio in steps if np.isfinite(length[j])])
    if not len(t):
        return 0.0, 0.0
    main = 1.0 / t
    main[1:] += b[:-1] / t[:-1]
    side = np.sqrt(np.maximum(b, 0.0)) / t
    values, vectors = eigh_tridiagonal(main, side[:-1])
    high = float(vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))
    # one more row whose diagonal puts an eigenvalue at one
    shifted = main - 1.0
    pivot = shifted[0]
    for i in range(1, len(main)):
        if not pivot > 1e-14:
            break
        pivot = shifted[i] - side[i - 1] ** 2 / pivot
    if not pivot > 1e-14:  # M is the identity on what was seen
        return high, high
    last = 1.0 + side[-1] ** 2 / pivot
    values, vectors = eigh_tridiagonal(np.append(main, last), side)
    low = float(vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))
    return min(low, high), high
