"""C of a mode: nothing is subtracted, and nothing is known of the spread."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.linalg.gram import Factor
from mercer.linalg.operators import ExplicitOperator


class NoSpread(Factor):
    """C = 0: a mode says where the function is, not how far it may be from there."""

    def __init__(self, variance: Array) -> None:
        self.variance = variance

    def solve(self, V: Array) -> Array:
        """Return zeros."""
        return np.zeros_like(V)

    def quad(self, A: Array, B: Array) -> Array:
        """Return zeros (p, q)."""
        return np.zeros((A.shape[1], B.shape[1]))

    def quad_diag(self, A: Array) -> Array:
        """Return zeros (p,)."""
        return np.zeros(A.shape[1])

    def diag(self) -> Array:
        """Return zeros (n,)."""
        return np.zeros(len(self.variance))

    def cov_diag(self) -> Array:
        """Return the prior variance."""
        return self.variance

    def logdet(self) -> float:
        """Return 0."""
        return 0.0

    def logdet_noisy(self) -> float:
        """Refuse: there is no noise to add."""
        raise NotImplementedError("a mode has no covariance, and no determinant of one")

    def operator(self) -> ExplicitOperator:
        """Return the operator that subtracts nothing."""
        return ExplicitOperator(None)
