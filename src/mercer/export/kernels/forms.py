"""Forms: how each kernel is written in ONNX. The table, and what is asked of it.

A form is looked up by the exact class: what a subclass changed is not known here.

Stationary kernels in ONNX: a profile of the squared scaled distance.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any, TypeVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import ExportError
from mercer.export.expression import Value, log1p, polynomial
from mercer.kernels import (
    RBF,
    BiasedRBF,
    Matern,
    OrnsteinUhlenbeck,
    Periodic,
    RationalQuadratic,
    SquaredExponentialOperator,
    Wendland,
)
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.wendland import series

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


SMOOTHEST = 20.5  # of the Matern kernels: beyond, use the RBF


def squared_distance(X: Value, P: Array) -> Value:
    """Return sum_d (x_d - p_d)^2 (q, n), from differences: coincident points are at distance 0."""
    columns = [(X.take([j]) - P[None, :, j]).square() for j in range(P.shape[1])]
    total = columns[0]
    for column in columns[1:]:
        total = total + column
    return total


Profile = Callable[[Any, Value], Value]


def profile_of(cls: type) -> Callable[[Profile], Profile]:
    """Enter the profile, a function of (kernel, s), of a kernel with a length scale."""

    def enter(profile: Profile) -> Profile:
        def whole(kernel: Any, X: Value, P: Array) -> Value:
            scale = np.asarray(kernel.length_scale, dtype=np.float64)
            return profile(kernel, squared_distance(X / scale, P / scale))

        CROSS[cls], DIAGONAL[cls] = whole, constant_diagonal
        return profile

    return enter


@profile_of(RBF)
def _rbf(kernel: RBF, s: Value) -> Value:
    return (-0.5 * s).exp()


@profile_of(RationalQuadratic)
def _rational(kernel: RationalQuadratic, s: Value) -> Value:
    alpha = float(kernel.alpha)
    return (-alpha * log1p(s / (2.0 * alpha))).exp()


@profile_of(Matern)
def _matern(kernel: Matern, s: Value) -> Value:
    nu = float(kernel.nu)
    p = int(nu)
    if nu - p != 0.5 or nu > SMOOTHEST:
        raise ExportError(
            f"the kernel Matern(nu={nu:g}) cannot be exported: it is a Bessel function; of half a "
            f"whole number up to nu={SMOOTHEST:g} (0.5, 1.5, 2.5, ...) it is a polynomial"
        )
    r = (2.0 * nu * s).sqrt()
    # GPML (4.16): e^-r p!/(2p)! sum_i (p + i)! / (i! (p - i)!) (2 r)^(p - i)
    terms = [
        factorial(p) / factorial(2 * p) * factorial(2 * p - j) / factorial(p - j) / factorial(j)
        for j in range(p + 1)
    ]
    return (-r).exp() * polynomial(2.0 * r, np.array(terms))


@profile_of(Wendland)
def _wendland(kernel: Wendland, s: Value) -> Value:
    j, q = kernel._orders()
    r = s.sqrt()
    inside = (1.0 - r).at_least(0.0) ** (j + q)
    return inside * polynomial(r, np.array(series(j, q)))


@cross_of(Periodic)
def _periodic(kernel: Periodic, X: Value, P: Array) -> Value:
    turns = X / np.asarray(kernel.period, dtype=np.float64)
    angle = (turns - turns.apply("Floor")) * (2.0 * np.pi)
    wound = X.graph.add("Concat", angle.apply("Cos"), angle.apply("Sin"), axis=1)
    scale = np.broadcast_to(np.asarray(kernel.length_scale, dtype=np.float64), P.shape[1])
    return (-0.5 * squared_distance(wound / np.tile(scale, 2), kernel._wound(P))).exp()


@cross_of(BiasedRBF)
def _biased(kernel: BiasedRBF, X: Value, P: Array) -> Value:
    root = np.sqrt(np.asarray(kernel.weight, dtype=np.float64) / P.shape[1])
    e = (-0.5 * squared_distance(X * root, P * root)).exp()
    return float(kernel.variance) * (e + float(kernel.bias))


@cross_of(OrnsteinUhlenbeck)
@cross_of(SquaredExponentialOperator)
def _named(kernel: Any, X: Value, P: Array) -> Value:
    amplitude, _, inner, _ = kernel._form()
    return float(amplitude) * CROSS[type(inner)](inner, X, P)


for _cls in (Periodic, BiasedRBF, OrnsteinUhlenbeck, SquaredExponentialOperator):
    DIAGONAL[_cls] = constant_diagonal
