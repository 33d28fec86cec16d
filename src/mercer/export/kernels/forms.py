"""How a kernel is written in ONNX: by its own profile, or by the form entered for its class.

A kernel that states ``profile(s)`` and ``coordinates(X, d)``, as every stationary one does, is
evaluated on values, and thereby writes itself. All others have a function here that does. What was
written is compared with the kernel at some of the points before it is used: a subclass that changed
more than its form knows is refused, never exported as its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import Any, TypeVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import ExportError
from mercer.export.expression import OnnxGraph, Value, evaluated, value_of
from mercer.kernels.base import Kernel

# (kernel, X, P) -> k(X, P) (q, n); with P = None, k(x, x) (q, 1), or (1, 1) if it is constant
Form = Callable[[Any, Value, Array | None], Value]
FORMS: dict[type, Form] = {}
FEATURES: dict[type, Callable[[Any, Value], Value]] = {}
F = TypeVar("F", bound=Callable[..., Value])

COMPARED = 6  # points at which kernel and graph are compared
NEAR = 1e-8  # relative to the largest kernel value there


def cross(kernel: Kernel, X: Value, P: Array) -> Value:
    """Return k(X, P) (q, n) for rows X (q, d) and known points P (n, d)."""
    if not kernel.pairwise:
        _compare(kernel, P[:COMPARED])
    return written(kernel, X, P)


def diagonal(kernel: Kernel, X: Value) -> Value:
    """Return k(x, x) for each row of X (q, d): (q, 1), or (1, 1) where it is the same for all."""
    return written(kernel, X, None)


def features(kernel: Kernel, X: Value) -> Value:
    """Return phi(X) (q, m) with k(x, z) = phi(x)'phi(z), of a kernel that has such a map."""
    if type(kernel) not in FEATURES:
        raise ExportError(f"{_named(kernel)} cannot be exported: ONNX has no form of its features")
    return FEATURES[type(kernel)](kernel, X)


def form_of(*classes: type) -> Callable[[F], F]:
    """Enter a function (kernel, X, P) for kernels of these classes; see :data:`Form`."""

    def enter(function: F) -> F:
        FORMS.update(dict.fromkeys(classes, function))
        return function

    return enter


def features_of(cls: type) -> Callable[[F], F]:
    """Enter phi(X), a function of (kernel, X), which says all about such a kernel."""

    def enter(function: F) -> F:
        def whole(kernel: Any, X: Value, P: Array | None) -> Value:
            phi = function(kernel, X)
            return np.square(phi).sum() if P is None else phi @ np.asarray(kernel.features(P)).T

        FEATURES[cls], FORMS[cls] = function, whole
        return function

    return enter


def written(kernel: Kernel, X: Value, P: Array | None) -> Value:
    """Write the nodes of k(X, P), or of k(x, x) if P is None."""
    for cls in type(kernel).__mro__:
        if cls in FORMS:
            return FORMS[cls](kernel, X, P)
    profile = getattr(kernel, "profile", None)
    if not callable(profile):
        raise ExportError(
            f"{_named(kernel)} cannot be exported: it has no form in ONNX; one that states its "
            "profile, as a subclass of Stationary does, or a built-in one of "
            f"{', '.join(sorted(cls.__name__ for cls in FORMS))} does"
        )
    if P is None:
        return constant_diagonal(kernel, X)
    try:
        rows, d = value_of(kernel.coordinates(X, P.shape[1])), P.shape[1]  # type: ignore[attr-defined]  # stated beside the profile
        s = squared_distance(rows, np.asarray(kernel.coordinates(P, d)))  # type: ignore[attr-defined]  # stated beside the profile
        value = value_of(profile(s))
    except ExportError as error:
        raise ExportError(f"{_named(kernel)} cannot be exported: {error}") from None
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ExportError(
            f"{_named(kernel)} cannot be exported: its profile is not a formula of NumPy functions "
            f"alone ({error})"
        ) from error
    return value if isinstance(value, Value) else 0.0 * s + value


def constant_diagonal(kernel: Any, X: Value) -> Value:
    """Return k(x, x) of a kernel for which it is the same everywhere, (1, 1)."""
    return X.graph.constant(np.reshape(kernel.diag(np.zeros((1, 1))), (1, 1)))


def squared_distance(X: Value, P: Array) -> Value:
    """Return sum_d (x_d - p_d)^2 (q, n), from differences: coincident points are at distance 0."""
    return total([np.square(d) for d in differences(X, P)])


def differences(X: Value, P: Array) -> list[Value]:
    """x_d - p_d (q, n) for each column d."""
    return [X.take([j]) - P[None, :, j] for j in range(P.shape[1])]


def total(values: list[Value]) -> Value:
    """Return the sum of the values."""
    return reduce(add, values)


def product(values: list[Value]) -> Value:
    """Return the product of the values."""
    return reduce(mul, values)


def _compare(kernel: Kernel, P: Array) -> None:
    """Refuse a kernel whose graph has other values than it, between the points P and at each."""
    graph = OnnxGraph()
    X = Value(graph, "X")
    values = [written(kernel, X, P), 0.0 * X.take([0]) + diagonal(kernel, X)]
    K, diag = evaluated(graph, values, {"X": np.asarray(P, dtype=np.float64)})
    for ours, theirs in ((kernel(P, P), K), (kernel.diag(P)[:, None], diag)):
        gap = np.abs(ours - theirs).max(initial=0.0)
        if not gap <= NEAR * np.abs(ours).max(initial=0.0):
            raise ExportError(
                f"{_named(kernel)} cannot be exported: what can be written of it differs from its "
                f"values by {gap:.2g}, because a subclass computes them in another way"
            )


def _named(kernel: Kernel) -> str:
    whole = repr(kernel)
    return f"the kernel {whole if len(whole) < 50 else type(kernel).__name__}"
