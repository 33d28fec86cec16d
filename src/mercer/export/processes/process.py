"""Processes in ONNX: formulas (1) and (2), mean and variance of a function at new rows.

What is subtracted from the prior variance is written by the operator C itself: its ``reduce_diag``
is evaluated on the cross-covariances k(P, X), which are not known yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import half_solve
from mercer.core.basis import Basis
from mercer.core.errors import ExportError
from mercer.core.memory import require_memory
from mercer.export.expression import Value, value_of
from mercer.export.kernels.composed import basis_rows
from mercer.export.kernels.forms import cross, diagonal
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.operators import PosteriorOperator, SeveralOperator, _product
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
        self.h = self._basis_rows()

    def mean(self) -> Value:
        """Formula (1): (q, m)."""
        mean = self.K @ self.posterior.alpha
        if self.h is None or self.posterior.beta is None:
            return mean
        return mean + self.h @ self.posterior.beta

    def var(self) -> Value:
        """Formula (2) on the diagonal, not below zero: (q, 1)."""
        require_memory(len(self.posterior.points), 3, "the graph of a variance", "export")
        operator: Any = self.posterior.operator
        if operator.walks:  # of a Markov kernel, whose matrix is formed after all
            gram = DenseGram(self.prior.signal, self.posterior.points)
            operator = gram.factor(operator.W).operator()
        return np.maximum(self._prior_variance() - _reduced(operator, self.K, self.h), 0.0)

    def blocks(self) -> list[list[Value]]:
        """Covariances (q, 1) of the m functions among each other at each row, by pairs."""
        m = self.posterior.alpha.shape[1]
        zero, prior = 0.0 * self.K.take([0]), self._prior_variance()
        if not isinstance(self.posterior.operator, SeveralOperator):
            return [[self.var() if c == e else zero for e in range(m)] for c in range(m)]
        reduced = _reduced_blocks(self.posterior.operator, self.K)
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

    def _basis_rows(self) -> Value | None:
        basis: Any = self.posterior.basis
        if basis is None:
            return None
        if not isinstance(basis, Basis):  # a user's function, in the user's units
            basis = basis.basis
        return basis_rows(basis, self.X, int(self.posterior.points.shape[1]))


def _reduced(operator: PosteriorOperator, K: Value, h: Value | None) -> Value:
    """k'C k less the basis term for each row: (q, 1); h (q, b) are the basis functions."""
    A: Any = K.T
    try:
        return value_of(operator.reduce_diag(A, h)).expand(1)  # type: ignore[arg-type]  # of values values
    except ExportError as error:
        raise ExportError(f"the operator {type(operator).__name__}: {error}") from None


def _reduced_blocks(operator: SeveralOperator, K: Value) -> list[list[Value]]:
    """k'C_ce k (q, 1) for each pair of functions; zero between independent ones."""
    m, zero, A = len(operator.operators), 0.0 * K.take([0]), K.T
    own = [_reduced(each, K, None) for each in operator.operators]
    blocks = [[own[c] if c == e else zero for e in range(m)] for c in range(m)]
    if operator.shared is None:
        return blocks
    halves: Any = [half_solve(operator.shared, _product(each, A)) for each in operator.operators]  # type: ignore[arg-type]  # of values values
    for c in range(m):
        for e in range(m):
            shared = (halves[min(c, e)] * halves[max(c, e)]).sum(0)
            blocks[c][e] = blocks[c][e] - shared.T
    return blocks
