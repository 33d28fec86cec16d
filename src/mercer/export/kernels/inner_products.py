"""Kernels of inner products, of features and of categories in ONNX."""

from __future__ import annotations

from math import comb, factorial
from typing import Any

import numpy as np

from mercer.core.arrays import Array, half_solve
from mercer.export.expression import Value, where
from mercer.export.kernels.forms import (
    constant_diagonal,
    differences,
    features_of,
    form_of,
    product,
    written,
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
from mercer.kernels.splines import centred_bernoulli

ROUNDING = 1e-12  # relative, within which rows of a Nugget are the same


@features_of(Linear)
def _linear(kernel: Linear, X: Value) -> Value:
    centred = X if kernel.centre is None else X - np.asarray(kernel.centre, dtype=np.float64)
    return centred * np.sqrt(np.asarray(kernel.weight, dtype=np.float64))


@features_of(RandomFourier)
def _fourier(kernel: RandomFourier, X: Value) -> Value:
    assert kernel.frequencies is not None  # an estimator keeps them
    phases = (X / np.asarray(kernel.length_scale, dtype=np.float64)) @ kernel.frequencies.T
    both: Any = np.hstack([np.cos(phases), np.sin(phases)])
    return both / float(np.sqrt(len(kernel.frequencies)))


@features_of(TFIDF)
def _tfidf(kernel: TFIDF, X: Value) -> Value:
    F = np.log1p(X) * np.asarray(kernel.idf, dtype=np.float64)
    square = np.square(F).sum()
    return F / np.sqrt(where(square > 0.0, square, 1.0))


@features_of(MultinomialFisher)
def _multinomial(kernel: MultinomialFisher, X: Value) -> Value:
    p = np.asarray(kernel.probabilities, dtype=np.float64)
    return (X - X.sum() * p) / np.sqrt(p)


@features_of(Nystroem)
def _nystroem(kernel: Nystroem, X: Value) -> Value:
    assert kernel.points is not None  # an estimator keeps them
    P, root = kernel._root(np.shape(kernel.points)[1])
    return written(kernel._signal(), X, P) @ half_solve(root, np.eye(len(P))).T


@form_of(Constant)
def _constant(kernel: Constant, X: Value, P: Array | None) -> Value:
    if P is None:
        return constant_diagonal(kernel, X)
    return X.take([0]) * np.zeros((1, len(P))) + float(kernel.value)


@form_of(Polynomial)
def _polynomial(kernel: Polynomial, X: Value, P: Array | None) -> Value:
    return (_inner(X, P, kernel.weight) + float(kernel.offset or 0.0)) ** int(kernel.degree)


@form_of(ArcSine)
def _arcsine(kernel: ArcSine, X: Value, P: Array | None) -> Value:
    p = 2.0 * (_inner(X, None, kernel.weight) + float(kernel.bias))
    if P is None:
        return (2.0 / np.pi) * np.arctan(p / np.sqrt(1.0 + 2.0 * p))
    c = 2.0 * (_inner(X, P, kernel.weight) + float(kernel.bias))
    q = kernel._squares(P)[None, :]
    adjacent = np.maximum(p * q - c * c, 0.0) + (1.0 + p) + q  # (1 + p)(1 + q) - c^2
    return (2.0 / np.pi) * np.arctan(c / np.sqrt(adjacent))


def _inner(X: Value, P: Array | None, weight: float | Array) -> Value:
    """sum_d weight_d x_d p_d (q, n), or sum_d weight_d x_d^2 (q, 1)."""
    weighted = X * np.asarray(weight, dtype=np.float64)
    return (X * weighted).sum() if P is None else weighted @ P.T


@form_of(Cosine)
def _cosine(kernel: Cosine, X: Value, P: Array | None) -> Value:
    if P is None:
        return constant_diagonal(kernel, X)
    turns = 2.0 * np.pi / np.broadcast_to(np.asarray(kernel.period), P.shape[1])
    return product([np.cos(d * t) for d, t in zip(differences(X, P), turns, strict=True)])


@form_of(Categorical)
def _categorical(kernel: Categorical, X: Value, P: Array | None) -> Value:
    if P is None:
        return constant_diagonal(kernel, X)
    correlation = np.broadcast_to(np.asarray(kernel.correlation), P.shape[1])
    pairs = zip(differences(X, P), correlation, strict=True)
    return product([where(d == 0.0, 1.0, float(c)) for d, c in pairs])


@form_of(Nugget)
def _nugget(kernel: Nugget, X: Value, P: Array | None) -> Value:
    if P is None:
        return constant_diagonal(kernel, X)
    # rows that went through preprocessing here and there agree to rounding
    close = [
        where(abs(d) < ROUNDING * (1.0 + np.abs(P[None, :, j])), 1.0, 0.0)
        for j, d in enumerate(differences(X, P))
    ]
    return product(close) * float(kernel.variance)


@form_of(Spline)
def _spline(kernel: Spline, X: Value, P: Array | None) -> Value:
    x: Any = X - float(kernel.origin)
    x = where(x < 0.0, np.nan, x)  # mercer refuses a row below the origin
    if P is None:
        return _integral(kernel, x, 0.0 * x)
    z = P.T - float(kernel.origin)
    return _integral(kernel, np.minimum(x, z), abs(x - z))


def _integral(kernel: Spline, v: Value, d: Value) -> Value:
    m, total = int(kernel.order), 0.0 * v
    for j in range(m - 1, -1, -1):
        c = comb(m - 1, j) / (2 * m - 1 - j)
        total = total * d + (c * v ** (m - 1 - j) if j < m - 1 else c)
    return total * v**m / float(factorial(m - 1) ** 2)


@form_of(PeriodicSpline)
def _periodic_spline(kernel: PeriodicSpline, X: Value, P: Array | None) -> Value:
    if P is None:
        return constant_diagonal(kernel, X)
    turns = abs(X - P.T) / float(kernel.period)
    m, t = int(kernel.order), turns - np.floor(turns) - 0.5
    even = centred_bernoulli(2 * m, m)[0::2]
    return np.polynomial.polynomial.polyval(t * t, np.array(even))


@form_of(Precomputed)
def _precomputed(kernel: Precomputed, X: Value, P: Array | None) -> Value:
    if kernel.matrix is None:
        return X  # the kernel values with the training points themselves
    matrix = np.asarray(kernel.matrix, dtype=np.float64)
    if P is None:
        return X.graph.add("Gather", matrix.diagonal(), X.cast(np.int64), axis=0)
    columns = matrix[:, P[:, 0].astype(int)]
    return X.graph.add("Gather", columns, X.cast(np.int64).squeeze(1), axis=0)
