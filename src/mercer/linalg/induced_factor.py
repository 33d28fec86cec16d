"""The factor of observations that are seen through inducing contrasts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.arrays import Array
from mercer.linalg.gram import Factor
from mercer.linalg.inducing_contrasts import InducingContrasts


class InducedFactor(Factor):
    """P for K = variance * phi phi', noise variances lam * variance / w and the basis: O(n p) each.

    The smoother S y -> S f is T T' + N N' with T = S H R^-1 and N = (S phi - T B) U (d + lam)^-1/2,
    and P = S (I - T T' - N N') S / (lam variance).
    """

    def __init__(self, seen: InducingContrasts, variance: float, lam: float) -> None:
        self.seen, self.variance, self.lam = seen, variance, lam
        self.noise = variance * lam
        self.W = seen.weights / self.noise
        self.leverages = np.empty(len(self.W))
        for rows in seen.blocks():
            self.leverages[rows] = np.einsum("ij,ij->i", *(2 * [self._smoother(rows)]))

    def _smoother(self, rows: slice) -> Array:
        """Return rows of [T, N], (q, k + r)."""
        seen = self.seen
        h, phi, _ = seen.features(seen.points[rows])
        t = solve_triangular(seen.R, h.T, trans="T").T
        known = (phi - t @ seen.B) @ (seen.U / np.sqrt(seen.d + self.lam))
        return np.asarray(np.sqrt(seen.weights[rows])[:, None] * np.hstack([t, known]))

    @property
    def report(self) -> dict[str, Any]:
        """Nothing was added to the diagonal."""
        return {"jitter": 0.0}

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        S = np.sqrt(self.seen.weights)[:, None]
        SV, blocks = S * V, list(self.seen.blocks())
        inner = np.asarray(sum(self._smoother(rows).T @ SV[rows] for rows in blocks))
        for rows in blocks:
            SV[rows] -= self._smoother(rows) @ inner
        return np.asarray(S * SV / self.noise)

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        return np.asarray(A.T @ self.solve(B))

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return np.asarray(np.einsum("ij,ij->j", A, self.solve(A)))

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return np.asarray(self.W * (1.0 - self.leverages))

    def cov_diag(self) -> Array:
        """Posterior variance at the points of what the features can be, shape (n,)."""
        return np.asarray(self.leverages / self.W)

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return self.logdet_noisy() + float(np.log(self.W).sum())

    def logdet_noisy(self) -> float:
        """log |K + W^-1| + log |A|: the determinant of the vague evidence, GPML (2.45)."""
        seen = self.seen
        n, k, r = len(self.W), seen.k, seen.r
        pivots = 2.0 * float(np.log(np.abs(np.diagonal(seen.R))).sum())
        value = (n - k) * np.log(self.variance) + (n - k - r) * np.log(self.lam)
        value += np.log(seen.d + self.lam).sum() - np.log(seen.weights).sum()
        return float(value + pivots)
