"""Sequential variational logistic regression: examples one after the other, in blocks.

This is the quadratic bound (:class:`mercer.inference.Bound`) in its sequential form. Each example
turns into a Gaussian observation y = S/(4 l) of precision W = 2 w l, with the xi that is best for
the posterior before it. On a block of b examples with prior mean M and covariance K, the
recurrences (18)-(23) are a Cholesky factor built column by column,

    R R' = K + diag(1/W),    v = R^-1 (y - M),

in which the pivot of an example needs its own l, and that needs the mean and variance after the
examples before it. So alpha = R^-T v and C = R^-T R^-1 in formulas (1) and (2).

A latent function in a stream is ``Growing``, by a triangular factor of C^-1 that grows by rows: for
a stream that is kept whole, theory (O6); or ``Explicit``, by C itself: for one that forgets, drifts
or is projected onto fewer points, theory (O8), (O9), (O10). Both are values.

Reference: Jaakkola & Haussler (1999), section 3; (8) with its sign corrected.
Theory (O1), (O2), (O3), (O4), (O5), (O7).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.linalg import lu_factor, lu_solve, solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpstrf, dtrtri

from mercer._native import sequential as native
from mercer.core.arrays import Array, Index, back_solve
from mercer.inference.base import Report, Solution
from mercer.linalg.gram import Factor
from mercer.linalg.operators import CholeskyOperator, PosteriorOperator

ONE_PASS = Report()  # a closed form for each example: there is nothing to converge
PANEL = 256  # rows of a panel: growth copies nothing, and half of the square is never stored
LEAST = 1e-6  # share of the largest pivot that a kept point must have


class BlockFactor(CholeskyOperator, Factor):
    """C = (K + W^-1)^-1 = R^-T R^-1, R (b, b) lower triangular, W (b,) > 0; gain = log|I + K W|."""

    def __init__(self, R: Array, W: Array, gain: float) -> None:
        super().__init__(R.T, np.ones(len(R)))
        self.W, self.gain = W, gain

    def solve(self, V: Array) -> Array:
        return self.half_transposed(self.half(V))

    def quad(self, A: Array, B: Array) -> Array:
        return self.reduce(A, B, None, None)

    def quad_diag(self, A: Array) -> Array:
        return self.reduce_diag(A, None)

    def diag(self) -> Array:
        return self.quad_diag(np.eye(len(self.W)))

    def cov_diag(self) -> Array:
        return np.asarray((1.0 - self.diag() / self.W) / self.W)

    def logdet(self) -> float:
        return self.gain

    def logdet_noisy(self) -> float:
        return 2.0 * float(np.log(self.cholesky.diagonal()).sum())

    def operator(self) -> CholeskyOperator:
        return CholeskyOperator(self.cholesky, self.scale)


@dataclass(frozen=True, kw_only=True)
class StreamSolution(Solution):
    """The posterior of one latent function given b examples, by way of those before each of them.

    ``log_q`` is the sum of the log bounds on the probability of each label given those before it: a
    lower bound on the log evidence of the block. ``gain`` is log |K| - log |K after the block|, the
    sum of log(1 + 2 w l kappa).
    """

    R: Array  # (b, b) lower triangular, as above
    v: Array  # (b,) as above
    mean: Array  # (b,) of each example before the block, from the caller
    var: Array
    xi: Array  # (b,) the variational parameters (23)
    M: Array  # (b,) mean and, kappa, variance of each example just before it was absorbed
    kappa: Array
    log_q: float
    gain: float


def absorb(mean: Array, cov: Array, S: Array, w: Array) -> StreamSolution:
    """Absorb b examples in their order: labels S = -1 or +1 (b,) of weight w > 0 (b,).

    ``mean`` (b,) and ``cov`` (b, b), of which the lower triangle is read, are those of the latent
    function before the block.

    Examples
    --------
    >>> import numpy as np
    >>> block = absorb(np.zeros(1), np.array([[3.0]]), np.ones(1), np.ones(1))
    >>> block.xi.round(6)
    array([1.648394])
    """
    b = len(mean)
    R, found = np.empty((b, b)), np.empty((4, b))
    mean, cov, S, w = (np.ascontiguousarray(each, dtype=np.float64) for each in (mean, cov, S, w))
    log_q, gain = native.absorb(mean, cov, S, w, R, found)
    v, xi, M, kappa = found
    lam = np.array([native.curvature(each) for each in xi.tolist()])
    W = 2.0 * w * lam
    alpha = back_solve(R.T, v[:, None]) if b else np.empty((0, 1))
    z, factor = (S / (4.0 * lam) - mean)[:, None], BlockFactor(R, W, gain)
    own: dict[str, Any] = {"R": R, "v": v, "mean": mean, "var": cov.diagonal().copy()}
    own |= {"xi": xi, "M": M}
    own |= {"kappa": kappa, "log_q": log_q, "gain": gain}
    return StreamSolution(alpha, W, z, factor, None, w, ONE_PASS, **own)


# mean (b,), covariance (b, b), labels and weights (b,) -> what they become: absorb, or another rule
Rule: TypeAlias = Callable[[Array, Array, Array, Array], StreamSolution]


class Latent(PosteriorOperator):
    """The operator C of one latent function on n points, with its alpha (n,).

    ``gain`` is -log|I - C K|, the log of |prior| / |posterior|, as if no point had been dropped:
    with what :meth:`Explicit.information` finds, it says what the projections cost.
    """

    gain: float

    @abstractmethod
    def parts(self, K: Array) -> tuple[Array, Array, Array]:
        """Return mean (q,), A and B (n, q) with K'C K = A'B, for K = k(P, X) (n, q)."""

    @abstractmethod
    def grown(self, B: Array, block: StreamSolution) -> Self:
        """Return the function given a block of b examples; B (n, b) is that of :meth:`parts`."""

    def settled(self) -> Latent:
        """Return the same with nothing left to be done later."""
        return self

    @abstractmethod
    def turned(self) -> Latent:
        """Return less the function: what the other labels would have taught."""

    @abstractmethod
    def explicit(self) -> Explicit:
        """Return the same with C itself."""

    def marginals(self, K: Array) -> tuple[Array, Array]:
        """Return mean (q,) and reduction of the variance (q,) for K = k(P, X) (n, q)."""
        mean, A, B = self.parts(K)
        return mean, np.einsum("ij,ij->j", A, B)

    def absorb(
        self, K: Array, prior: Array, S: Array, w: Array, offset: float = 0.0, rule: Rule = absorb
    ) -> tuple[Self, StreamSolution]:
        """Absorb b examples: K = k(P, X) (n, b), prior = k(X, X) (b, b), labels, weights (b,).

        ``offset`` is the prior mean, which is no part of alpha.
        """
        mean, A, B = self.parts(K)
        block = rule(mean + offset, prior - A.T @ B, S, w)
        return self.grown(B, block), block

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        _, left, right = self.parts(A)
        return np.asarray(left.T @ (right if B is A else self.parts(B)[2]))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        return self.marginals(A)[1]


@dataclass(frozen=True, eq=False)
class Explicit(Latent):
    """C, symmetric, and alpha (N,).

    Right after :meth:`absorb`, C (n, n) is that of the points before it and E (b, N) what the new
    examples add: the whole is C, bordered by zeros, plus E'E, and b rows are less to project than
    N. :meth:`settled` adds it up; E is then None.
    """

    C: Array
    alpha: Array
    gain: float
    E: Array | None = None

    def parts(self, K: Array) -> tuple[Array, Array, Array]:
        return np.asarray(K.T @ self.alpha), K, self.settled().C @ K

    def grown(self, B: Array, block: StreamSolution) -> Explicit:
        n, b = B.shape
        E = np.empty((n + b, b)).T  # R^-1 [-K'C, I]; examples change fastest, as BLAS likes it
        E[:, n:] = dtrtri(block.R.T)[0].T
        np.matmul(B, E[:, n:].T, out=E[:, :n].T)
        np.negative(E[:, :n], out=E[:, :n])
        alpha = E.T @ block.v
        alpha[:n] += self.alpha
        return Explicit(self.settled().C, alpha, self.gain + block.gain, E)

    def settled(self) -> Explicit:
        if self.E is None:
            return self
        C, n = self.E.T @ self.E, len(self.C)
        C[:n, :n] += self.C
        return Explicit(C, self.alpha, self.gain)

    def explicit(self) -> Explicit:
        return self

    def turned(self) -> Explicit:
        return Explicit(self.C, -self.alpha, self.gain, self.E)

    # ------------------------------------------------------------------ change
    def forget(self, rho: float, K: Array) -> Explicit:
        """Return q^rho p^(1 - rho), normalised, for the prior p = N(0, K) on the points.

        The precision becomes rho S^-1 + (1 - rho) K^-1: with C = (K + N)^-1 and alpha = C y that is
        N / rho in place of N, so

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

        C' = (1 - share) C, alpha' = sqrt(1 - share) alpha. The prior is what it was: f is now a
        process with kernel k(x, z) (1 - share)^(|s - t|/2) over the steps s, t.
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

        Twice the divergence is at least alpha^2 v - C v - log(1 - C v) for a point of prior
        variance v given all others, where C v < 1: it grows with both.
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
        old, gone = (index[index < len(self.C)] for index in (keep, drop))
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


