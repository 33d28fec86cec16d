"""C of a posterior whose prior is Markov on a line, kept as the weights W alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.kernels.state_space import StateSpace
from mercer.linalg.line import Line
from mercer.linalg.operators import Operator


class LineOperator(Operator):
    """C = (K + W^-1)^-1 at points P (n, d), and the posterior at new points in O(n + q)."""

    walks: ClassVar[bool] = True

    def __init__(self, states: StateSpace, points: Array, W: Array) -> None:
        self.states, self.points, self.W = states, points, W

    def _merged(self, X: Array, V: Array) -> tuple[Line, Array]:
        """Return the line of P and X, and V (n, ...) with zeros for X."""
        zeros = np.zeros((len(X), *V.shape[1:]))
        return Line(self.states, np.vstack([self.points, X])), np.concatenate([V, zeros])

    def mean_at(self, X: Array, alpha: Array) -> Array:
        """See :meth:`Operator.mean_at`."""
        line, V = self._merged(X, alpha)
        return line.times(V)[len(self.points) :]

    def var_at(self, X: Array) -> Array:
        """See :meth:`Operator.var_at`: a new point is one of weight zero."""
        line, W = self._merged(X, self.W)
        return line.smooth(W, np.empty((len(W), 0)))[2][len(self.points) :]

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """A' C B, shape (p, q)."""
        return np.asarray(A.T @ Line(self.states, self.points).smooth(self.W, B)[0])

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """diag(A' C A), shape (p,)."""
        solved = Line(self.states, self.points).smooth(self.W, A)[0]
        return np.asarray(np.einsum("ij,ij->j", A, solved))

    def state(self) -> dict[str, Array]:
        """Return the arrays to store: the rest is the kernel's and the posterior's."""
        certain = np.isinf(self.W)  # observed without noise
        arrays = {"weights": np.where(certain, 0.0, self.W)}
        return arrays | {"certain": certain.astype(np.float64)} if certain.any() else arrays

    @staticmethod
    def restored(states: StateSpace, points: Array, arrays: Mapping[str, Array]) -> LineOperator:
        """Build the operator from the arrays of :meth:`state`."""
        W = arrays["weights"]
        if "certain" in arrays:
            W = np.where(arrays["certain"] > 0.0, np.inf, W)
        return LineOperator(states, points, W)
