"""Points on a line, and the O(n) algebra of a Markov covariance on them; theory (G14)."""

from __future__ import annotations

import numpy as np

from mercer._native import waves
from mercer.arrays import Array
from mercer.kernels.state_space import StateSpace
from mercer.linalg.errors import NotPositiveDefiniteError


class Ordering:
    """The points X (n, d) in the order of one column, which is sorted here and nowhere else."""

    def __init__(self, states: StateSpace, X: Array) -> None:
        x = states.line(X)
        self.points, self.column = X, states.column
        self.order = np.argsort(x, kind="stable")
        self.gaps = np.diff(x[self.order])

    def __len__(self) -> int:
        return len(self.order)

    def serves(self, states: StateSpace, X: Array) -> bool:
        """Whether this is the order of that very array for such a state space."""
        return X is self.points and states.column == self.column

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
        known = ordering is not None and ordering.serves(states, X)
        self.ordering = ordering if ordering is not None and known else Ordering(states, X)
        self.gaps = self.ordering.gaps
        self.states = states
        self._model = (states.orders, states.rates, states.variances)
        self._sorted, self._back = self.ordering.sorted, self.ordering.back

    def __len__(self) -> int:
        return len(self.ordering)

    def times(self, V: Array) -> Array:
        """K V for V (n, m)."""
        out = np.empty(V.shape)
        waves.times(*self._model, self.gaps, self._sorted(V), out)
        return self._back(out)

    def smooth(self, W: Array, Z: Array) -> tuple[Array, Array, Array]:
        """C Z (n, m), the diagonals of C and of (K^-1 + W)^-1 (n,), with C = (K + W^-1)^-1."""
        n = len(self)
        solved, inverse, variance = np.empty(Z.shape), np.empty(n), np.empty(n)
        Z = self._sorted(Z)
        found = waves.smooth(*self._model, self.gaps, self._sorted(W), Z, solved, inverse, variance)
        _check(found)
        return self._back(solved), self._back(inverse), self._back(variance)

    def logdet(self, W: Array) -> float:
        """Sum of log |f_i's variance given those before + 1/W_i| over the points with W_i != 0."""
        return _check(waves.logdet(*self._model, self.gaps, self._sorted(W), np.empty((2, 0))))

    def logdet_slopes(self, W: Array) -> Array:
        """d logdet(W) / d log rate, log variance: (2, c)."""
        slopes = np.zeros((2, len(self.states.rates)))
        _check(waves.logdet(*self._model, self.gaps, self._sorted(W), slopes))
        return slopes

    def slopes(self, U: Array, V: Array) -> Array:
        """d sum_c U_c'K V_c / d log rate, log variance for U, V (n, m): (2, c)."""
        slopes = np.zeros((2, len(self.states.rates)))
        waves.slope(*self._model, self.gaps, self._sorted(U), self._sorted(V), slopes)
        return slopes


def _check(found: float) -> float:
    if np.isnan(found):
        raise NotPositiveDefiniteError(
            "K^-1 + W is not positive definite on this line: a negative weight is too large, or "
            "inputs or hyperparameters are not finite"
        )
    return found
