"""Forms: how each kernel is written in ONNX. The table, and what is asked of it.

A form is looked up by the exact class: what a subclass changed is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mercer.arrays import Array
from mercer.export.errors import ExportError
from mercer.export.value import Value
from mercer.kernels.base import Kernel

Cross = Callable[[Any, Value, Array], Value]
Diagonal = Callable[[Any, Value], Value]
F = TypeVar("F", bound=Callable[..., Value])

CROSS: dict[type, Cross] = {}
DIAGONAL: dict[type, Diagonal] = {}
FEATURES: dict[type, Diagonal] = {}
REASONS = {
    "Fisher": "its score is a Python function",
    "FromSklearn": "the kernel inside is scikit-learn's; use mercer's kernel of the same name",
    "Function": "it is a Python function",
    "MixtureFisher": "its scores are not written down for ONNX",
    "Operator": "its Green's function is a sum of Bessel functions",
}


def cross(kernel: Kernel, X: Value, P: Array) -> Value:
    """Return k(X, P) (q, n) for rows X (q, d) and known points P (n, d)."""
    _check(kernel, CROSS)
    return CROSS[type(kernel)](kernel, X, P)


def diagonal(kernel: Kernel, X: Value) -> Value:
    """Return k(x, x) for each row of X (q, d): (q, 1), or (1, 1) where it is the same for all."""
    _check(kernel, DIAGONAL)
    return DIAGONAL[type(kernel)](kernel, X)


def features(kernel: Kernel, X: Value) -> Value:
    """Return phi(X) (q, m) with k(x, z) = phi(x)'phi(z), of a kernel that has such a map."""
    _check(kernel, FEATURES)
    return FEATURES[type(kernel)](kernel, X)


def cross_of(cls: type) -> Callable[[F], F]:
    """Enter a function (kernel, X, P) -> k(X, P) for kernels of class ``cls``."""
    return _entered(CROSS, cls)


def diagonal_of(cls: type) -> Callable[[F], F]:
    """Enter a function (kernel, X) -> k(x, x) for kernels of class ``cls``."""
    return _entered(DIAGONAL, cls)


def features_of(cls: type) -> Callable[[F], F]:
    """Enter phi(X), a function of (kernel, X), which says all of such a kernel."""

    def enter(function: F) -> F:
        def whole(kernel: Any, X: Value, P: Array) -> Value:
            return function(kernel, X) @ np.asarray(kernel.features(P)).T

        FEATURES[cls], CROSS[cls] = function, whole
        DIAGONAL[cls] = lambda kernel, X: function(kernel, X).square().sum()
        return function

    return enter


def constant_diagonal(kernel: Any, X: Value) -> Value:
    """Return k(x, x) of a kernel for which it is the same everywhere, (1, 1)."""
    return X.graph.constant(np.reshape(kernel.diag(np.zeros((1, 1))), (1, 1)))


def _entered(table: dict[type, Any], cls: type) -> Callable[[F], F]:
    def enter(function: F) -> F:
        table[cls] = function
        return function

    return enter


def _check(kernel: Kernel, table: dict[type, Any]) -> None:
    if type(kernel) not in table:
        name = type(kernel).__name__
        known = ", ".join(sorted(cls.__name__ for cls in CROSS))
        why = REASONS.get(name, "it is a class of your own, and ONNX knows mercer's only")
        raise ExportError(
            f"the kernel {name} cannot be exported: {why}; kernels that can are {known}"
        )
