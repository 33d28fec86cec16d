"""Manifold: the prior that a graph conditions, and the function learned on it, batch by batch.

Each batch X with the matrix M = 2 beta L of its graph changes the kernel and then, by its labels,
the function (Hou & Hero, Theorem 2):

    k_t(x, z) = k_{t-1}(x, z) - k_{t-1}(x, X) P_t k_{t-1}(X, z),   P_t = (I + M K)^-1 M       (3)
    f_t(x) = sum_i k_t(x, x_i) c_i

over all labelled rows so far: old coefficients always go with the newest kernel. A batch is taken
in two steps: :meth:`Manifold.smooth` conditions the prior on the graph (alpha = 0, C = P_t), and
:attr:`Smoothed.learn` takes what an inference found on it. ``Whole`` is exact, in memory O(n^2) for
n rows; theory (M8), (M9).

``Landmarked`` has bounded memory. With phi(x) = R^-1 k(Z, x), R R' = k(Z, Z) for m landmarks Z, the
smoothness of a batch X counts for the part of f that the landmarks see:

    G <- G + phi(X) M phi(X)',    h <- h + sum_i phi(x_i) c_i
    k_t(x, z) = phi(x)'G^-1 phi(z) + [k(x, z) - phi(x)'phi(z)]
    f(x) = phi(x)'G^-1 h + sum_i [k(x, x_i) - phi(x)'phi(x_i)] c_i

The brackets are the residual: without them the landmarks are all there is. Both kernels are
positive semidefinite by construction, and with all rows as landmarks it is the exact method.
Theory (M10), (M11).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import block_diag, csr_array

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_bytes, require_memory
from mercer.kernels.base import Kernel
from mercer.kernels.features.nystroem import pivots
from mercer.linalg.graph import RootOperator, Smoothness

ROWS = 256  # of a block triangular matrix that are multiplied at a time


class Smoothed(NamedTuple):
    """A prior that knows the graph of a batch, and nothing yet of its l labelled rows.

    ``covariance`` (l, l) is k_t among them; ``latent`` (l, k) is f before the labels, with the new
    kernel, None for zero; ``learn`` returns the manifold with their coefficients c (l, k).
    """

    covariance: Array
    latent: Array | None
    learn: Callable[[Array], Manifold]


@dataclass(frozen=True, eq=False)
class Manifold(ABC):
    """k functions f(x) = k(x, points) weights; a value: every step returns another one."""

    kernel: Kernel  # before any smoothing
    points: Array  # (p, d)
    rows: Index  # (p,) their places in the stream, rising
    coef: Array  # (p, k) c of (3), zero for points without a label
    weights: Array  # (p, k)

    @abstractmethod
    def smooth(self, X: Array, rows: Index, M: Any, at: Index) -> Smoothed:
        """Update the kernel with X (n, d), whose graph has the sparse matrix M (n, n).

        ``rows`` (n,) are the places of X in the stream; ``at`` (l,) are those of X with labels, a
        row twice if it has two.
        """

    @abstractmethod
    def root_of_operator(self) -> Array:
        """Return Q (r, p) of C = Q'Q with k_t(x, z) = k(x, z) - k(x, points) C k(points, z)."""

    def operator(self) -> RootOperator:
        """Return C, computed when a covariance is first asked for: a mean does not need it."""
        return RootOperator(self.root_of_operator)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return plain values on the memory, for a report."""


@dataclass(frozen=True, eq=False)
class Whole(Manifold):
    """All rows, exact.

    The root Q of C = Q'Q is block lower triangular: the rows of batch t are
    T_t' [-k_{t-1}(X_t, .) part, I], P_t = T_t T_t'.
    """

    graph: Any  # (p, p) sparse, the matrices M of the batches side by side
    root: Array | None  # (r, p) Q, None if it is yet to be computed
    extent: Index  # (r,) columns of each row of the root beyond which it is zero

    @classmethod
    def empty(cls, kernel: Kernel, d: int, k: int) -> Whole:
        """Return k functions of d columns that are zero, before any row."""
        none, rows, root = np.zeros((0, k)), np.zeros(0, dtype=np.intp), np.zeros((0, 0))
        return cls(kernel, np.zeros((0, d)), rows, none, none, csr_array((0, 0)), root, rows)

    def rooted(self) -> Whole:
        """Return the same with its root: after a fit at once, which does not need it."""
        if self.root is not None:
            return self
        require_memory(len(self.points), 4)
        root = Smoothness(self.kernel(self.points), self.graph).root()
        return replace(self, root=root, extent=np.full(len(root), len(self.points)))

    def root_of_operator(self) -> Array:
        root = self.rooted().root
        assert root is not None
        return root

    def smooth(self, X: Array, rows: Index, M: Any, at: Index) -> Smoothed:
        whole, N, n = self.rooted(), len(self.points), len(X)
        Q, extent = whole.root, whole.extent
        assert Q is not None
        require_memory(N + n, 3, "an exact stream", "give a budget, or learn")
        cross = between(self.kernel, self.points, X)
        before = _times(Q, extent, cross)  # psi_s(X), s < t
        K = self.kernel(X) - before.T @ before
        f = cross.T @ self.weights
        T = Smoothness(K, M).root()
        new = T @ K
        root = np.zeros((len(Q) + len(T), N + n))
        root[: len(Q), :N] = Q
        root[len(Q) :, :N] = -_times_left(T @ before.T, Q, extent)
        root[len(Q) :, N:] = T
        # f goes with the new kernel: f - k_{t-1}(., X) P f(X)
        pull = T @ f
        weights = np.concatenate([self.weights, np.zeros((n, f.shape[1]))])
        weights -= root[len(Q) :].T @ pull
        after = Whole(
            self.kernel,
            np.concatenate([self.points, X]),
            np.concatenate([self.rows, rows]),
            np.concatenate([self.coef, np.zeros((n, f.shape[1]))]),
            weights,
            csr_array(block_diag([self.graph, M], format="csr")) if N else csr_array(M),
            root,
            np.concatenate([extent, np.full(len(T), N + n, dtype=np.intp)]),
        )
        half = np.concatenate([before, new])
        inner = np.asarray((K - new.T @ new)[np.ix_(at, at)])
        learn = partial(after.learned, N + at, half[:, at])
        return Smoothed(inner, (f - new.T @ pull)[at], learn)

    def learned(self, place: Index, half: Array, c: Array) -> Whole:
        """Return the same with coefficients c (l, k) of the points ``place`` (l,).

        ``half`` (r, l) is Q k(., x) of these points.
        """
        assert self.root is not None
        coef, weights = self.coef.copy(), self.weights.copy()
        np.add.at(coef, place, c)
        np.add.at(weights, place, c)
        weights -= self.root.T @ (half @ c)
        return replace(self, coef=coef, weights=weights)

    def describe(self) -> dict[str, Any]:
        return {"form": "exact", "points": len(self.points)}


def at_once(kernel: Kernel, X: Array, rows: Index, M: Any, at: Index) -> Smoothed:
    """Return :meth:`Whole.smooth` of the only batch, without the root that a further one needs.

    With M = 0 the kernel stays as it is.
    """
    smooth: Smoothness | None = None
    half = np.zeros((0, len(at)))
    if M.data.any():
        require_memory(len(X), 5, "a graph kernel", "fit")
        K = kernel(X)
        columns = K[:, at]
        smooth = Smoothness(K, M)
        del K
        half = smooth.half(columns)
        covariance = columns[at] - half.T @ half  # k_new, equation (3)
    else:
        require_memory(len(at), 3)
        covariance = kernel(X[at])

    def learn(c: Array) -> Whole:
        coef = np.zeros((len(X), c.shape[1]))
        np.add.at(coef, at, c)
        weights = coef if smooth is None else coef - smooth.back(half @ c)
        return Whole(kernel, X, rows, coef, weights, M, None, np.zeros(0, dtype=np.intp))

    return Smoothed(covariance, None, learn)


@dataclass(frozen=True, eq=False)
class Landmarked(Manifold):
    """Landmarks Z = points[place]; the other points are support vectors.

    At most ``per_batch`` landmarks are taken of a batch, ``most`` in all, and ``support`` support
    vectors are kept; the landmarks alone represent those that have gone.
    """

    place: Index  # (m,) the landmarks, in the order in which they were taken
    R: Array  # (m, m) lower triangular
    G: Array  # (m, m)
    h: Array  # (m, k) over all labelled rows, those included whose support vectors have gone
    phi: Array  # (m, p) of the points
    residual: bool  # whether k_t has the brackets
    per_batch: int
    most: int
    support: int
    gone: int = 0

    def smooth(self, X: Array, rows: Index, M: Any, at: Index) -> Smoothed:
        room = min(self.per_batch, self.most - len(self.place))
        m, n, p = len(self.place) + max(room, 0), len(X), len(self.points)
        require_bytes(  # R, G, their factors; phi of the batch, as it is made; phi of all points
            8 * m * (5 * m + 4 * n + 3 * (n + p)),
            f"a batch of {n} rows on {m} landmarks",
            "give fewer rows at a time, or lower max_landmarks or max_support",
        )
        here = _solve(self.R, between(self.kernel, self.points[self.place], X))
        chosen, more = pivots(self.kernel, X, room, here)
        here = np.concatenate([here, more])
        m, p = len(self.R), len(chosen)
        R, G = np.zeros((m + p, m + p)), np.eye(m + p)
        R[:m, :m], R[m:] = self.R, np.tril(here[:, chosen].T, m)
        G[:m, :m] = self.G
        added = here @ (M @ here.T)
        G += 0.5 * (added + added.T)
        # the support vectors count in full for the landmarks that are new as well
        apart = between(self.kernel, X[chosen], self.points) - R[m:, :m] @ self.phi
        old = np.concatenate([self.phi, _solve(R[m:, m:], apart)])
        h = np.concatenate([self.h, old[m:] @ self.coef])
        coef = np.concatenate([self.coef, np.zeros((len(X), h.shape[1]))])
        after = replace(
            self,
            points=np.concatenate([self.points, X]),
            rows=np.concatenate([self.rows, rows]),
            coef=coef,
            weights=np.zeros_like(coef),  # computed when the labels are known
            place=np.concatenate([self.place, len(self.points) + chosen]),
            R=R,
            G=G,
            h=h,
            phi=np.concatenate([old, here], axis=1),
        )
        U, at = cholesky(G, lower=True), len(self.points) + at
        K, f = after._at(at, U) if len(at) else (np.zeros((0, 0)), None)
        return Smoothed(K, f, partial(after.learned, at, U))

    def _at(self, at: Index, U: Array) -> tuple[Array, Array]:
        """Return k_t (l, l) and f (l, k) at the points ``at`` (l,); U U' = G."""
        phi = self.phi[:, at]
        half = _solve(U, phi)
        K = half.T @ half
        if self.residual:
            K += self.kernel(self.points[at]) - phi.T @ phi
        f = phi.T @ (_twice(U, self.h) - self.phi @ self.coef)
        held = np.flatnonzero(np.any(self.coef != 0.0, axis=1))
        if len(held):
            f += self.kernel(self.points[at], self.points[held]) @ self.coef[held]
        return np.asarray(K), np.asarray(f)

    def learned(self, at: Index, U: Array, c: Array) -> Landmarked:
        """Return the same with coefficients c (l, k) of the points ``at`` (l,); U U' = G."""
        h, coef = self.h + self.phi[:, at] @ c, self.coef.copy()
        if self.residual:
            np.add.at(coef, at, c)
        return _pruned(replace(self, h=h, coef=coef), U)

    def root_of_operator(self) -> Array:
        if not self.residual:
            raise ValueError(
                "without the residual the covariance is that of the landmarks alone, and not the "
                "kernel less a part of it; use residual=True"
            )
        values, V = np.linalg.eigh(self.G)
        shrunk = np.sqrt(np.maximum(1.0 - 1.0 / values, 0.0))  # rounding: eigenvalues are >= 1
        root = np.zeros((len(self.G), len(self.points)))
        root[:, self.place] = _solve(self.R, V * shrunk, "T").T
        return root

    def describe(self) -> dict[str, Any]:
        held = int(np.count_nonzero(np.any(self.coef != 0.0, axis=1)))
        kept = {"residual": self.residual, "support": held, "dropped_support_vectors": self.gone}
        return {"form": "landmarks", "landmarks": len(self.place)} | kept


