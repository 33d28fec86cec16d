"""A stream of quantities on few points: the root of what is known of their values.

On points Z (m, d) with L L' = k(Z, Z) a row is known by its features phi(x) = L^-1 k(Z, x); what
they leave of its variance is res(x) = k(x, x) - |phi|^2. With b ~ N(0, I) before any row,

    |b|^2 + sum_i (y_i - phi_i'b)^2 / d_i = |R b - v|^2 + rest,                            (O14)

R (m, m) upper triangular, is all that is kept. Rows are added by reflections, which subtract
nothing; so are points, forgetting and other points (O15)-(O17). The prior is in R, but never lost:
what is forgotten is replaced by it.

References: Bui, Nguyen & Turner, Streaming sparse Gaussian process approximations (2017); Csato &
Opper, Sparse on-line Gaussian processes (2002). Theory (O14), (O15), (O16), (O17), (O18).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from mercer.core.arrays import Array, Index
from mercer.kernels.base import Kernel
from mercer.linalg.reduced.triangle import NEAR, triangle
from mercer.process.process import BATCH_BYTES, Prior, Process
from mercer.process.weights import bordered, reflect


@dataclass(frozen=True, eq=False)
class Ahead:
    """What is known of b rows before they are learned."""

    features: Array  # (m, b), phi of each
    half: Array  # (m, b), R^-T phi: its products are covariances
    mean: Array  # (b,)
    residual: Array  # (b,) >= 0, what the points leave of the prior variance

    @property
    def cov(self) -> Array:
        """The covariance (b, b) of phi'b, by what was learned: without the residuals."""
        return np.asarray(self.half.T @ self.half)

    @property
    def var(self) -> Array:
        """The variance (b,) of f."""
        return np.asarray(np.einsum("ij,ij->j", self.half, self.half) + self.residual)


