"""Kernels of inner products, of features and of categories in ONNX."""

from __future__ import annotations

from math import comb, factorial

import numpy as np

from mercer.core.arrays import Array, half_solve
from mercer.export.expression import Value, atan, log1p, polynomial, where
from mercer.export.kernels.forms import (
    DIAGONAL,
    constant_diagonal,
    cross,
    cross_of,
    diagonal_of,
    features_of,
)
from mercer.kernels import (
    TFIDF,
    ArcSine,
    Categorical,
    Constant,
    Cosine,
    Linear,
    MultinomialFisher,
    Nugget,
    Nystroem,
    PeriodicSpline,
    Polynomial,
    Precomputed,
    RandomFourier,
    Spline,
)
from mercer.kernels.splines.cycle import _centred

ROUNDING = 1e-12  # relative, within which rows of a Nugget are the same


@features_of(Linear)
def _linear(kernel: Linear, X: Value) -> Value:
    centred = X if kernel.centre is None else X - np.asarray(kernel.centre, dtype=np.float64)
    return centred * np.sqrt(np.asarray(kernel.weight, dtype=np.float64))


@features_of(RandomFourier)
def _fourier(kernel: RandomFourier, X: Value) -> Value:
    assert kernel.frequencies is not None  # an estimator keeps them
    phases = (X / np.asarray(kernel.length_scale, dtype=np.float64)) @ kernel.frequencies.T
    both = X.graph.add("Concat", phases.apply("Cos"), phases.apply("Sin"), axis=1)
    return both / float(np.sqrt(len(kernel.frequencies)))


@features_of(TFIDF)
def _tfidf(kernel: TFIDF, X: Value) -> Value:
    F = log1p(X) * np.asarray(kernel.idf, dtype=np.float64)
    square = F.square().sum()
    return F / where(square > 0.0, square, 1.0).sqrt()


@features_of(MultinomialFisher)
def _multinomial(kernel: MultinomialFisher, X: Value) -> Value:
    p = np.asarray(kernel.probabilities, dtype=np.float64)
    return (X - X.sum() * p) / np.sqrt(p)


@features_of(Nystroem)
def _nystroem(kernel: Nystroem, X: Value) -> Value:
    assert kernel.points is not None  # an estimator keeps them
    P, root = kernel._root(np.shape(kernel.points)[1])
    return cross(kernel._signal(), X, P) @ half_solve(root, np.eye(len(P))).T


@cross_of(Constant)
def _constant(kernel: Constant, X: Value, P: Array) -> Value:
    return X.take([0]) * np.zeros((1, len(P))) + float(kernel.value)


@cross_of(Polynomial)
def _polynomial(kernel: Polynomial, X: Value, P: Array) -> Value:
    weight = np.asarray(kernel.weight, dtype=np.float64)
    return ((X * weight) @ P.T + float(kernel.offset or 0.0)) ** int(kernel.degree)


@diagonal_of(Polynomial)
def _polynomial_diagonal(kernel: Polynomial, X: Value) -> Value:
    weight = np.asarray(kernel.weight, dtype=np.float64)
    return ((X * X * weight).sum() + float(kernel.offset or 0.0)) ** int(kernel.degree)


@cross_of(ArcSine)
def _arcsine(kernel: ArcSine, X: Value, P: Array) -> Value:
    c = (X * (2.0 * np.asarray(kernel.weight))) @ P.T + 2.0 * float(kernel.bias)
    p, q = _own_products(kernel, X), kernel._squares(P)[None, :]
    adjacent = (p * q - c * c).at_least(0.0) + (1.0 + p) + q  # (1 + p)(1 + q) - c^2
    return (2.0 / np.pi) * atan(c / adjacent.sqrt())


@diagonal_of(ArcSine)
def _arcsine_diagonal(kernel: ArcSine, X: Value) -> Value:
    p = _own_products(kernel, X)
    return (2.0 / np.pi) * atan(p / (1.0 + 2.0 * p).sqrt())


def _own_products(kernel: ArcSine, X: Value) -> Value:
    return 2.0 * ((X * X * np.asarray(kernel.weight)).sum() + float(kernel.bias))


@cross_of(Cosine)
def _cosine(kernel: Cosine, X: Value, P: Array) -> Value:
    turns = 2.0 * np.pi / np.broadcast_to(np.asarray(kernel.period), P.shape[1])
    factors = [(d * float(t)).apply("Cos") for d, t in zip(_differences(X, P), turns, strict=True)]
    return _product(factors)


@cross_of(Categorical)
def _categorical(kernel: Categorical, X: Value, P: Array) -> Value:
    correlation = np.broadcast_to(np.asarray(kernel.correlation), P.shape[1])
    pairs = zip(_differences(X, P), correlation, strict=True)
    return _product([where(d == 0.0, 1.0, float(c)) for d, c in pairs])


@cross_of(Nugget)
def _nugget(kernel: Nugget, X: Value, P: Array) -> Value:
    # rows that went through preprocessing here and there agree to rounding
    close = [
        where(d.apply("Abs") < ROUNDING * (1.0 + np.abs(P[None, :, j])), 1.0, 0.0)
        for j, d in enumerate(_differences(X, P))
    ]
    return _product(close) * float(kernel.variance)


@cross_of(Spline)
def _spline(kernel: Spline, X: Value, P: Array) -> Value:
    x, z = X - float(kernel.origin), P.T - float(kernel.origin)
    inside = where(x < 0.0, np.nan, x)  # mercer refuses a row below the origin
    return _integral(kernel, inside.at_most(z), (inside - z).apply("Abs"))


@diagonal_of(Spline)
def _spline_diagonal(kernel: Spline, X: Value) -> Value:
    x = X - float(kernel.origin)
    return _integral(kernel, where(x < 0.0, np.nan, x), 0.0 * x)


def _integral(kernel: Spline, v: Value, d: Value) -> Value:
    m, total = int(kernel.order), 0.0 * v
    for j in range(m - 1, -1, -1):
        c = comb(m - 1, j) / (2 * m - 1 - j)
        total = total * d + (c * v ** (m - 1 - j) if j < m - 1 else c)
    return total * v**m / float(factorial(m - 1) ** 2)


@cross_of(PeriodicSpline)
def _periodic_spline(kernel: PeriodicSpline, X: Value, P: Array) -> Value:
    m = int(kernel.order)
    turns = (X - P.T).apply("Abs") / float(kernel.period)
    t = turns - turns.apply("Floor") - 0.5
    return polynomial(t * t, np.array(_centred(2 * m, m)[0::2]))


@cross_of(Precomputed)
def _precomputed(kernel: Precomputed, X: Value, P: Array) -> Value:
    if kernel.matrix is None:
        return X  # the kernel values with the training points themselves
    columns = np.asarray(kernel.matrix, dtype=np.float64)[:, P[:, 0].astype(int)]
    return X.graph.add("Gather", columns, X.cast(np.int64).squeeze(1), axis=0)


@diagonal_of(Precomputed)
def _precomputed_diagonal(kernel: Precomputed, X: Value) -> Value:
    matrix = np.asarray(kernel.matrix, dtype=np.float64)
    return X.graph.add("Gather", matrix.diagonal(), X.cast(np.int64), axis=0)


def _differences(X: Value, P: Array) -> list[Value]:
    """x_d - p_d (q, n) for each column d."""
    return [X.take([j]) - P[None, :, j] for j in range(P.shape[1])]


def _product(factors: list[Value]) -> Value:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


for _cls in (Constant, Cosine, Categorical, Nugget, PeriodicSpline):
    DIAGONAL[_cls] = constant_diagonal
