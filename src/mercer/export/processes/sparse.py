"""Relevance vector machines in ONNX: a process on few functions, and its healed form."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer.core.errors import ExportError
from mercer.estimators.relevance_vector.fit import Functions
from mercer.export.expression import Value, stack
from mercer.export.kernels.forms import cross, diagonal
from mercer.process.sparse import Healed, Sparse


class TracedSparse:
    """A :class:`Sparse` or :class:`Healed` process at rows X (q, d) that are not known yet."""

    def __init__(self, process: Sparse, X: Value) -> None:
        self.process, self.X = process, X
        self.phi = _functions(cast(Functions, process.functions), X)
        self.cure = process.cure if isinstance(process, Healed) else None

    def mean(self) -> Value:
        """phi(x)'mu, and what the healing function adds: (q, 1)."""
        mean = self._zero() if self.phi is None else self.phi @ self.process.mu[:, None]
        return mean if self.cure is None else mean + self._healed()[0]

    def var(self) -> Value:
        """phi(x)' Sigma phi(x), and what the healing function adds: (q, 1)."""
        var = self._zero() if self.phi is None else np.square(self._half(self.phi)).sum()
        return var if self.cure is None else var + self._healed()[1]

    def noise(self) -> Value:
        """Zero: all noise is the loss's."""
        return self.X.graph.constant(np.zeros((1, 1)))

    def _healed(self) -> tuple[Value, Value]:
        """See :class:`Healed`; the rows of ``star`` are the new points."""
        cure: Any = self.cure
        star, height = cross(cure.kernel, self.X, cure.points), diagonal(cure.kernel, self.X)
        e, s = height + self._zero(), (np.square(star) * cure.b[None, :]).sum()
        if self.phi is not None:
            near, there = self._half(self.phi), self._half(star @ (cure.F * cure.b).T)
            e, s = e - (near * there).sum(), s - np.square(there).sum()
        total = np.square(height) / float(cure.variance) + np.maximum(s, 0.0)
        return e * (star @ cure.a[:, None]) / total, np.square(e) / total

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