def landmarked(
    whole: Whole, residual: bool, per_batch: int, most: int, support: int, count: int
) -> Landmarked:
    """Return an exact manifold on ``count`` of its rows as landmarks, at most."""
    place, phi = pivots(whole.kernel, whole.points, min(count, most))
    R = np.ascontiguousarray(np.tril(phi[:, place].T))
    seen = phi @ (whole.graph @ phi.T)
    G = np.eye(len(place)) + 0.5 * (seen + seen.T)
    coef = whole.coef if residual else np.zeros_like(whole.coef)
    start = (whole.kernel, whole.points, whole.rows, coef, np.zeros_like(coef))
    own = (place, R, G, phi @ whole.coef, phi)
    part = Landmarked(*start, *own, residual, per_batch, most, support)
    return _pruned(part, cholesky(G, lower=True))


def _pruned(part: Landmarked, U: Array) -> Landmarked:
    """Return the manifold with its weights, and without what it need not keep; U U' = G.

    Of too many support vectors those go whose residual part in f is smallest,
    [k(x_i, x_i) - |phi(x_i)|^2] |c_i|^2: it is the squared norm of what is lost. What is then
    neither landmark nor support vector goes as well.
    """
    phi, coef, size = part.phi, part.coef, np.einsum("ij,ij->i", part.coef, part.coef)
    held = np.flatnonzero(size)
    over = max(0, len(held) - part.support)
    if over:
        left = part.kernel.diag(part.points[held]) - np.einsum("ij,ij->j", phi, phi)[held]
        coef = coef.copy()
        coef[held[np.argsort(left * size[held], kind="stable")[:over]]] = 0.0
    weights = coef.copy()
    weights[part.place] += _solve(part.R, _twice(U, part.h) - phi @ coef, "T")
    use = np.any(coef != 0.0, axis=1)
    use[part.place] = True
    return replace(
        part,
        points=np.ascontiguousarray(part.points[use]),
        rows=part.rows[use],
        coef=np.ascontiguousarray(coef[use]),
        weights=np.ascontiguousarray(weights[use]),
        phi=np.ascontiguousarray(phi[:, use]),
        place=(np.cumsum(use) - 1)[part.place].astype(np.intp),
        gone=part.gone + over,
    )


