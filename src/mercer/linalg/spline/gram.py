"""Markov Gram: an integrated Wiener process with a flat prior on its polynomials, in O(n).

The process and its derivatives are Markov, so that (K + W^-1)^-1 is applied by one pass forward
and one back. The flat prior on the polynomials of degree m - 1 is part of it: what the contract
calls C is P of :mod:`mercer.linalg.dense.projected` here, h_j = (x - x0)^j / j!. Theory (P5).
"""

from __future__ import annotations

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array, Index
from mercer.kernels.base import Gradient
from mercer.kernels.splines.line import Spline
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.line import Ordering
from mercer.linalg.spline.states import States, mean_gap, smooth, unit_cholesky


class MarkovGram(Gram):
    """K = variance * Spline(order, origin) at the points, and the flat polynomials beside it.

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
