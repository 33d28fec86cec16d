"""A latent function in a stream: mean k(x, P) alpha, covariance k - k(x, P) C k(P, z).

Two forms of the same: a factor of C^-1 that grows by rows (``sequential_growing``), for a stream
that is kept whole, and C itself, for one that forgets or is projected onto fewer points. Both are
values: absorbing examples returns another one, and the old one stays as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import lu_factor, lu_solve, solve_triangular

from mercer.arrays import Array, Index
from mercer.inference.sequential import Block, absorb


class Latent(ABC):
    """What both forms do.

    ``gain`` is -log|I - C K|, the log of |prior| / |posterior|, as if no point had been dropped:
    with what :meth:`Explicit.information` finds, it says what the projections cost.
    """

    gain: float

    @abstractmethod
    def moments(self, K: Array) -> tuple[Array, Array]:
        """Return mean (q,) and reduction of the variance (q,) for K = k(P, X) (n, q)."""

    @abstractmethod
    def absorb(self, K: Array, prior: Array, S: Array, w: Array) -> tuple[Self, Block]:
        """Absorb b examples: K = k(P, X) (n, b), prior = k(X, X) (b, b), labels, weights (b,)."""

    @abstractmethod
    def explicit(self) -> Explicit:
        """Return the same with C itself."""


@dataclass(frozen=True, eq=False)
class Explicit(Latent):
    """C (n, n), symmetric, and alpha (n,)."""

    C: Array
    alpha: Array
    gain: float

    def moments(self, K: Array) -> tuple[Array, Array]:
        """See :meth:`Latent.moments`."""
        return np.asarray(K.T @ self.alpha), np.einsum("ij,ij->j", K, self.C @ K)

    def absorb(self, K: Array, prior: Array, S: Array, w: Array) -> tuple[Explicit, Block]:
        """See :meth:`Latent.absorb`: C grows by b rows and columns, then by E'E of rank b."""
        CK = self.C @ K
        reduction = K.T @ CK
        cov = prior - 0.5 * (reduction + reduction.T)
        block = absorb(K.T @ self.alpha, cov, S, w)
        n, b = K.shape
        E = solve_triangular(block.R, np.hstack([-CK.T, np.eye(b)]), lower=True, check_finite=False)
        C = E.T @ E
        C[:n, :n] += self.C
        alpha = E.T @ block.v
        alpha[:n] += self.alpha
        return Explicit(C, alpha, self.gain + block.gain), block

    def explicit(self) -> Explicit:
        """See :meth:`Latent.explicit`."""
        return self

    def forget(self, rho: float, K: Array) -> Explicit:
        """Return q^rho p^(1 - rho), normalised, for the prior p = N(0, K) on the points.

        The precision becomes rho S^-1 + (1 - rho) K^-1 and the mean follows by the same weights.
        With C = (K + N)^-1 and alpha = C y that is N / rho in place of N, so

            C' = rho (I - (1 - rho) C K)^-1 C,    alpha' = rho (I - (1 - rho) C K)^-1 alpha,

        where no inverse of K is needed. The eigenvalues of C K lie in [0, 1).
        """
        lu = lu_factor(np.eye(len(K)) - (1.0 - rho) * (self.C @ K), check_finite=False)
        C = rho * lu_solve(lu, self.C, check_finite=False)
        alpha = rho * lu_solve(lu, self.alpha, check_finite=False)
        change = float(np.log(np.abs(lu[0].diagonal())).sum())
        return Explicit(0.5 * (C + C.T), alpha, self.gain + change)

    def shift(self, K: Array) -> float:
        """Return alpha'K alpha - tr C K; with -log|I - C K| added, twice KL(q | p)."""
        return float(self.alpha @ K @ self.alpha - np.einsum("ij,ij->", self.C, K))

    def information(self, K: Array) -> float:
        """Return -log|I - C K| of the points there are: O(n^3)."""
        return -float(np.linalg.slogdet(np.eye(len(K)) - self.C @ K)[1])

    def project(self, keep: Index, drop: Index, A: Array) -> Explicit:
        """Return q on the kept points, with the prior's law of all else given those.

        A (k, d) = K_kk^-1 K_kd. With B = [I, A]', kept points first,
        C' = B'C B and alpha' = B'alpha: nothing cancels.
        """
        order, k = np.concatenate([keep, drop]), len(keep)
        whole = self.C[order[:, None], order]
        half = whole[:k, k:] @ A.T + 0.5 * (A @ (whole[k:, k:] @ A.T))
        C = whole[:k, :k] + half + half.T
        alpha = self.alpha[keep] + A @ self.alpha[drop]
        return Explicit(C, alpha, self.gain)