def _solve(R: Array, V: Array, trans: Literal["N", "T"] = "N") -> Array:
    """R^-1 V, also for no landmarks; R^-T V with trans="T"."""
    if not len(R):
        return np.zeros((0, V.shape[1]))
    return np.asarray(solve_triangular(R, V, lower=True, trans=trans, check_finite=False))


def _twice(U: Array, V: Array) -> Array:
    """(U U')^-1 V."""
    return _solve(U, _solve(U, V), "T")


def between(kernel: Kernel, A: Array, B: Array) -> Array:
    """k(A, B) (p, q), also where there are no points yet."""
    return kernel(A, B) if len(A) and len(B) else np.zeros((len(A), len(B)))


def _times(Q: Array, extent: Index, V: Array) -> Array:
    """Q V (r, q) for a block triangular Q (r, p)."""
    result = np.empty((len(Q), V.shape[1]))
    for start in range(0, len(Q), ROWS):
        part = Q[start : start + ROWS]
        used = extent[start + len(part) - 1]
        result[start : start + ROWS] = part[:, :used] @ V[:used]
    return result


def _times_left(V: Array, Q: Array, extent: Index) -> Array:
    """V Q (q, p) for a block triangular Q (r, p)."""
    result = np.zeros((len(V), Q.shape[1]))
    for start in range(0, len(Q), ROWS):
        part = Q[start : start + ROWS]
        used = extent[start + len(part) - 1]
        result[:, :used] += V[:, start : start + ROWS] @ part[:, :used]
    return result
