"""The posterior of weights: what a machine with few explicit features keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array, transposed_solve
from mercer.linalg.operators import PosteriorOperator

BATCH = 1 << 20  # weights times rows that are worked on at a time


@dataclass(eq=False)
class WeightOperator(PosteriorOperator):
    """The posterior of weights b, f(x) = phi(x)'b: their means, and roots of their precisions.

        mean(x) = phi(x)'E b,    cov(x, z) = (R^-T phi(x))'(R^-T phi(z))

    Nothing is subtracted from the prior, so that nothing cancels; there are no points. Theory
    (I13).

    Parameters
    ----------
    kernel : the prior, with its features phi: (q, d) -> (q, p).
    weights : (p, m) E b of m functions.
    roots : R (p + c, p + c), upper, of each function, or one for all; c functions of a basis stand
        below the weights. One (m p, m p) is that of all functions together. None: a mode.
    """

    walks: ClassVar[bool] = True
    knows_variances: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    kernel: Any
    weights: Array
    roots: list[Array]

    @property
    def spreads(self) -> bool:
        return bool(self.roots)

    @property
    def joint(self) -> bool:
        """Whether one root is that of all functions together."""
        p, m = self.weights.shape
        return m > 1 and len(self.roots) == 1 and len(self.roots[0]) == p * m

    def mean_at(self, X: Array, alpha: Array) -> Array:
        return self._by_rows(lambda x, _: self.kernel.explicit(x) @ self.weights, X, None)

    def _by_rows(
        self, one: Callable[[Array, Array | None], Array], X: Array, h: Array | None
    ) -> Array:
        """Return ``one`` of rows of X (q, d) and h (q, k), as many at a time as memory likes."""
        size = max(1, BATCH // self.weights.size)
        if len(X) <= size:
            return np.asarray(one(X, h))
        parts = [slice(i, i + size) for i in range(0, len(X), size)]
        return np.concatenate([one(X[at], None if h is None else h[at]) for at in parts])

    def half(self, X: Array, h: Array | None, j: int = 0) -> Array:
        """R^-T [phi(x); h(x)] for each row of X (q, d), (p + c, q), of function j."""
        phi = self.kernel.explicit(X).T
        return transposed_solve(self.roots[j], phi if h is None else np.vstack([phi, h.T]))

    def var_at(self, X: Array, h: Array | None = None) -> Array:
        if not self.roots:
            return np.asarray(self.kernel.diag(X))
        return self._by_rows(self._squares, X, h)

    def _squares(self, X: Array, h: Array | None, j: int = 0) -> Array:
        half = self.half(X, h, j)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def cov_at(self, X: Array, Z: Array, hX: Array | None, hZ: Array | None) -> Array:
        if not self.roots:
            return np.asarray(self.kernel(X, Z))
        left = self.half(X, hX)
        return np.asarray(left.T @ (left if Z is X else self.half(Z, hZ)))

    def blocks_at(self, X: Array, h: Array | None) -> Array:
        m = self.weights.shape[1]
        if self.joint:
            return self._by_rows(self._together, X, h)
        if len(self.roots) < 2:
            return np.asarray(self.var_at(X, h)[:, None, None] * np.eye(m))
        own = [self._by_rows(partial(self._squares, j=j), X, h) for j in range(m)]
        return np.asarray(np.column_stack(own)[:, :, None] * np.eye(m))

    def _together(self, X: Array, h: Array | None) -> Array:
        phi, (p, m) = self.kernel.explicit(X).T, self.weights.shape
        halves = np.zeros((m * p, phi.shape[1], m))
        for c in range(m):
            placed = np.zeros((m * p, phi.shape[1]))
            placed[c * p : (c + 1) * p] = phi
            halves[:, :, c] = transposed_solve(self.roots[0], placed)
        return np.asarray(np.einsum("npc,npe->pce", halves, halves, optimize=True))

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """See the base class: A and B (p, q) are covariances with the weights, phi(x)."""
        return np.asarray(A.T @ B - self._left(A, hA).T @ self._left(B, hB))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        half = self._left(A, hA)
        return np.asarray(np.einsum("ij,ij->j", A, A) - np.einsum("ij,ij->j", half, half))

    def _left(self, A: Array, h: Array | None) -> Array:
        if not self.roots:
            return A
        return transposed_solve(self.roots[0], A if h is None else np.vstack([A, h.T]))