@dataclass(frozen=True, eq=False)
class Growing(Latent):
    """R in panels of rows, R R' = K + diag(1/(2 w l)), and v = R^-1 y (n,).

    Panel i holds rows i PANEL ... of R and has a column for each row up to its own last. The rows
    after the n-th are spare; ``taken`` (one number, shared by all who hold the last panel) says how
    many rows someone has written: two continuations of one state do not meet.
    """

    panels: tuple[Array, ...]
    v: Array
    gain: float
    taken: list[int]

    @classmethod
    def empty(cls) -> Growing:
        """Return the latent function before any example."""
        return cls((), np.zeros(0), 0.0, [0])

    def turned(self) -> Growing:
        return Growing(self.panels, -self.v, self.gain, self.taken)

    def rows(self, i: int) -> Array:
        """Return the used rows of panel i, all its columns."""
        return self.panels[i][: len(self.v) - i * PANEL]

    def whiten(self, K: Array) -> Array:
        """Return R^-1 K for K (n, q)."""
        T = np.empty(K.shape)
        for i in range(len(self.panels)):
            rows, a = self.rows(i), i * PANEL
            z = a + len(rows)
            rest = K[a:z] - rows[:, :a] @ T[:a]
            T[a:z] = solve_triangular(rows[:, a:z], rest, lower=True, check_finite=False)
        return T

    def parts(self, K: Array) -> tuple[Array, Array, Array]:
        T = self.whiten(K)
        return np.asarray(T.T @ self.v), T, T

    def grown(self, B: Array, block: StreamSolution) -> Growing:
        return self.with_rows(np.hstack([B.T, block.R]), block.v, self.gain + block.gain)

    def explicit(self) -> Explicit:
        G = self.whiten(np.eye(len(self.v)))
        return Explicit(G.T @ G, G.T @ self.v, self.gain)

    def with_rows(self, rows: Array, v: Array, gain: float) -> Growing:
        """Return the state with further rows of R (b, n + b), and v (b,) of them."""
        n, panels, taken = len(self.v), list(self.panels), self.taken
        if panels and taken[0] != n:  # someone else wrote the spare rows of the last panel
            panels[-1], taken = panels[-1].copy(), [n]
        done = 0
        while done < len(rows):
            i, k = divmod(n + done, PANEL)
            if i == len(panels):
                taken[0] = n + done
                panels.append(np.zeros((PANEL, (i + 1) * PANEL)))
                taken = [n + done]
            part = rows[done : done + PANEL - k, : (i + 1) * PANEL]
            panels[i][k : k + len(part), : part.shape[1]] = part
            done += len(part)
        taken[0] = n + len(rows)
        return Growing(tuple(panels), np.concatenate([self.v, v]), gain, taken)


