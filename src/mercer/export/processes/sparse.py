"""Relevance vector machines in ONNX: a process on few functions, and its augmented form."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer.core.errors import ExportError
from mercer.estimators.relevance_vector.fit import Functions
from mercer.export.expression import Value, stack
from mercer.export.kernels.forms import cross, diagonal
from mercer.process.sparse import Augmented, Sparse


class TracedSparse:
    """A :class:`Sparse` or :class:`Augmented` process at rows X (q, d) that are not known yet."""

    def __init__(self, process: Sparse, X: Value) -> None:
        self.process, self.X = process, X
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

    def noise(self) -> Value:
        """Zero: all noise is the loss's."""
        return self.X.graph.constant(np.zeros((1, 1)))

    def _augmented(self) -> tuple[Value, Value]:
        """See :class:`Augmented`; the rows of ``star`` are the new points."""
        added: Any = self.added
        star, height = cross(added.kernel, self.X, added.points), diagonal(added.kernel, self.X)
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
