"""Processes in ONNX: mean and variance of a function at rows X (q, d) that are not known yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular

from mercer.core.arrays import Array, half_solve
from mercer.core.basis import Basis
from mercer.core.errors import ExportError
from mercer.core.memory import require_memory
from mercer.estimators.relevance_vector.fit import Functions
from mercer.export.expression import Value, stack, value_of, where
from mercer.export.kernels import basis_rows, cross, explicit, written
from mercer.linalg.dense.contrasted import ContrastedOperator
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.iterative.operator import IterativeOperator
from mercer.linalg.operators import (
    PosteriorOperator,
    SeveralOperator,
    _product,
)
from mercer.linalg.structured.kronecker import KroneckerOperator
from mercer.process.features import Augmented, Sparse
from mercer.process.process import Posterior, Prior
from mercer.process.spline import SplinePosterior


class Traced:
    """A posterior: formulas (1) and (2).

    What is subtracted from the prior variance is written by the operator C itself: its
    ``reduce_diag`` is evaluated on the cross-covariances k(P, X).
    """

    def __init__(self, posterior: Posterior, X: Value) -> None:
        if not (isinstance(posterior, Posterior) and isinstance(posterior.parent, Prior)):
            raise ExportError(
                f"a {type(posterior).__name__} cannot be exported: only a prior that was "
                "conditioned once can"
            )
        self.posterior, self.prior, self.X = posterior, posterior.parent, X
        self.weighs = posterior.operator.weighs
        self.K = (
            explicit(self.prior.signal, X, int(posterior.points.shape[1]))
            if self.weighs
            else cross(self.prior.signal, X, posterior.points)
        )
        basis: Any = posterior.basis
        if basis is not None and not isinstance(basis, Basis):
            basis = basis.basis  # a user's function, in the user's units
        d = int(posterior.points.shape[1])
        self.h = None if basis is None else basis_rows(basis, X, d)

    def mean(self) -> Value:
        """Formula (1): (q, m)."""
        operator: Any = self.posterior.operator
        mean = self.K @ (operator.weights if self.weighs else self.posterior.alpha)
        if self.h is None or self.posterior.beta is None:
            return mean
        return mean + self.h @ self.posterior.beta

    def var(self) -> Value:
        """Formula (2) on the diagonal, not below zero: (q, 1)."""
        operator: Any = self.posterior.operator
        if self.weighs:
            return self._weighed(operator.roots[0])
        require_memory(len(self.posterior.points), 3, "the graph of a variance", "export")
        by_products = (KroneckerOperator, IterativeOperator)
        if operator.walks or isinstance(operator, by_products):  # K is formed after all
            gram = DenseGram(self.prior.signal, self.posterior.points)
            factor, basis = gram.factor(operator.W), self.posterior.basis
            if basis is not None:
                factor = factor.projected(basis(self.posterior.points))
            operator = factor.operator()
        return np.maximum(self._prior_variance() - _reduced(operator, self.K, self.h), 0.0)

    def _weighed(self, root: Array) -> Value:
        """|R^-T [phi; h]|^2 for each row, (q, 1)."""
        phi = self.K if self.h is None else stack([self.K, self.h])
        return np.square(phi @ solve_triangular(root, np.eye(len(root)))).sum()

    def _weighed_blocks(self, operator: Any, m: int) -> list[list[Value]]:
        zero, roots = 0.0 * self.K.take([0]), operator.roots
        if not operator.joint:
            each = [self._weighed(root) for root in (roots if len(roots) > 1 else roots * m)]
            return [[each[c] if c == e else zero for e in range(m)] for c in range(m)]
        half = solve_triangular(roots[0], np.eye(len(roots[0])))
        p = len(operator.weights)
        halves = [self.K @ half[c * p : (c + 1) * p] for c in range(m)]
        return [[(a * b).sum() for b in halves] for a in halves]

    def blocks(self) -> list[list[Value]]:
        """Covariances (q, 1) of the m functions among each other at each row, by pairs."""
        K, operator, several = self.K, self.posterior.operator, range(self.posterior.alpha.shape[1])
        if self.weighs:
            return self._weighed_blocks(operator, len(several))
        zero, prior = 0.0 * K.take([0]), self._prior_variance()
        if not isinstance(operator, SeveralOperator):
            return [[self.var() if c == e else zero for e in several] for c in several]
        if isinstance(operator, ContrastedOperator):
            raise ExportError(
                "a softmax with an unpenalised basis cannot be exported: give loss='probit' or "
                "'logistic', one machine per class against the rest"
            )
        own, halves = [_reduced(each, K, self.h) for each in operator.operators], []
        if operator.shared is not None:
            products: Any = [_product(each, K.T) for each in operator.operators]  # type: ignore[arg-type]  # of values values
            halves = [half_solve(operator.shared, each) for each in products]

        def block(c: int, e: int) -> Value:
            reduced = own[c] if c == e else zero  # zero between independent functions
            if halves:
                reduced = reduced - (halves[min(c, e)] * halves[max(c, e)]).sum(0).T
            return (prior if c == e else zero) - reduced

        return [[block(c, e) for e in several] for c in several]

    def noise(self) -> Value:
        """Variance of the kernel's noise parts, (q, 1) or (1, 1)."""
        if self.prior.signal is self.prior.kernel:
            return self.X.graph.constant(np.zeros((1, 1)))
        return written(self.prior.kernel, self.X, None) - written(self.prior.signal, self.X, None)

    def _prior_variance(self) -> Value:
        if self.prior.kernel.pairwise:
            raise ExportError(
                "kernel values of new rows with the training rows do not say how the new rows "
                "vary: there is no deviation and no probability to export; for a regressor export "
                "the mean alone with std=False"
            )
        return written(self.prior.signal, self.X, None)


