"""Manifold: the prior that a graph conditions, and the function learned on it, batch by batch.

Each batch X with the matrix M = 2 beta L of its graph changes the kernel and then, by its labels,
the function (Hou & Hero, Theorem 2):

    k_t(x, z) = k_{t-1}(x, z) - k_{t-1}(x, X) P_t k_{t-1}(X, z),   P_t = (I + M K)^-1 M       (3)
    f_t(x) = sum_i k_t(x, x_i) c_i

over all labelled rows so far: old coefficients always go with the newest kernel. A batch is taken
in two steps: :meth:`Manifold.smooth` conditions the prior on the graph (alpha = 0, C = P_t), and
:meth:`Smoothed.learn` takes what an inference found on it. Here all is exact, in memory O(n^2) for
n rows; ``landmarks`` is the form of bounded memory. Theory (M8), (M9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_array

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_memory
from mercer.kernels.base import Kernel
from mercer.linalg.graph import RootOperator, Smoothness
from mercer.linalg.operators import PosteriorOperator

ROWS = 256  # of a block triangular matrix that are multiplied at a time


class Smoothed(ABC):
    """A prior that knows the graph of a batch, and nothing yet of its labelled rows (l of them)."""

    @abstractmethod
    def covariance(self) -> Array:
        """Return k_t among the labelled rows: shape (l, l)."""

    @abstractmethod
    def latent(self) -> Array | None:
        """Return f before the labels, with the new kernel, at these rows: (l, k); None is zero."""

    @abstractmethod
    def learn(self, c: Array) -> Manifold:
        """Return the manifold with the coefficients c (l, k) of these rows."""


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
    def smooth(self, X: Array, rows: Index, M: Any, at: Index) -> Smoothed:
        """Update the kernel with X (n, d), whose graph has the sparse matrix M (n, n).

        ``rows`` (n,) are the places of X in the stream; ``at`` (l,) are those of X with labels, a
        row twice if it has two.
        """

    @abstractmethod
    def operator(self) -> RootOperator:
        """Return C with k_t(x, z) = k(x, z) - k(x, points) C k(points, z)."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return plain values on the memory, for a report."""


class ManifoldOperator(PosteriorOperator):
    """C of a manifold, computed when a covariance is first asked for: a mean does not need it."""

    def __init__(self, manifold: Manifold) -> None:
        self.manifold = manifold

    @cached_property
    def root(self) -> RootOperator:
        """See :meth:`Manifold.operator`."""
        return self.manifold.operator()

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B, shape (p, q)."""
        return self.root.reduce(A, B, hA, hB)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """diag(A' C A), shape (p,)."""
        return self.root.reduce_diag(A, hA)


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
        root = self.rooted().root
        assert root is not None
        return RootOperator(root)

    def smooth(self, X: Array, rows: Index, M: Any, at: Index) -> WholeSmoothed:
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
        inner = np.asarray((K - new.T @ new)[np.ix_(at, at)])
        return WholeSmoothed(after, N + at, inner, (f - new.T @ pull)[at], half[:, at])

    def describe(self) -> dict[str, Any]:
        return {"form": "exact", "points": len(self.points)}


@dataclass(frozen=True, eq=False)
class WholeSmoothed(Smoothed):
    """``manifold`` with the batch in its kernel; its points ``place`` (l,) have the labels.

    K and f are (l, l) and (l, k) there, half is Q k(., x) of these points (r, l).
    """

    manifold: Whole
    place: Index
    K: Array
    f: Array
    half: Array

    def covariance(self) -> Array:
        return self.K

    def latent(self) -> Array:
        return self.f

    def learn(self, c: Array) -> Whole:
        whole = self.manifold
        assert whole.root is not None
        coef, weights = whole.coef.copy(), whole.weights.copy()
        np.add.at(coef, self.place, c)
        np.add.at(weights, self.place, c)
        weights -= whole.root.T @ (self.half @ c)
        return replace(whole, coef=coef, weights=weights)


class AtOnce(Smoothed):
    """The prior of a kernel, conditioned on the graph of the only batch there is.

    The same as :meth:`Whole.smooth` on no points, without the root that only a further batch needs.

    Parameters
    ----------
    kernel : k before any smoothing.
    X, rows, M, at : see :meth:`Manifold.smooth`; with M = 0 the kernel stays as it is.
    """

    def __init__(self, kernel: Kernel, X: Array, rows: Index, M: Any, at: Index) -> None:
        self.kernel, self.points, self.rows, self.M, self.at = kernel, X, rows, M, at
        self.smooth: Smoothness | None = None
        if not M.data.any():
            require_memory(len(at), 3)
            self.K = kernel(X[at])
            return
        require_memory(len(X), 5, "a graph kernel", "fit")
        K = kernel(X)
        columns = K[:, at]
        self.smooth = Smoothness(K, M)
        del K
        self.half = self.smooth.half(columns)
        self.K = columns[at] - self.half.T @ self.half  # k_new, equation (3)

    def covariance(self) -> Array:
        return self.K

    def latent(self) -> None:
        """See :meth:`Smoothed.latent`: zero."""

    def learn(self, c: Array) -> Whole:
        coef = np.zeros((len(self.points), c.shape[1]))
        np.add.at(coef, self.at, c)
        weights = coef if self.smooth is None else coef - self.smooth.back(self.half @ c)
        none = np.zeros(0, dtype=np.intp)
        return Whole(self.kernel, self.points, self.rows, coef, weights, self.M, None, none)


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
