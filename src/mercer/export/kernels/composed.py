"""The algebra of kernels in ONNX, and the kernel of thin plates."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import Basis, PolynomialBasis
from mercer.core.errors import ExportError
from mercer.export.expression import Value, stack, where
from mercer.export.kernels.forms import (
    FEATURES,
    cross,
    cross_of,
    diagonal,
    diagonal_of,
    features,
    squared_distance,
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
from mercer.kernels.splines.thin_plate import constant, green


@cross_of(Sum)
def _sum(kernel: Sum, X: Value, P: Array) -> Value:
    return _added([cross(part, X, P) for part in kernel.parts])


@diagonal_of(Sum)
def _sum_diagonal(kernel: Sum, X: Value) -> Value:
    return _added([diagonal(part, X) for part in kernel.parts])


@cross_of(Product)
def _product(kernel: Product, X: Value, P: Array) -> Value:
    return _multiplied([cross(part, X, P) for part in kernel.parts])


@diagonal_of(Product)
def _product_diagonal(kernel: Product, X: Value) -> Value:
    return _multiplied([diagonal(part, X) for part in kernel.parts])


@cross_of(Scale)
def _scale(kernel: Scale, X: Value, P: Array) -> Value:
    return float(kernel.variance) * cross(kernel.kernel, X, P)


@diagonal_of(Scale)
def _scale_diagonal(kernel: Scale, X: Value) -> Value:
    return float(kernel.variance) * diagonal(kernel.kernel, X)


@cross_of(Power)
def _power(kernel: Power, X: Value, P: Array) -> Value:
    return cross(kernel.kernel, X, P) ** int(kernel.exponent)


@diagonal_of(Power)
def _power_diagonal(kernel: Power, X: Value) -> Value:
    return diagonal(kernel.kernel, X) ** int(kernel.exponent)


@cross_of(Columns)
def _columns(kernel: Columns, X: Value, P: Array) -> Value:
    chosen = kernel._positions(P.shape[1])
    return cross(kernel.kernel, X.take(chosen), P[:, chosen])


@diagonal_of(Columns)
def _columns_diagonal(kernel: Columns, X: Value) -> Value:
    # names were resolved in fit, and positions counted from the end with them
    return diagonal(kernel.kernel, X.take([int(c) for c in kernel.columns]))


@cross_of(Standardized)
def _standardized(kernel: Standardized, X: Value, P: Array) -> Value:
    return cross(kernel.kernel, _inside(kernel, X), kernel._inside(P))


@diagonal_of(Standardized)
def _standardized_diagonal(kernel: Standardized, X: Value) -> Value:
    return diagonal(kernel.kernel, _inside(kernel, X))


def _inside(kernel: Standardized, X: Value) -> Value:
    return (X - np.asarray(kernel.shift)) / np.asarray(kernel.scale)


@cross_of(White)
@cross_of(Noise)
def _noise(kernel: White | Noise, X: Value, P: Array) -> Value:
    return X.take([0]) * np.zeros((1, len(P)))  # other rows have other noise


@diagonal_of(White)
def _white_diagonal(kernel: White, X: Value) -> Value:
    return X.graph.constant(np.full((1, 1), float(kernel.noise)))


@diagonal_of(Noise)
def _noise_diagonal(kernel: Noise, X: Value) -> Value:
    return diagonal(kernel.kernel, X)


@cross_of(ThinPlate)
def _thin_plate(kernel: ThinPlate, X: Value, P: Array) -> Value:
    G = _green(X, P, int(kernel.order))
    if kernel.anchors is None:
        return G
    PX, BX = _halves(kernel, X)
    PZ, BZ = kernel._halves(P)
    return G - PX @ BZ.T - BX @ PZ.T


@diagonal_of(ThinPlate)
def _thin_plate_diagonal(kernel: ThinPlate, X: Value) -> Value:
    if kernel.anchors is None:
        return X.graph.constant(np.zeros((1, 1)))
    P, B = _halves(kernel, X)
    return -2.0 * (P * B).sum()


def _green(X: Value, Z: Array, order: int) -> Value:
    """G(|x - z|) (q, n) of :func:`mercer.kernels.splines.thin_plate.green`."""
    D = Z.shape[1]
    r2 = squared_distance(X, Z)
    if D % 2:
        G = r2.sqrt()
        power = order - (D + 1) // 2
    else:
        G = 0.5 * where(r2 > 0.0, r2 * where(r2 > 0.0, r2, 1.0).log(), 0.0)
        power = order - D // 2 - 1
    return constant(order, D) * (G * r2**power if power else G)


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
            f"the basis {type(basis).__name__} cannot be exported: it is a Python function; give "
            "the columns themselves to the model, and a basis of a degree"
        )
    one = 0.0 * X.take([0]) + 1.0
    return stack([_multiplied([one, *(X.take([j]) for j in c)]) for c in basis._monomials(d)])


# a part of a kernel whose map is known has its own map only where all parts do: see ``forms``
FEATURES[Sum] = lambda kernel, X: stack([features(part, X) for part in kernel.parts])
FEATURES[Scale] = lambda kernel, X: float(np.sqrt(kernel.variance)) * features(kernel.kernel, X)
FEATURES[Columns] = lambda kernel, X: features(kernel.kernel, X.take(kernel.columns))
FEATURES[Standardized] = lambda kernel, X: features(kernel.kernel, _inside(kernel, X))
FEATURES[Constant] = lambda kernel, X: 0.0 * X.take([0]) + float(np.sqrt(kernel.value))


def _added(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _multiplied(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total * value
    return total
