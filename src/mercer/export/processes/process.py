"""Processes in ONNX: formulas (1) and (2), mean and variance of a function at new rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import Basis
from mercer.core.errors import ExportError
from mercer.export.expression import Value
from mercer.export.kernels.composed import basis_rows
from mercer.export.kernels.forms import cross, diagonal
from mercer.export.processes import operators
from mercer.linalg.operators import ExplicitOperator, SeveralOperator
from mercer.process.process import Posterior, Prior


class Traced:
    """A posterior at rows X (q, d) that are not known yet."""

    def __init__(self, posterior: Posterior, X: Value) -> None:
        if not (isinstance(posterior, Posterior) and isinstance(posterior.parent, Prior)):
            raise ExportError(
                f"a {type(posterior).__name__} cannot be exported: only a prior that was "
                "conditioned once can"
            )
        self.posterior = posterior
        self.prior = posterior.parent
        self.X = X
        self.K = cross(self.prior.signal, X, posterior.points)
        self.h = _rows(posterior, X)

    def mean(self) -> Value:
        """Formula (1): (q, m)."""
        mean = self.K @ self.posterior.alpha
        if self.h is None or self.posterior.beta is None:
            return mean
        return mean + self.h @ self.posterior.beta

    def var(self) -> Value:
        """Formula (2) on the diagonal, not below zero: (q, 1)."""
        reduced = operators.reduce_diag(self.posterior, self.K, self.h)
        return (self._prior_variance() - reduced).at_least(0.0)

    def blocks(self) -> list[list[Value]]:
        """Covariances (q, 1) of the m functions among each other at each row, by pairs."""
        m = self.posterior.alpha.shape[1]
        zero, prior = 0.0 * self.K.take([0]), self._prior_variance()
        if not isinstance(self.posterior.operator, SeveralOperator):
            return [[self.var() if c == e else zero for e in range(m)] for c in range(m)]
        reduced = operators.reduced_blocks(self.posterior.operator, self.K)
        return [[(prior if c == e else zero) - reduced[c][e] for e in range(m)] for c in range(m)]

    def noise(self) -> Value:
        """Variance of the kernel's noise parts, (q, 1) or (1, 1)."""
        if self.prior.signal is self.prior.kernel:
            return self.X.graph.constant(np.zeros((1, 1)))
        return diagonal(self.prior.kernel, self.X) - diagonal(self.prior.signal, self.X)

    def _prior_variance(self) -> Value:
        if self.prior.kernel.pairwise:
            raise ExportError(
                "kernel values of new rows with the training rows do not say how the new rows "
                "vary: there is no deviation and no probability to export; for a regressor export "
                "the mean alone with std=False"
            )
        return diagonal(self.prior.signal, self.X)


def has_spread(posterior: Any) -> bool:
    """Whether there is a variance: not for a mode."""
    operator = getattr(posterior, "operator", None)
    return not (isinstance(operator, ExplicitOperator) and operator.C is None)


def _rows(posterior: Posterior, X: Value) -> Value | None:
    basis: Any = posterior.basis
    if basis is None:
        return None
    if not isinstance(basis, Basis):  # of the user's own, in the user's units
        basis = basis.basis
    return basis_rows(basis, X, _width(posterior.points))


def _width(points: Array) -> int:
    return int(points.shape[1])