def _reduced(operator: PosteriorOperator, K: Value, h: Value | None) -> Value:
    """k'C k less the basis term for each row: (q, 1); h (q, b) are the basis functions."""
    A: Any = K.T
    try:
        return value_of(operator.reduce_diag(A, h)).expand(1)  # type: ignore[arg-type]  # of values values
    except ExportError as error:
        raise ExportError(f"the operator {type(operator).__name__}: {error}") from None


class Noiseless:
    """A process whose noise is the loss's alone, at rows X."""

    def __init__(self, process: Any, X: Value) -> None:
        self.process, self.X = process, X

    def noise(self) -> Value:
        """Zero."""
        return self.X.graph.constant(np.zeros((1, 1)))


class TracedSparse(Noiseless):
    """A :class:`Sparse` or :class:`Augmented` process: few functions of a relevance search."""

    def __init__(self, process: Sparse, X: Value) -> None:
        super().__init__(process, X)
        self.phi = _functions(cast(Functions, process.functions), X)
        self.added = process.added if isinstance(process, Augmented) else None

    def mean(self) -> Value:
        """phi(x)'mu, and what the augmenting function adds: (q, 1)."""
        mean = self._zero() if self.phi is None else self.phi @ self.process.mu[:, None]
        return mean if self.added is None else mean + self._augmented()[0]

    def var(self) -> Value:
        """phi(x)' Sigma phi(x), and what the augmenting function adds: (q, 1)."""
        var = self._zero() if self.phi is None else np.square(self._half(self.phi)).sum()
        return var if self.added is None else var + self._augmented()[1]

    def _augmented(self) -> tuple[Value, Value]:
        """See :class:`Augmented`; the rows of ``star`` are the new points."""
        added: Any = self.added
        star, height = (
            cross(added.kernel, self.X, added.points),
            written(added.kernel, self.X, None),
        )
        e, s = height + self._zero(), (np.square(star) * added.b[None, :]).sum()
        if self.phi is not None:
            near, there = self._half(self.phi), self._half(star @ (added.F * added.b).T)
            e, s = e - (near * there).sum(), s - np.square(there).sum()
        total = np.square(height) / float(added.variance) + np.maximum(s, 0.0)
        return e * (star @ added.a[:, None]) / total, np.square(e) / total

    def _half(self, phi: Value) -> Value:
        """R^-T phi (q, p), whose squared length is the variance."""
        return phi @ self.process.spread.half(np.eye(len(self.process.mu))).T

    def _zero(self) -> Value:
        return 0.0 * self.X.take([0])


