"""The O(n) algebra of a Markov covariance at points on a line; theory (G14)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mercer._native import waves
from mercer.core.arrays import Array, Index
from mercer.core.errors import NotPositiveDefiniteError
from mercer.core.memory import require_memory
from mercer.kernels.base import Gradient, Kernel
from mercer.kernels.markov import StateSpace
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import PosteriorOperator


class Ordering:
    """The points X (n, d) in the order of one column, which is sorted here and nowhere else."""

    def __init__(self, X: Array, column: int | None = None) -> None:
        self.points, self.column = X, column
        x = X[:, 0 if column is None else column]
        self.order = np.argsort(x, kind="stable")
        self.x = self.sorted(x)
        self.gaps = np.diff(self.x)

    def sorted(self, V: Array) -> Array:
        """V (n, ...) from the order of X to that along the line."""
        return np.ascontiguousarray(V[self.order], dtype=np.float64)

    def back(self, V: Array) -> Array:
        """V (n, ...) from the order along the line to that of X."""
        out = np.empty_like(V)
        out[self.order] = V
        return out


class Line:
    """A covariance of state space form at the points X (n, d): all in O(n) after one sort.

    Arrays go in and come out in the order of X; equal points are allowed. An ``ordering`` of the
    same X, from before, saves the sort.
    """

    def __init__(self, states: StateSpace, X: Array, ordering: Ordering | None = None) -> None:
        if ordering is None or ordering.points is not X or ordering.column != states.column:
            ordering = Ordering(X, states.column)
        self.states, self.ordering = states, ordering
        self._model = (states.orders, states.rates, states.variances, ordering.gaps)
        self._sorted, self._back = ordering.sorted, ordering.back

    def times(self, V: Array) -> Array:
        """K V for V (n, m)."""
        out = np.empty(V.shape)
        waves.times(*self._model, self._sorted(V), out)
        return self._back(out)

    def smooth(self, W: Array, Z: Array) -> tuple[Array, Array, Array]:
        """C Z (n, m), the diagonals of C and of (K^-1 + W)^-1 (n,), with C = (K + W^-1)^-1."""
        solved, inverse, variance = np.empty(Z.shape), np.empty(len(W)), np.empty(len(W))
        given = (*self._model, self._sorted(W), self._sorted(Z))
        _check(waves.smooth(*given, solved, inverse, variance))
        return self._back(solved), self._back(inverse), self._back(variance)

    def logdet(self, W: Array) -> float:
        """Sum of log |f_i's variance given those before + 1/W_i| over the points with W_i != 0."""
        return _check(waves.logdet(*self._model, self._sorted(W), np.empty((2, 0))))

    def logdet_slopes(self, W: Array) -> Array:
        """d logdet(W) / d log rate, log variance: (2, c)."""
        slopes = np.zeros((2, len(self.states.rates)))
        _check(waves.logdet(*self._model, self._sorted(W), slopes))
        return slopes

    def slopes(self, U: Array, V: Array) -> Array:
        """d sum_c U_c'K V_c / d log rate, log variance for U, V (n, m): (2, c)."""
        slopes = np.zeros((2, len(self.states.rates)))
        waves.slope(*self._model, self._sorted(U), self._sorted(V), slopes)
        return slopes


def _check(found: float) -> float:
    if np.isnan(found):
        raise NotPositiveDefiniteError(
            "K^-1 + W is not positive definite on this line: a negative weight is too large, or "
            "inputs or hyperparameters are not finite"
        )
    return found


