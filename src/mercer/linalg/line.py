"""The O(n) algebra of Markov covariances on a line: theory (G14), (F13), splines theory (P5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._native import markov, rational, waves
from mercer.core.arrays import Array, Index, transposed_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.core.memory import require_memory
from mercer.kernels.base import Gradient, Kernel
from mercer.kernels.markov import MarkovProcess, StateSpace, process_of
from mercer.kernels.markov import state_space_of as state_space_of  # for the sums of it
from mercer.kernels.operators.splines import Spline
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import PosteriorOperator
from mercer.linalg.spline import States, mean_gap, smooth, unit_cholesky
from mercer.linalg.structured.basis import SolvedProjection


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
    """The covariance of a Markov process at the points X (n, d): all in O(n) after one sort.

    Arrays go in and come out in the order of X; equal points are allowed. An ``ordering`` of the
    same X, from before, saves the sort.
    """

    def __init__(
        self, states: StateSpace | MarkovProcess, X: Array, ordering: Ordering | None = None
    ) -> None:
        if ordering is None or ordering.points is not X or ordering.column != states.column:
            ordering = Ordering(X, states.column)
        self.states, self.ordering = states, ordering
        self._sorted, self._back = ordering.sorted, ordering.back
        self._core: Any = rational if isinstance(states, MarkovProcess) else waves
        self._model: tuple[Any, ...] = (*states.arrays, ordering.gaps)

    def times(self, V: Array) -> Array:
        """K V for V (n, m)."""
        out = np.empty(V.shape)
        self._core.times(*self._model, self._sorted(V), out)
        return self._back(out)

    def smooth(self, W: Array, Z: Array) -> tuple[Array, Array, Array]:
        """C Z (n, m), the diagonals of C and of (K^-1 + W)^-1 (n,), with C = (K + W^-1)^-1."""
        solved, inverse, variance = np.empty(Z.shape), np.empty(len(W)), np.empty(len(W))
        given = (*self._model, self._sorted(W), self._sorted(Z))
        _check(self._core.smooth(*given, solved, inverse, variance))
        return self._back(solved), self._back(inverse), self._back(variance)

    def logdet(self, W: Array) -> float:
        """Sum of log |f_i's variance given those before + 1/W_i| over the points with W_i != 0."""
        more = () if self._core is rational else (np.empty((2, 0)),)
        return _check(self._core.logdet(*self._model, self._sorted(W), *more))

    def pullback(self, kernel: Kernel, W: Array, share: float, U: Array, V: Array) -> Gradient:
        """d [share * logdet(W) + sum_c U_c'K V_c] for U, V (n, m), by the paths of the kernel."""
        W, U, V = self._sorted(W), self._sorted(U), self._sorted(V)
        if isinstance(self.states, MarkovProcess):
            F, P = np.zeros((2, self._model[1].size))
            self._core.gradient(*self._model, W, U, V, share, F, P)
            return kernel.markov_pullback(self.states.divided(F, P))
        by_det, slopes = np.zeros((2, 2, len(self.states.rates)))
        self._core.slope(*self._model, U, V, slopes)
        _check(self._core.logdet(*self._model, W, by_det))
        return kernel.state_space_pullback(*(slopes + share * by_det))


def _check(found: float) -> float:
    if np.isnan(found):
        raise NotPositiveDefiniteError(
            "K^-1 + W is not positive definite on this line: a negative weight is too large, or "
            "inputs or hyperparameters are not finite"
        )
    return found