@dataclass(frozen=True, eq=False)
class InducedStream(Process):
    """What a stream has learned of one function on m points; a value: steps return another one."""

    kernel: Kernel  # the prior covariance, without noise parts
    points: Array  # (m, d), Z
    L: Array  # (m, m) lower
    A: Array  # (m + 1, m + 1) by columns: [R v; 0 1] of (O14)
    tau: float = 0.0  # the sum of res_i / d_i: twice what the bound on the evidence pays for Z
    offset: float = 0.0  # the prior mean

    weighs = False

    @classmethod
    def empty(cls, kernel: Kernel, d: int, offset: float = 0.0) -> InducedStream:
        """Return the prior of a function of d columns: no row was seen, there is no point."""
        none = np.zeros((0, d)), np.zeros((0, 0)), bordered(np.zeros((0, 0)), np.zeros(0))
        return cls(kernel, *none, offset=offset)

    @property
    def R(self) -> Array:
        """R (m, m), upper; its diagonal may be of either sign."""
        return self.A[:-1, :-1]

    @property
    def v(self) -> Array:
        """v (m,) of (O14)."""
        return self.A[:-1, -1]

    @property
    def latents(self) -> tuple[InducedStream]:
        """The functions of the stream: this one."""
        return (self,)

    @cached_property
    def parent(self) -> Prior:
        """The process before any row, but for its mean."""
        return Prior(self.kernel)

    @cached_property
    def weights(self) -> Array:
        """The means of b (m,)."""
        return np.asarray(solve_triangular(self.R, self.v, check_finite=False))

    def logdet(self) -> float:
        """Half of log|R'R|, the information that was gained."""
        return float(np.log(np.abs(self.A.diagonal())).sum())  # the corner is one

    @property
    def alpha(self) -> Array:
        """Coefficients (m, 1) of formula (1)."""
        back = solve_triangular(self.L, self.weights, trans="T", lower=True, check_finite=False)
        return np.asarray(back)[:, None]

    # ------------------------------------------------------------------ the process
    def features(self, X: Array) -> Array:
        """phi of rows X (q, d), (m, q), by columns."""
        if not len(self.points):
            return np.zeros((0, len(X)), order="F")
        K = np.ascontiguousarray(self.kernel(X, self.points))
        return np.asarray(blas.dtrsm(1.0, self.L.T, K.T, trans_a=1, overwrite_b=1))

    def halved(self, F: Array, y: Array | None = None) -> tuple[Array, Array]:
        """R^-T F (m, q) for features F (m, q), and y - F'b (q,) at the mean of b; None: y = 0."""
        m, q = F.shape
        right = np.empty((m + 1, q), order="F")
        right[:m], right[m] = F, 0.0 if y is None else y
        both = blas.dtrsm(1.0, self.A, right, trans_a=1, overwrite_b=1)
        return both[:m], both[m]

    def ahead(self, X: Array) -> Ahead:
        """Return what is known of rows X (b, d) before they are learned."""
        F = self.features(X)
        half, minus = self.halved(F)
        # rounding can leave -1e-16 of the prior variance
        left = np.maximum(self.kernel.diag(X) - np.einsum("ij,ij->j", F, F), 0.0)
        return Ahead(F, half, self.offset - minus, left)

    def marginals(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance (q, 1) of f at X (q, d), in one pass."""
        size = max(1, BATCH_BYTES // (16 * (len(self.points) + 1)))
        parts = [self.ahead(X[i : i + size]) for i in range(0, len(X), size)]
        found = [np.concatenate([getattr(p, name) for p in parts]) for name in ("mean", "var")]
        return found[0][:, None], found[1][:, None]

    def mean(self, X: Array) -> Array:
        return self.marginals(X)[0]

    def diag(self, X: Array) -> Array:
        return self.marginals(X)[1][:, 0]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        F = self.features(X)
        G = F if Z is None else self.features(Z)
        left = self.halved(F)[0]
        right = left if Z is None else self.halved(G)[0]
        return np.asarray(self.kernel(X, Z) - F.T @ G + left.T @ right)

    # ------------------------------------------------------------------ learning
    def given(
        self, ahead: Ahead, y: Array, d: Array, *, taxed: bool = True
    ) -> tuple[InducedStream, float]:
        """Condition on y (b,), observations of phi'b with variance d (b,), and say by how much.

        The second is what ``rest`` of (O14) grows by. ``taxed``: the residuals are no part of d,
        and count for the bound; else they are, and f has them as a noise of its own.
        """
        m, b = ahead.features.shape
        rows = np.empty((b, m + 1), order="F")
        root = 1.0 / np.sqrt(d)
        np.multiply(ahead.features.T, root[:, None], out=rows[:, :m])
        rows[:, m] = root * (y - self.offset)
        A = self.A.copy(order="F")
        rest = reflect(A, rows)
        tau = self.tau + (float(np.sum(ahead.residual / d)) if taxed else 0.0)
        return replace(self, A=A, tau=tau), rest

    def forget(self, kept: float) -> tuple[InducedStream, float]:
        """Return the stream with all that was learned counting ``kept`` of what it did; and (O15).

        |b|^2 keeps its weight: R'R <- kept R'R + (1 - kept) I.
        """
        m = len(self.points)
        if kept == 1.0 or not m:
            return self, 0.0
        A = np.sqrt(kept) * self.A
        rows = np.zeros((m, m + 1), order="F")
        np.fill_diagonal(rows, np.sqrt(1.0 - kept))
        rest = reflect(A, rows, triangle=True)
        return replace(self, A=A, tau=kept * self.tau), rest

    def drift(self, share: float) -> InducedStream:
        """Return the law of sqrt(1 - share) f + sqrt(share) g, g from the prior, independent of f.

        With M = (1 - share) I + share R R' the precision R'R becomes R'M^-1 R.
        """
        m = len(self.points)
        if share == 0.0 or not m:
            return self
        R = np.triu(self.R)
        M = (1.0 - share) * np.eye(m) + share * (R @ R.T)
        half = solve_triangular(np.linalg.cholesky(M), R, lower=True, check_finite=False)
        after = np.asarray(np.linalg.qr(half, mode="r"))
        A = bordered(after, after @ (np.sqrt(1.0 - share) * self.weights))
        return replace(self, A=A, tau=(1.0 - share) * self.tau)

    # ------------------------------------------------------------------ the points
    def grown(self, X: Array) -> InducedStream:
        """Return it on further points X (p, d) as well: mean, variance and evidence stay.

        Those whose value the others say already, up to 1e-8 of its variance, are left out. (O16)
        """
        F = self.features(X)
        prior = np.maximum(self.kernel.diag(X), np.finfo(float).tiny)
        scale = np.sqrt(prior)
        left = (self.kernel(X) - F.T @ F) / scale / scale[:, None]
        if not left.diagonal().max(initial=0.0) > NEAR:  # LAPACK takes its first pivot unseen
            return self
        _, order, rank, _ = lapack.dpstrf(np.asfortranarray(left), tol=NEAR, lower=1)
        new = np.sort(order[:rank] - 1)  # the order of the rows
        C, info = lapack.dpotrf(left[np.ix_(new, new)], lower=1, clean=1)
        if info:
            return self
        m, p = len(self.points), len(new)
        L = np.zeros((m + p, m + p))
        L[:m, :m], L[m:, :m], L[m:, m:] = self.L, F[:, new].T, scale[new, None] * C
        A = np.zeros((m + p + 1, m + p + 1), order="F")
        A[:m, :m], A[:m, -1] = self.R, self.v
        A[m:, m:] = np.eye(p + 1)
        return replace(self, points=np.concatenate([self.points, X[new]]), L=L, A=A)

    def charges(self) -> Array:
        """Return for each point j what deleting it costs, |T e_j|^2 (m,): (O18).

        T'T = R'R - I is the information of the rows, e_j the unit vector of L^-1 column j.
        """
        E = solve_triangular(self.L, np.eye(len(self.L)), lower=True, check_finite=False)
        E /= np.sqrt(np.einsum("ij,ij->j", E, E))
        back = np.triu(self.R) @ E
        return np.asarray(np.maximum(np.einsum("ij,ij->j", back, back) - 1.0, 0.0))

    def on(self, points: Array) -> tuple[InducedStream, float]:
        """Return it on other points (p, d), and what (O14)'s ``rest`` grows by.

        The past is one Gaussian observation of the old values; with J = L^-1 k(Z, Zn) Ln^-T and
        I - J'J = G G', the new root is that of [G' 0; R J, v], which subtracts nothing: (O17).
        """
        Ln, used, _ = triangle(self.kernel(points))
        points = points[used]
        cross = self.features(points)  # L^-1 k(Z, Zn)
        J = np.asarray(solve_triangular(Ln, cross.T, lower=True, check_finite=False)).T
        left = self.kernel(points) - cross.T @ cross
        G: Array = np.asarray(solve_triangular(Ln, _root(left), lower=True, check_finite=False))
        p, R = len(points), np.triu(self.R)
        A = bordered(np.zeros((p, p)), np.zeros(p))
        RJ = R @ J
        rest = reflect(A, np.asfortranarray(np.column_stack([RJ, self.v])))
        rest += reflect(A, np.asfortranarray(np.column_stack([G.T, np.zeros(G.shape[1])])))
        lost = np.sum(R**2) - np.sum(RJ**2) - (len(R) - np.sum(J**2))
        tau = self.tau + max(float(lost), 0.0)  # nothing is lost: rounding
        return replace(self, points=points, L=Ln, A=A, tau=tau), rest

    def without(self, drop: Index) -> tuple[InducedStream, float]:
        """Return it without some of its points, as :meth:`on` the others."""
        return self.on(np.delete(self.points, drop, axis=0))


def _root(K: Array) -> Array:
    """G (p, r) with G G' = K (p, p), positive semidefinite up to rounding, r its rank."""
    C, order, rank, _ = lapack.dpstrf(np.asfortranarray(K), tol=-1.0, lower=1)
    root = np.zeros((len(K), rank))
    root[order - 1] = np.tril(C)[:, :rank]
    return root