class LineOperator(PosteriorOperator):
    """C = (K + W^-1)^-1 at points P (n, d), and the posterior at new points in O(n + q)."""

    walks: ClassVar[bool] = True

    def __init__(self, states: StateSpace, points: Array, W: Array) -> None:
        self.states, self.points, self.W = states, points, W

    def _merged(self, X: Array, V: Array) -> tuple[Line, Array]:
        """Return the line of P and X, and V (n, ...) with zeros for X."""
        zeros = np.zeros((len(X), *V.shape[1:]))
        return Line(self.states, np.vstack([self.points, X])), np.concatenate([V, zeros])

    def mean_at(self, X: Array, alpha: Array) -> Array:
        line, V = self._merged(X, alpha)
        return line.times(V)[len(self.points) :]

    def var_at(self, X: Array) -> Array:
        line, W = self._merged(X, self.W)
        return line.smooth(W, np.empty((len(W), 0)))[2][len(self.points) :]

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        return np.asarray(A.T @ Line(self.states, self.points).smooth(self.W, B)[0])

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        solved = Line(self.states, self.points).smooth(self.W, A)[0]
        return np.asarray(np.einsum("ij,ij->j", A, solved))


def state_space_of(kernel: Kernel, d: int) -> StateSpace | None:
    """Return the state space of a kernel of d columns, if there is one that is served here."""
    states = kernel.state_space()
    if states is None or states.size > waves.LARGEST or (states.column is None and d != 1):
        return None
    return states


class LineGram(Gram):
    """K of a kernel with :meth:`~mercer.kernels.base.Kernel.state_space`, never formed.

    An ``ordering`` of the same points, that of another such Gram, saves sorting them again.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Matern
    >>> gram = LineGram(Matern(nu=0.5), np.array([[0.0], [1.0]]))
    >>> (gram @ np.array([[1.0], [0.0]])).ravel().round(4)
    array([1.    , 0.3679])
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        *,
        scratch: bool = False,
        ordering: Ordering | None = None,
    ) -> None:
        states = state_space_of(kernel, points.shape[1])
        if states is None:
            raise ValueError("the kernel has no state space on one column; use the dense Gram")
        self.kernel, self.points = kernel, points
        self.line = Line(states, points, ordering)

    def __matmul__(self, V: Array) -> Array:
        return self.line.times(V)

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        return self.kernel(self.points[index], self.points)

    def factor(self, W: Array) -> Factor:
        return LineFactor(self, W + 0.0)  # a weight of -0.0 is none

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        assert isinstance(factor, LineFactor)
        m = alpha.shape[1]
        slopes = 0.5 * (self.line.slopes(alpha, alpha) - m * self.line.logdet_slopes(factor.W))
        if U is not None and V is not None:
            slopes = slopes + self.line.slopes(U, V)
        return self.kernel.state_space_pullback(*slopes)

    def contract(self, Q: Array) -> Gradient:
        return self.kernel.pullback(self.points, None, Q)


class LineFactor(Factor):
    """C by the Kalman filter and de Jong's backward recursion; no n x n array."""

    def __init__(self, gram: LineGram, W: Array) -> None:
        self.gram, self.W = gram, W
        self._logdet = gram.line.logdet(W)
        self._diagonals: list[Array] = []  # of C, and of the posterior covariance

    def solve(self, V: Array) -> Array:
        solved, *self._diagonals = self.gram.line.smooth(self.W, V)
        return solved

    def _diagonal(self, which: int) -> Array:
        if not self._diagonals:
            self.solve(np.empty((len(self.W), 0)))
        return self._diagonals[which].copy()

    def diag(self) -> Array:
        return self._diagonal(0)

    def cov_diag(self) -> Array:
        return self._diagonal(1)

    def cov(self) -> Array:
        require_memory(len(self.W), 3)
        K = self.gram.kernel(self.gram.points)
        S = K - self.gram @ self.solve(K)
        return np.asarray(0.5 * (S + S.T))

    def gradient_weights(self, a: Array, count: float) -> Array:
        require_memory(len(self.W), 3)
        C = self.solve(np.eye(len(self.W)))
        return np.asarray(0.5 * (a @ a.T - 0.5 * count * (C + C.T)))

    def logdet(self) -> float:
        used = np.abs(self.W[self.W != 0.0])
        return self._logdet + float(np.log(used).sum())

    def logdet_noisy(self) -> float:
        return self._logdet

    def operator(self) -> LineOperator:
        return LineOperator(self.gram.line.states, self.gram.points, self.W)