@dataclass(eq=False)
class LineOperator(PosteriorOperator):
    """C = (K + W^-1)^-1 at points P (n, d), and the posterior at new points in O(n + q).

    With a basis beside it, T (n, k) and R (k, k) are those of :class:`SolvedProjection`.
    """

    walks: ClassVar[bool] = True
    knows_variances: ClassVar[bool] = True

    states: StateSpace | MarkovProcess
    points: Array
    W: Array
    T: Array | None = None
    R: Array | None = None

    def _merged(self, X: Array, V: Array) -> tuple[Line, Array]:
        """Return the line of P and X, and V (n, ...) with zeros for X."""
        zeros = np.zeros((len(X), *V.shape[1:]))
        return Line(self.states, np.vstack([self.points, X])), np.concatenate([V, zeros])

    def mean_at(self, X: Array, alpha: Array) -> Array:
        line, V = self._merged(X, alpha)
        return line.times(V)[len(self.points) :]

    def var_at(self, X: Array, h: Array | None = None) -> Array:
        line, W = self._merged(X, self.W)
        known = line.smooth(W, np.empty((len(W), 0)))[2][len(self.points) :]
        if self.T is None or h is None:
            return known
        return np.asarray(known + (self._loose(self.mean_at(X, self.T).T, h) ** 2).sum(axis=0))

    def _loose(self, TA: Array, h: Array) -> Array:
        """R^-T h' - T'A (k, p): what of the basis at new points the data leave open."""
        assert self.R is not None
        return transposed_solve(self.R, h.T) - TA

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        known = A.T @ Line(self.states, self.points).smooth(self.W, B)[0]
        if self.T is not None and hA is not None and hB is not None:
            known -= self._loose(self.T.T @ A, hA).T @ self._loose(self.T.T @ B, hB)
        return np.asarray(known)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        solved = Line(self.states, self.points).smooth(self.W, A)[0]
        known = np.einsum("ij,ij->j", A, solved)
        if self.T is not None and hA is not None:
            known -= (self._loose(self.T.T @ A, hA) ** 2).sum(axis=0)
        return np.asarray(known)


class LineGram(Gram):
    """K of a kernel whose process is Markov on one column, never formed.

    An ``ordering`` of the same points, that of another such Gram, saves sorting them again.
    """

    name = "markov"

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        *,
        scratch: bool = False,
        ordering: Ordering | None = None,
    ) -> None:
        states = process_of(kernel, points.shape[1])
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
        m, left, right = alpha.shape[1], [0.5 * alpha], [alpha]
        if isinstance(factor, LineProjection):  # P = C - T T'
            left, right = [*left, 0.5 * m * factor.T], [*right, factor.T]
            factor = factor.inner
        assert isinstance(factor, LineFactor)
        if U is not None and V is not None:
            left, right = [*left, U], [*right, V]
        both = np.hstack(left), np.hstack(right)
        return self.line.pullback(self.kernel, factor.W, -0.5 * m, *both)

    def contract(self, Q: Array) -> Gradient:
        return self.kernel.pullback(self.points, None, Q)


class LineFactor(Factor):
    """C by the Kalman filter and de Jong's backward recursion; no n x n array."""

    def __init__(self, gram: LineGram, W: Array) -> None:
        self.gram, self.W, self._logdet = gram, W, gram.line.logdet(W)
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
        return self._logdet + float(np.log(np.abs(self.W[self.W != 0.0])).sum())

    def logdet_noisy(self) -> float:
        return self._logdet

    def projected(self, H: Array) -> LineProjection:
        return LineProjection(self, self.gram, H)

    def operator(self) -> LineOperator:
        return LineOperator(self.gram.line.states, self.gram.points, self.W)


class LineProjection(SolvedProjection):
    """P of a line with a basis beside it."""

    def operator(self) -> LineOperator:
        assert isinstance(self.inner, LineFactor)
        line = self.inner.gram
        return LineOperator(line.line.states, line.points, self.inner.W, self.T, self.R)


