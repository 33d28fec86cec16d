"""A latent function in a stream by its C and alpha: it can forget, drift and be projected.

Theory (O8), (O9), (O10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.linalg.lapack import dtrtri

from mercer.arrays import Array, Index
from mercer.inference.sequential import Block, absorb
from mercer.inference.sequential_latent import Latent


@dataclass(frozen=True, eq=False)
class Explicit(Latent):
    """C, symmetric, and alpha (N,).

    Right after :meth:`absorb`, C (n, n) is that of the points before it and E (b, N) what the new
    examples add: the whole is C, bordered by zeros, plus E'E. If points are dropped at once, this
    is a matrix of b rows to project, not of N. :meth:`settled` adds it up; E is then None.
    """

    C: Array
    alpha: Array
    gain: float
    E: Array | None = None

    def moments(self, K: Array) -> tuple[Array, Array]:
        """See :meth:`Latent.moments`."""
        whole = self.settled()
        return np.asarray(K.T @ whole.alpha), np.einsum("ij,ij->j", K, whole.C @ K)

    def joint(self, K: Array) -> tuple[Array, Array]:
        """See :meth:`Latent.joint`."""
        whole = self.settled()
        return np.asarray(K.T @ whole.alpha), np.asarray(K.T @ (whole.C @ K))

    def absorb(self, K: Array, prior: Array, S: Array, w: Array) -> tuple[Explicit, Block]:
        """See :meth:`Latent.absorb`: C grows by b rows and columns, and by E'E of rank b."""
        C, (n, b) = self.settled().C, K.shape
        CK = C @ K
        block = absorb(K.T @ self.alpha, prior - K.T @ CK, S, w)
        E = np.empty((n + b, b)).T  # R^-1 [-K'C, I]; examples change fastest, as BLAS likes it
        E[:, n:] = dtrtri(block.R.T)[0].T
        np.matmul(CK, E[:, n:].T, out=E[:, :n].T)
        np.negative(E[:, :n], out=E[:, :n])
        alpha = E.T @ block.v
        alpha[:n] += self.alpha
        return Explicit(C, alpha, self.gain + block.gain, E), block

    def settled(self) -> Explicit:
        """See :meth:`Latent.settled`."""
        if self.E is None:
            return self
        C, n = self.E.T @ self.E, len(self.C)
        C[:n, :n] += self.C
        return Explicit(C, self.alpha, self.gain)

    def explicit(self) -> Explicit:
        """See :meth:`Latent.explicit`."""
        return self

    # ------------------------------------------------------------------ change
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

    def drift(self, share: float, K: Array) -> Explicit:
        """Return the law of sqrt(1 - share) f + sqrt(share) g, g ~ N(0, K) independent of f.

        The covariance becomes (1 - share) S + share K and the mean sqrt(1 - share) m:

            C' = (1 - share) C,    alpha' = sqrt(1 - share) alpha.

        The prior is what it was: f is now a process with kernel k(x, z) (1 - share)^(|s - t|/2)
        over the steps s, t.
        """
        kept = 1.0 - share
        after = Explicit(kept * self.C, np.sqrt(kept) * self.alpha, 0.0)
        change = after.information(K) - self.information(K)
        return Explicit(after.C, after.alpha, self.gain + change)

    def information(self, K: Array) -> float:
        """Return -log|I - C K| of the points there are: O(n^3)."""
        return -float(np.linalg.slogdet(np.eye(len(K)) - self.C @ K)[1])

    # ------------------------------------------------------------------ projection
    def stakes(self) -> Array:
        """Return C_ii + alpha_i^2 (N,): what dropping a point costs, about, for unit variance left.

        Twice the divergence of dropping one point, of prior variance v given all others, is at
        least alpha^2 v - C v - log(1 - C v), where C v < 1: it grows with both.
        """
        found = np.square(self.alpha)
        found[: len(self.C)] += self.C.diagonal()
        return found if self.E is None else found + np.einsum("ij,ij->j", self.E, self.E)

    def moved(self, drop: Index, V: Array) -> float:
        """Return alpha_d'V alpha_d - tr C_dd V for the dropped, V (d, d) = cov(f_d | f_k).

        With the change of -log|I - C K| it is twice the divergence lost.
        """
        old = drop[drop < len(self.C)]
        C, alpha = np.zeros(V.shape), self.alpha[drop]
        C[: len(old), : len(old)] = self.C[old[:, None], old]
        if self.E is not None:
            C += self.E[:, drop].T @ self.E[:, drop]
        return float(alpha @ V @ alpha - np.einsum("ij,ij->", C, V))

    def project(self, keep: Index, drop: Index, A: Array) -> Explicit:
        """Return q on the kept points, with the prior's law of all else given those.

        A (k, d) = K_kk^-1 K_kd; both indices ascend. With B = [I, A]', kept points first,
        C' = B'C B and alpha' = B'alpha: nothing cancels.
        """
        n = len(self.C)
        old, gone = keep[keep < n], drop[drop < n]
        lost = A[:, : len(gone)]  # of the points that C knows
        mine, rest = self.C[old], self.C[gone]
        half = 0.5 * (lost @ rest[:, gone])
        half[: len(old)] += mine[:, gone]
        C = half @ lost.T
        C = C + C.T
        C[: len(old), : len(old)] += mine.T[old]  # C is symmetric, and whole rows are copied fast
        if self.E is not None:
            E = self.E[:, keep] + self.E[:, drop] @ A.T
            C += E.T @ E
        return Explicit(C, self.alpha[keep] + A @ self.alpha[drop], self.gain)
