"""The Gram of a Markov covariance on a line: everything an inference asks, in O(n)."""

from __future__ import annotations

import numpy as np

from mercer._native import waves
from mercer.arrays import Array, Index
from mercer.kernels.base import Gradient, Kernel
from mercer.kernels.state_space import StateSpace
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.line import Line, Ordering
from mercer.linalg.line_operator import LineOperator
from mercer.linalg.memory import require_memory


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
        """See :meth:`Gram.diag`."""
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        """See :meth:`Gram.rows`."""
        return self.kernel(self.points[index], self.points)

    def factor(self, W: Array) -> Factor:
        """See :meth:`Gram.factor`; negative W_i are allowed where K^-1 + W stays positive."""
        return LineFactor(self, W + 0.0)  # a weight of -0.0 is none

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """See :meth:`Gram.pullback`: tr(C dK) is the slope of log|K + W^-1|."""
        assert isinstance(factor, LineFactor)
        m = alpha.shape[1]
        slopes = 0.5 * (self.line.slopes(alpha, alpha) - m * self.line.logdet_slopes(factor.W))
        if U is not None and V is not None:
            slopes = slopes + self.line.slopes(U, V)
        return self.kernel.state_space_pullback(*slopes)

    def contract(self, Q: Array) -> Gradient:
        """See :meth:`Gram.contract`."""
        return self.kernel.pullback(self.points, None, Q)


class LineFactor(Factor):
    """C by the Kalman filter and de Jong's backward recursion; no n x n array."""

    def __init__(self, gram: LineGram, W: Array) -> None:
        self.gram, self.W = gram, W
        self._logdet = gram.line.logdet(W)
        self._diagonals: tuple[Array, Array] | None = None

    def _smooth(self, V: Array) -> Array:
        solved, *diagonals = self.gram.line.smooth(self.W, V)
        self._diagonals = (diagonals[0], diagonals[1])
        return solved

    def _both(self) -> tuple[Array, Array]:
        if self._diagonals is None:
            self._smooth(np.empty((len(self.W), 0)))
        assert self._diagonals is not None
        return self._diagonals

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        return self._smooth(V)

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        return np.asarray(A.T @ self._smooth(B))

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return np.asarray(np.einsum("ij,ij->j", A, self._smooth(A)))

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return self._both()[0].copy()

    def cov_diag(self) -> Array:
        """See :meth:`Factor.cov_diag`."""
        return self._both()[1].copy()

    def cov(self) -> Array:
        """See :meth:`Factor.cov`; this one does need n x n arrays."""
        require_memory(len(self.W), 3)
        K = self.gram.kernel(self.gram.points)
        S = K - self.gram @ self._smooth(K)
        return np.asarray(0.5 * (S + S.T))

    def gradient_weights(self, a: Array, count: float) -> Array:
        """See :meth:`Factor.gradient_weights`; n x n: ``LineGram.pullback`` does without."""
        require_memory(len(self.W), 3)
        C = self._smooth(np.eye(len(self.W)))
        return np.asarray(0.5 * (a @ a.T - 0.5 * count * (C + C.T)))

    def logdet(self) -> float:
        """See :meth:`Factor.logdet`."""
        used = np.abs(self.W[self.W != 0.0])
        return self._logdet + float(np.log(used).sum())

    def logdet_noisy(self) -> float:
        """See :meth:`Factor.logdet_noisy`."""
        return self._logdet

    def operator(self) -> LineOperator:
        """See :meth:`Factor.operator`."""
        return LineOperator(self.gram.line.states, self.gram.points, self.W)
