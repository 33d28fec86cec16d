"""A function learned on a graph, batch after batch: the prior it leaves, and how it goes on.

Each batch X with the matrix M = 2 beta L of its graph changes the kernel and then, by its labels,
the function (Hou & Hero, Theorem 2):

    k_t(x, z) = k_{t-1}(x, z) - k_{t-1}(x, X) P_t k_{t-1}(X, z),   P_t = (I + M K)^-1 M       (3)
    f_t(x) = sum_i k_t(x, x_i) c_i

over all labelled rows so far: old coefficients always go with the newest kernel. Here it is exact,
in memory O(n^2) for n rows; ``manifold_landmarks`` is the form of bounded memory.
Theory (M8), (M9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_array

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_memory
from mercer.kernels.base import Kernel
from mercer.linalg.smoothness import RootOperator, Smoothness

ROWS = 256  # of a block triangular matrix that are multiplied at a time


class Smoothed(ABC):
    """A manifold whose kernel knows a batch X (n, d), and whose function does not yet."""

    @abstractmethod
    def covariance(self, at: Index) -> Array:
        """Return k_t among the rows ``at`` (l,) of the batch: shape (l, l)."""

    @abstractmethod
    def latent(self, at: Index) -> Array:
        """Return f before the labels, with the new kernel, at the rows ``at``: shape (l, k)."""

    @abstractmethod
    def learn(self, at: Index, c: Array) -> Manifold:
        """Return the manifold with the coefficients c (l, k) of the rows ``at``."""


@dataclass(frozen=True, eq=False)
class Manifold(ABC):
    """k functions f(x) = k(x, points) weights; a value: every step returns another one.

    Attributes
    ----------
    kernel : the kernel before any smoothing.
    points, rows : (p, d), and their places in the stream (p,), rising.
    coef : (p, k) c of (3), zero for points without a label.
    weights : (p, k).
    """

    kernel: Kernel
    points: Array
    rows: Index
    coef: Array
    weights: Array

    @abstractmethod
    def smooth(self, X: Array, rows: Index, M: Any) -> Smoothed:
        """Update the kernel with X (n, d), whose graph has the sparse matrix M (n, n)."""

    @abstractmethod
    def operator(self) -> RootOperator:
        """Return C with k_t(x, z) = k(x, z) - k(x, points) C k(points, z)."""

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """Return what a report says of the memory."""

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return what a model file needs beside points, rows and weights."""


@dataclass(frozen=True, eq=False)
class Whole(Manifold):
    """All rows, exact.

    Attributes
    ----------
    graph : (p, p) sparse, the matrices M of the batches side by side.
    root : (r, p) Q with C = Q'Q, block lower triangular: the rows of batch t are
        T_t' [-k_{t-1}(X_t, .) part, I], P_t = T_t T_t'; None if it is yet to be computed.
    extent : (r,) columns of each row of the root beyond which it is zero.
    """

    graph: Any
    root: Array | None
    extent: Index

    @classmethod
    def empty(cls, kernel: Kernel, d: int, k: int) -> Whole:
        """Return k functions of d columns that are zero, before any row."""
        none, rows = np.zeros((0, k)), np.zeros(0, dtype=np.intp)
        root = np.zeros((0, 0))
        return cls(kernel, np.zeros((0, d)), rows, none, none, csr_array((0, 0)), root, rows)

    def rooted(self) -> Whole:
        """Return the same with its root: after a fit at once, which does not need it."""
        if self.root is not None:
            return self
        require_memory(len(self.points), 4)
        root = Smoothness(self.kernel(self.points), self.graph).root()
        return replace(self, root=root, extent=np.full(len(root), len(self.points)))

    def operator(self) -> RootOperator:
        """See :meth:`Manifold.operator`."""
        root = self.rooted().root
        assert root is not None
        return RootOperator(root)

    def smooth(self, X: Array, rows: Index, M: Any) -> WholeSmoothed:
        """See :meth:`Manifold.smooth`: the block Cholesky step."""
        whole = self.rooted()
        Q, extent = whole.root, whole.extent
        assert Q is not None
        N, n = len(self.points), len(X)
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
        return WholeSmoothed(after, K - new.T @ new, f - new.T @ pull, half)

    def told(self) -> dict[str, Any]:
        """See :meth:`Manifold.told`."""
        return {"form": "exact", "points": len(self.points)}

    def arrays(self) -> dict[str, Array]:
        """See :meth:`Manifold.arrays`."""
        root = np.zeros((0, 0)) if self.root is None else self.root
        whole = {"extent": self.extent, "indices": self.graph.indices, "indptr": self.graph.indptr}
        numbers = {name: value.astype(np.float64) for name, value in whole.items()}
        return {"coef": self.coef, "root": root, "data": self.graph.data} | numbers


@dataclass(frozen=True, eq=False)
class WholeSmoothed(Smoothed):
    """``manifold`` with the batch in its kernel, K and f (n, n), (n, k) there, half = Q k(., X)."""

    manifold: Whole
    K: Array
    f: Array
    half: Array

    def covariance(self, at: Index) -> Array:
        """See :meth:`Smoothed.covariance`."""
        return np.asarray(self.K[np.ix_(at, at)])

    def latent(self, at: Index) -> Array:
        """See :meth:`Smoothed.latent`."""
        return np.asarray(self.f[at])

    def learn(self, at: Index, c: Array) -> Whole:
        """See :meth:`Smoothed.learn`."""
        whole, n = self.manifold, len(self.f)
        assert whole.root is not None
        coef, weights = whole.coef.copy(), whole.weights.copy()
        np.add.at(coef, len(coef) - n + at, c)
        np.add.at(weights, len(coef) - n + at, c)
        weights -= whole.root.T @ (self.half[:, at] @ c)
        return replace(whole, coef=coef, weights=weights)


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
