"""The algebra of kernels in ONNX, and the kernel of thin plates."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import Basis, PolynomialBasis
from mercer.core.errors import ExportError
from mercer.export.expression import Value, stack
from mercer.export.kernels.forms import (
    FEATURES,
    features,
    form_of,
    product,
    squared_distance,
    total,
    written,
)
from mercer.kernels import (
    Columns,
    Constant,
    Noise,
    Power,
    Product,
    Scale,
    Standardized,
    Sum,
    ThinPlate,
    White,
)
from mercer.kernels.thin_plate import green, green_of_squares


@form_of(Sum)
def _sum(kernel: Sum, X: Value, P: Array | None) -> Value:
    return total([written(part, X, P) for part in kernel.parts])


@form_of(Product)
def _product(kernel: Product, X: Value, P: Array | None) -> Value:
    return product([written(part, X, P) for part in kernel.parts])


@form_of(Scale)
def _scale(kernel: Scale, X: Value, P: Array | None) -> Value:
    return float(kernel.variance) * written(kernel.kernel, X, P)


@form_of(Power)
def _power(kernel: Power, X: Value, P: Array | None) -> Value:
    return written(kernel.kernel, X, P) ** int(kernel.exponent)


@form_of(Columns)
def _columns(kernel: Columns, X: Value, P: Array | None) -> Value:
    # names were resolved in fit, and positions counted from the end with them
    chosen = [int(c) for c in kernel.columns] if P is None else kernel._positions(P.shape[1])
    return written(kernel.kernel, X.take(chosen), None if P is None else P[:, chosen])


@form_of(Standardized)
def _standardized(kernel: Standardized, X: Value, P: Array | None) -> Value:
    inside = None if P is None else kernel._inside(P)
    return written(kernel.kernel, _inside(kernel, X), inside)


def _inside(kernel: Standardized, X: Value) -> Value:
    return (X - np.asarray(kernel.shift)) / np.asarray(kernel.scale)


@form_of(White, Noise)
def _noise(kernel: White | Noise, X: Value, P: Array | None) -> Value:
    if P is not None:  # other rows have other noise
        return X.take([0]) * np.zeros((1, len(P)))
    if isinstance(kernel, Noise):
        return written(kernel.kernel, X, None)
    return X.graph.constant(np.full((1, 1), float(kernel.noise)))


@form_of(ThinPlate)
def _thin_plate(kernel: ThinPlate, X: Value, P: Array | None) -> Value:
    if kernel.anchors is None:
        return X.graph.constant(np.zeros((1, 1))) if P is None else _green(X, P, kernel.order)
    PX, BX = _halves(kernel, X)
    if P is None:
        return -2.0 * (PX * BX).sum()
    PZ, BZ = kernel._halves(P)
    return _green(X, P, kernel.order) - PX @ BZ.T - BX @ PZ.T


def _green(X: Value, Z: Array, order: int) -> Value:
    squares: Any = squared_distance(X, Z)
    G: Any = green_of_squares(squares, int(order), Z.shape[1])
    return G


def _halves(kernel: ThinPlate, X: Value) -> tuple[Value, Value]:
    """p(X) and B of :meth:`ThinPlate._halves`, both (q, k)."""
    T, m = np.asarray(kernel.anchors, dtype=np.float64), int(kernel.order)
    centre = T.mean(axis=0)
    size = float(np.abs(T - centre).max(initial=0.0)) or 1.0
    basis = PolynomialBasis(m - 1)
    inverse = np.linalg.inv(basis((T - centre) / size))
    P = basis_rows(basis, (X - centre) / size, T.shape[1]) @ inverse
    B = _green(X, T, m) - 0.5 * (P @ green(T, T, m))
    return P, B


def basis_rows(basis: Basis, X: Value, d: int) -> Value:
    """h(X) (q, k) of a polynomial basis of d columns."""
    if type(basis) is not PolynomialBasis:
        raise ExportError(
            f"the basis {type(basis).__name__} cannot be exported: it is a Python function; pass "
            "its columns to the model as inputs, and a polynomial degree as basis"
        )
    one = 0.0 * X.take([0]) + 1.0
    return stack([product([one, *(X.take([j]) for j in c)]) for c in basis._monomials(d)])


# a composite has a map only where all its parts do
FEATURES[Sum] = lambda kernel, X: stack([features(part, X) for part in kernel.parts])
FEATURES[Scale] = lambda kernel, X: float(np.sqrt(kernel.variance)) * features(kernel.kernel, X)
FEATURES[Columns] = lambda kernel, X: features(kernel.kernel, X.take(kernel.columns))
FEATURES[Standardized] = lambda kernel, X: features(kernel.kernel, _inside(kernel, X))
FEATURES[Constant] = lambda kernel, X: 0.0 * X.take([0]) + float(np.sqrt(kernel.value))