def _functions(functions: Functions, X: Value) -> Value | None:
    """phi(X) (q, p), or None: there are none."""
    parts = [0.0 * X.take([0]) + 1.0] if functions.bias else []
    if functions.kernel is not None and functions.centres is not None:
        if len(functions.centres):
            parts.append(cross(functions.kernel, X, functions.centres))
    elif functions.own is not None:
        raise ExportError(
            "functions of your own cannot be exported: they are Python; compute them before the "
            "model and use functions='columns'"
        )
    elif functions.columns:
        parts.append(X.take(functions.columns))
    return stack(parts) if parts else None


class TracedSpline(Noiseless):
    """The posterior of a smoothing spline: a polynomial for each interval, found by bisection.

    The mean is a polynomial of degree 2 m - 1 between two knots, and of degree m - 1 beyond them.
    So is the variance, of degree 4 m - 2 between and 2 m - 1 beyond: the bridge between two states
    adds squares of the polynomials that carry them. Both are taken from as many values as they have
    coefficients, about the middle of each interval.
    """

    def __init__(self, posterior: SplinePosterior, X: Value) -> None:
        super().__init__(posterior, X)
        self.knots = np.unique(posterior.states.x)
        reach = float(self.knots[-1] - self.knots[0])
        self.half = 0.5 * np.concatenate([[reach], np.diff(self.knots), [reach]])
        inside = 0.5 * (self.knots[1:] + self.knots[:-1])
        ends = self.knots[[0, -1]] + np.array([-0.5, 0.5]) * reach
        self.middle = np.concatenate([ends[:1], inside, ends[1:]])

    def mean(self) -> Value:
        """The curve, (q, 1)."""
        m = self.process.states.order
        return self._value(lambda x: self.process.mean(x[:, None])[:, 0], 2 * m - 1, m - 1)

    def var(self) -> Value:
        """Its variance, (q, 1)."""
        m = self.process.states.order
        variance: Any = self._value(lambda x: self.process.diag(x[:, None]), 4 * m - 2, 2 * m - 1)
        return np.maximum(variance, 0.0)

    def _value(self, function: Callable[[Array], Array], inner: int, outer: int) -> Value:
        """A piecewise polynomial of degree ``inner`` between knots and ``outer`` beyond."""
        table, index = self._table(function, inner, outer), self._interval()
        t = (self.X - self._chosen(self.middle, index)) / self._chosen(self.half, index)
        total = 0.0 * t
        for column in table.T[::-1]:
            total = total * t + self._chosen(column, index)
        return total

    def _table(self, function: Callable[[Array], Array], inner: int, outer: int) -> Array:
        """Coefficients (n + 1, inner + 1) of t in [-1, 1] on each interval, lowest power first."""
        last = len(self.half) - 1
        table = np.zeros((last + 1, max(inner, outer) + 1))
        for rows, degree in ((np.arange(1, last), inner), (np.array([0, last]), outer)):
            nodes = np.polynomial.chebyshev.chebpts1(degree + 1)
            places = self.middle[rows, None] + self.half[rows, None] * nodes
            values = function(places.ravel()).reshape(places.shape)
            powers = np.linalg.solve(np.vander(nodes, increasing=True), values.T)
            table[rows, : degree + 1] = powers.T
        return table

    def _interval(self) -> Value:
        """Number of knots at or below x, (q, 1) of 64-bit integers, by bisection."""
        n, low = len(self.knots), 0.0 * self.X
        for step in (2.0**i for i in reversed(range(n.bit_length()))):
            tried = low + step
            known = self._chosen(self.knots, np.minimum(tried - 1.0, n - 1.0).cast(np.int64))
            fits = where(known > self.X, 0.0, 1.0) * where(tried > float(n), 0.0, 1.0)
            low = low + fits * step
        return low.cast(np.int64)

    def _chosen(self, table: Array, index: Value) -> Value:
        return self.X.graph.add("Gather", table, index, axis=0)