class Kept(NamedTuple):
    """The points to keep and to drop, both ascending."""

    keep: Index
    drop: Index
    A: Array  # (k, d) = K_kk^-1 K_kd
    V: Array  # (d, d) = K_dd - K_dk A, the prior covariance of the dropped given the kept


def chosen(K: Array, stakes: Array, budget: int) -> Kept:
    """Choose at most ``budget`` of N points with prior covariance K (N, N) and stakes (N,) >= 0.

    Greedily, each the one with the largest prior variance left by those before it, times its
    stake: one pivoted Cholesky factor of K, scaled by the roots of the stakes.
    """
    root = np.sqrt(np.maximum(stakes, LEAST * stakes.max()))
    scaled = K * root
    scaled *= root[:, None]
    least = LEAST * scaled.diagonal().max()
    L, order, rank, _ = dpstrf(scaled.T, tol=least, lower=1, overwrite_a=1)
    if rank < 1:  # the prior is zero on all points, and f with it: one of them tells as much as any
        points = np.arange(len(K), dtype=np.intp)
        return Kept(points[:1], points[1:], np.zeros((1, len(K) - 1)), K[1:, 1:].copy())
    k = min(int(rank), budget)
    order = order.astype(np.intp) - 1
    first, last = np.argsort(order[:k]), np.argsort(order[k:])
    keep, drop = order[:k][first], order[k:][last]
    low = np.ascontiguousarray(L[k:, :k][last])
    # with the pivots in order K = L L' / (root root'): K_kk^-1 K_kd = root L_kk^-T L_dk' / root
    A = dtrsm(1.0, L[:k, :k], low.T, lower=1, trans_a=1)[first]
    A *= root[keep][:, None]
    A /= root[drop]
    low /= root[drop][:, None]
    return Kept(keep, drop, A, K[drop].T[drop] - low @ low.T)