class MarkovGram(Gram):
    """K = variance * Spline(order, origin) at the points, and the flat polynomials beside it.

    The process and its derivatives are Markov, so that (K + W^-1)^-1 is applied by one pass forward
    and one back. The flat prior on the polynomials of degree m - 1 is part of it: what the contract
    calls C is P of :mod:`mercer.linalg.dense.projected` here, h_j = (x - x0)^j / j!.

    Parameters
    ----------
    points : (n, 1), in any order; equal ones are allowed.
    order : m, 1 to 6: the penalised derivative.
    variance : of the process; with noise variance s2 the smoothing parameter is s2 / variance.
    origin : of the kernel, not above any point; None is the smallest. Nothing that a Factor
        answers depends on it.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> factor = MarkovGram(x, order=2).factor(np.ones(4))
    >>> y = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> alpha = factor.solve(y)
    >>> bool(abs(alpha.sum()) < 1e-12), bool(abs((alpha * x).sum()) < 1e-12)
    (True, True)
    """

    def __init__(
        self, points: Array, order: int = 2, variance: float = 1.0, origin: float | None = None
    ) -> None:
        self.points, self.order, self.variance = points, order, variance
        line = Ordering(points)
        self.x, self.ordered, self.restored = line.x, line.sorted, line.back
        self.unit = mean_gap(self.x)
        self.kernel = Spline(order, float(self.x[0]) if origin is None else origin)

    @property
    def scaled(self) -> float:
        """The variance with x in units of ``unit``."""
        return self.variance * self.unit ** (2 * self.order - 1)

    def states(self, W: Array, y: Array) -> States:
        """Condition on y (n,) with precisions W (n,)."""
        W, y = self.ordered(W), self.ordered(y)
        return smooth(self.x, W, y, self.order, self.scaled, self.unit)

    def __matmul__(self, V: Array) -> Array:
        gaps = np.diff(self.x, prepend=float(self.kernel.origin)) / self.unit
        out, product = np.empty(V.shape), np.empty(len(gaps))
        for j in range(V.shape[1]):
            markov.matmul(unit_cholesky(self.order), gaps, self.ordered(V[:, j]), product)
            out[:, j] = self.restored(product)
        return out * self.scaled

    def diag(self) -> Array:
        return self.variance * self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        return self.variance * self.kernel(self.points[index], self.points)

    def factor(self, W: Array) -> MarkovFactor:
        return MarkovFactor(self, np.asarray(W, dtype=np.float64))

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        assert isinstance(factor, MarkovFactor)
        slope = 0.5 * float((alpha * (self @ alpha)).sum())
        slope -= 0.5 * alpha.shape[1] * (factor.edf() - self.order)
        if U is not None and V is not None:
            slope += float((U * (self @ V)).sum())
        return {"variance": slope / self.variance}

    def contract(self, Q: Array) -> Gradient:
        return {"variance": float(np.einsum("ij,ij->", Q, self.kernel(self.points)))}


class MarkovFactor(Factor):
    """P = C - C H A^-1 H' C for precisions W (n,) >= 0; W_i = 0 is a point that says nothing.

    With g the posterior mean and v_i its variance for targets z: P z = W (z - g) and
    P_ii = W_i (1 - W_i v_i).
    """

    def __init__(self, gram: MarkovGram, W: Array, states: States | None = None) -> None:
        if not (np.all(np.isfinite(W)) and np.all(W >= 0.0)):
            raise ValueError("the O(n) spline needs precisions W that are finite and not negative")
        informed = gram.x[gram.ordered(W) > 0.0]
        known = len(informed[:1]) + int(np.count_nonzero(np.diff(informed)))
        if known < gram.order:
            raise ValueError(
                f"a spline of order {gram.order} needs {gram.order} distinct inputs with "
                f"observations, and there are {known}; choose a smaller order"
            )
        self.gram, self.W = gram, W
        self._states = states  # if they are known already

    def states(self) -> States:
        """Return the states of the last targets that were solved for (zeros, if none were)."""
        if self._states is None:
            self._states = self.gram.states(self.W, np.zeros(len(self.W)))
        return self._states

    def fitted(self, V: Array) -> Array:
        """Posterior mean at the points for targets V (n, m)."""
        columns = []
        for j in range(V.shape[1]):
            self._states = self.gram.states(self.W, V[:, j])
            columns.append(self.gram.restored(self._states.mean[:, 0]))
        return np.column_stack(columns) if columns else np.empty(V.shape)

    def solve(self, V: Array) -> Array:
        return np.asarray(self.W[:, None] * (V - self.fitted(V)))

    def diag(self) -> Array:
        return np.asarray(self.W * (1.0 - self.W * self.cov_diag()))

    def cov_diag(self) -> Array:
        """Posterior variance of the function, its polynomial included, at the points: (n,)."""
        return self.gram.restored(np.ascontiguousarray(self.states().cov[:, 0]))

    def edf(self) -> float:
        """Trace of the smoother, sum W_i v_i."""
        return float(self.W @ self.cov_diag())

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        m = self.gram.order
        return 2.0 * self.states().logdet + m * (m - 1) * float(np.log(self.gram.unit))

    def logdet_noisy(self) -> float:
        """log |K + W^-1| + log |A|, over the points with W_i > 0: GPML (2.45)."""
        return self.logdet() - float(np.log(self.W[self.W > 0.0]).sum())
