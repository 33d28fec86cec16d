"""How a kernel is written in ONNX: by its own profile, or by the form entered for its class.

A kernel that states ``profile(s)`` and ``coordinates(X, d)``, as every stationary one does, writes
itself. What was written is compared with the kernel at some of the points before it is used: a
subclass that changed more than its form knows is refused, never exported as its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import comb, factorial
from operator import add, mul
from typing import Any, TypeVar

import numpy as np

from mercer import kernels
from mercer.core.arrays import Array, half_solve
from mercer.core.basis import Basis, PolynomialBasis
from mercer.core.errors import ExportError
from mercer.export.expression import OnnxGraph, Value, evaluated, stack, value_of, where
from mercer.kernels.base import Kernel
from mercer.kernels.operators.splines import centred_bernoulli
from mercer.kernels.thin_plate import green, green_of_squares

# (kernel, X, P) -> k(X, P) (q, n); with P = None, k(x, x) (q, 1), or (1, 1) if it is constant
Form = Callable[[Any, Value, Array | None], Value]
FORMS: dict[type, Form] = {}
FEATURES: dict[type, Callable[[Any, Value], Value]] = {}
F = TypeVar("F", bound=Callable[..., Value])

COMPARED = 6  # points at which kernel and graph are compared
NEAR = 1e-8  # relative to the largest kernel value there
ROUNDING = 1e-12  # relative, within which rows of a Nugget are the same


def cross(kernel: Kernel, X: Value, P: Array) -> Value:
    """Return k(X, P) (q, n) for rows X (q, d) and known points P (n, d)."""
    if not kernel.pairwise:
        few = np.unique(np.linspace(0, len(P) - 1, COMPARED).astype(np.intp))
        _compare(kernel, P[few])
    return written(kernel, X, P)


def explicit(kernel: Kernel, X: Value, d: int) -> Value:
    """Return phi(X) (q, m) of weight space, for X (q, d)."""
    return features(_spelled(kernel, d), X)


def features(kernel: Kernel, X: Value) -> Value:
    """Return phi(X) (q, m) with k(x, z) = phi(x)'phi(z), of a kernel that has such a map."""
    if type(kernel) not in FEATURES:
        raise ExportError(f"{_named(kernel)} cannot be exported: ONNX has no form of its features")
    return FEATURES[type(kernel)](kernel, X)


def form_of(*classes: type, flat: bool = False) -> Callable[[F], F]:
    """Enter a :data:`Form` of these classes; one that is ``flat``, k(x, x) constant, has a P."""

    def enter(function: F) -> F:
        def form(kernel: Any, X: Value, P: Array | None) -> Value:
            return constant_diagonal(kernel, X) if flat and P is None else function(kernel, X, P)

        FORMS.update(dict.fromkeys(classes, form))
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
    return reduce(add, [np.square(d) for d in differences(X, P)])


def differences(X: Value, P: Array) -> list[Value]:
    """x_d - p_d (q, n) for each column d."""
    return [X.take([j]) - P[None, :, j] for j in range(P.shape[1])]


def _compare(kernel: Kernel, P: Array) -> None:
    """Refuse a kernel whose graph has other values than it, between the points P and at each."""
    graph = OnnxGraph()
    X = Value(graph, "X")
    values = [written(kernel, X, P), 0.0 * X.take([0]) + written(kernel, X, None)]
    K, diag = evaluated(graph, values, {"X": np.asarray(P, dtype=np.float64)})
    pairs = ((kernel(P, P), K), (kernel.diag(P)[:, None], diag))
    top = max(np.abs(ours).max(initial=0.0) for ours, _ in pairs)
    for ours, theirs in pairs:
        gap = np.abs(ours - theirs).max(initial=0.0)
        if not gap <= NEAR * top:
            raise ExportError(
                f"{_named(kernel)} cannot be exported: what can be written of it differs from its "
                f"values by {gap:.2g}, because a subclass computes them in another way"
            )


def _named(kernel: Kernel) -> str:
    whole = repr(kernel)
    return f"the kernel {whole if len(whole) < 50 else type(kernel).__name__}"


@form_of(kernels.Columns)
def _columns(kernel: kernels.Columns, X: Value, P: Array | None) -> Value:
    # names were resolved in fit, and positions counted from the end with them
    chosen = [int(c) for c in kernel.columns] if P is None else kernel._positions(P.shape[1])
    return written(kernel.kernel, X.take(chosen), None if P is None else P[:, chosen])


def _inside(kernel: kernels.Standardized, X: Value) -> Value:
    return (X - np.asarray(kernel.shift)) / np.asarray(kernel.scale)


@form_of(kernels.Mahalanobis, kernels.Tangent)
def _mapped(kernel: Any, X: Value, P: Array | None) -> Value:
    given: Any = kernel.factors if isinstance(kernel, kernels.Mahalanobis) else kernel.root
    A = kernel._map(len(given))
    return written(kernel.kernel, X @ A, None if P is None else P @ A)


@form_of(kernels.Warped)
def _warped(kernel: kernels.Warped, X: Value, P: Array | None) -> Value:
    centre, unit = (np.asarray(a, dtype=np.float64) for a in (kernel.centre, kernel.unit))
    powers = np.broadcast_to(np.asarray(kernel.power, dtype=np.float64), centre.shape)
    each = [
        X.take([j]) if np.isinf(s) else c + s * _bent((X.take([j]) - c) / s, p)
        for j, (c, s, p) in enumerate(zip(centre, unit, powers.tolist(), strict=True))
    ]
    return written(kernel.kernel, stack(each), None if P is None else kernel._inside(P))


def _bent(u: Any, p: float) -> Value:
    """The power transform of Yeo and Johnson: one of both terms is zero."""

    def raised(v: Any, p: float) -> Any:
        log = np.log1p(v)
        return log if p == 0.0 else (np.exp(p * log) - 1.0) / p

    return value_of(raised(np.maximum(u, 0.0), p) - raised(np.maximum(-u, 0.0), 2.0 - p))


@form_of(kernels.SpectralMixture)
def _spectral(kernel: kernels.SpectralMixture, X: Value, P: Array | None) -> Value:
    d = 1 if np.ndim(kernel.means) == 1 else np.shape(kernel.means)[1]
    return written(kernel.as_sum(d), X, P)


@form_of(kernels.PowerSpectrum, flat=True)
def _waves(kernel: kernels.PowerSpectrum, X: Value, P: Array) -> Value:
    frequencies, powers, D = kernel._spectrum()
    if D > 1:
        raise ExportError(
            f"{_named(kernel)} cannot be exported: it has no form in ONNX for dims > 1"
        )
    turns = 2.0 * np.pi * frequencies[None] / np.ravel(kernel.length_scale)[0]
    A, B = X @ turns, P @ turns
    return (np.cos(A) * powers[None]) @ np.cos(B).T + (np.sin(A) * powers[None]) @ np.sin(B).T


@form_of(kernels.Separable, flat=True)
def _separable(kernel: kernels.Separable, X: Value, P: Array) -> Value:
    scales = np.broadcast_to(np.asarray(kernel.length_scale, dtype=float), P.shape[1:])
    apart = differences(X / scales, P / scales)
    each = [kernel.correlation(np.sqrt(np.square(r))) for r in apart]
    if kernel.share is not None:
        shares = np.broadcast_to(np.asarray(kernel.share, dtype=float), P.shape[1:])
        each = [(1.0 - w) + w * m for w, m in zip(shares.tolist(), each, strict=True)]
    return reduce(mul, each)


@form_of(kernels.SphereSpline, flat=True)
def _sphere(kernel: kernels.SphereSpline, X: Value, P: Array) -> Value:
    if P.shape[1] == 2:
        up, turn = (X.take([j]) * (np.pi / 180.0) for j in range(2))
        rows = [np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.sin(up)]
    else:
        rows = [X.take([j]) / np.sqrt(np.square(X).sum()) for j in range(3)]
    U = kernel.coordinates(P, P.shape[1])
    s = reduce(add, [np.square(row - U[None, :, j]) for j, row in enumerate(rows)])
    return value_of(kernel.profile(s))


@form_of(kernels.RBFNetwork)
def _network(kernel: kernels.RBFNetwork, X: Value, P: Array | None) -> Value:
    a, b = kernel._squared()
    away = np.square(X).sum() * (-0.5 / (2.0 * b + a))
    top = 0.5 * float(np.log(a / (2.0 * b + a)))  # for each column
    if P is None:
        return np.exp((0.0 * X + 1.0).sum() * top + 2.0 * away)
    there = -0.5 / (2.0 * b + a) * np.square(P).sum(axis=1)[None]
    near = squared_distance(X, P) * (-0.5 / (2.0 * a + a**2 / b))
    return np.exp(near + away + (there + P.shape[1] * top))


@form_of(kernels.White, kernels.Noise)
def _noise(kernel: kernels.White | kernels.Noise, X: Value, P: Array | None) -> Value:
    if P is not None:  # other rows have other noise
        return X.take([0]) * np.zeros((1, len(P)))
    if isinstance(kernel, kernels.Noise):
        return written(kernel.kernel, X, None)
    return X.graph.constant(np.full((1, 1), float(kernel.noise)))


@form_of(kernels.ThinPlate)
def _thin_plate(kernel: kernels.ThinPlate, X: Value, P: Array | None) -> Value:
    if kernel.anchors is None:
        return X.graph.constant(np.zeros((1, 1))) if P is None else _green(X, P, kernel.order)
    PX, BX = _halves(kernel, X)
    if P is None:
        return -2.0 * (PX * BX).sum()
    PZ, BZ = kernel._halves(P)
    return _green(X, P, kernel.order) - PX @ BZ.T - BX @ PZ.T


def _green(X: Value, Z: Array, order: int) -> Value:
    squares: Any = squared_distance(X, Z)
    return value_of(green_of_squares(squares, int(order), Z.shape[1]))


def _halves(kernel: kernels.ThinPlate, X: Value) -> tuple[Value, Value]:
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
    return stack([reduce(mul, [one, *(X.take([j]) for j in c)]) for c in basis._monomials(d)])


@features_of(kernels.Linear)
def _linear(kernel: kernels.Linear, X: Value) -> Value:
    centred = X if kernel.centre is None else X - np.asarray(kernel.centre, dtype=np.float64)
    if kernel.covariance is not None:
        centred = centred @ kernel._root(len(np.asarray(kernel.covariance)))
    return centred * np.sqrt(np.asarray(kernel.weight, dtype=np.float64))


@features_of(kernels.RandomFourier)
def _fourier(kernel: kernels.RandomFourier, X: Value) -> Value:
    assert kernel.frequencies is not None  # an estimator keeps them
    phases = (X / np.asarray(kernel.length_scale, dtype=np.float64)) @ kernel.frequencies.T
    both: Any = np.hstack([np.cos(phases), np.sin(phases)])
    return both / float(np.sqrt(len(kernel.frequencies)))


@features_of(kernels.TFIDF)
def _tfidf(kernel: kernels.TFIDF, X: Value) -> Value:
    F = np.log1p(X) * np.asarray(kernel.idf, dtype=np.float64)
    square = np.square(F).sum()
    return F / np.sqrt(where(square > 0.0, square, 1.0))


@features_of(kernels.MultinomialFisher)
def _multinomial(kernel: kernels.MultinomialFisher, X: Value) -> Value:
    p = np.asarray(kernel.probabilities, dtype=np.float64)
    return (X - X.sum() * p) / np.sqrt(p)


@features_of(kernels.Nystroem)
def _nystroem(kernel: kernels.Nystroem, X: Value) -> Value:
    assert kernel.points is not None  # an estimator keeps them
    P, root = kernel._root(np.shape(kernel.points)[1])
    return written(kernel._signal(), X, P) @ half_solve(root, np.eye(len(P))).T


@form_of(kernels.Constant, flat=True)
def _constant(kernel: kernels.Constant, X: Value, P: Array) -> Value:
    return X.take([0]) * np.zeros((1, len(P))) + float(kernel.value)


@form_of(kernels.ArcSine)
def _arcsine(kernel: kernels.ArcSine, X: Value, P: Array | None) -> Value:
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


@form_of(kernels.Cosine, flat=True)
def _cosine(kernel: kernels.Cosine, X: Value, P: Array) -> Value:
    turns = 2.0 * np.pi / np.broadcast_to(np.asarray(kernel.period), P.shape[1])
    return reduce(mul, [np.cos(d * t) for d, t in zip(differences(X, P), turns, strict=True)])


@form_of(kernels.Categorical, flat=True)
def _categorical(kernel: kernels.Categorical, X: Value, P: Array) -> Value:
    correlation = np.broadcast_to(np.asarray(kernel.correlation), P.shape[1])
    pairs = zip(differences(X, P), correlation, strict=True)
    return reduce(mul, [where(d == 0.0, 1.0, float(c)) for d, c in pairs])


@form_of(kernels.Nugget, flat=True)
def _nugget(kernel: kernels.Nugget, X: Value, P: Array) -> Value:
    # rows that went through preprocessing here and there agree to rounding
    close = [
        where(abs(d) < ROUNDING * (1.0 + np.abs(P[None, :, j])), 1.0, 0.0)
        for j, d in enumerate(differences(X, P))
    ]
    return reduce(mul, close) * float(kernel.variance)


@form_of(kernels.Spline)
def _spline(kernel: kernels.Spline, X: Value, P: Array | None) -> Value:
    x: Any = X - float(kernel.origin)
    x = where(x < 0.0, np.nan, x)  # mercer refuses a row below the origin
    if P is None:
        return _integral(kernel, x, 0.0 * x)
    z = P.T - float(kernel.origin)
    return _integral(kernel, np.minimum(x, z), abs(x - z))


def _integral(kernel: kernels.Spline, v: Value, d: Value) -> Value:
    m, total = int(kernel.order), 0.0 * v
    for j in range(m - 1, -1, -1):
        c = comb(m - 1, j) / (2 * m - 1 - j)
        total = total * d + (c * v ** (m - 1 - j) if j < m - 1 else c)
    return total * v**m / float(factorial(m - 1) ** 2)


@form_of(kernels.PeriodicSpline, flat=True)
def _periodic_spline(kernel: kernels.PeriodicSpline, X: Value, P: Array) -> Value:
    turns = abs(X - P.T) / float(kernel.period)
    m, t = int(kernel.order), turns - np.floor(turns) - 0.5
    even = centred_bernoulli(2 * m, m)[0::2]
    return np.polynomial.polynomial.polyval(t * t, np.array(even))


@form_of(kernels.Precomputed)
def _precomputed(kernel: kernels.Precomputed, X: Value, P: Array | None) -> Value:
    if kernel.matrix is None:
        return X  # the kernel values with the training points themselves
    matrix = np.asarray(kernel.matrix, dtype=np.float64)
    if P is None:
        return X.graph.add("Gather", matrix.diagonal(), X.cast(np.int64), axis=0)
    columns = matrix[:, P[:, 0].astype(int)]
    return X.graph.add("Gather", columns, X.cast(np.int64).squeeze(1), axis=0)


FORMS |= {
    kernels.Sum: lambda kernel, X, P: reduce(add, [written(part, X, P) for part in kernel.parts]),
    kernels.Product: lambda kernel, X, P: reduce(
        mul, [written(part, X, P) for part in kernel.parts]
    ),
    kernels.Scale: lambda kernel, X, P: float(kernel.variance) * written(kernel.kernel, X, P),
    kernels.Power: lambda kernel, X, P: written(kernel.kernel, X, P) ** int(kernel.exponent),
    kernels.Standardized: lambda kernel, X, P: written(
        kernel.kernel, _inside(kernel, X), None if P is None else kernel._inside(P)
    ),
    kernels.Polynomial: lambda kernel, X, P: (
        (_inner(X, P, kernel.weight) + float(kernel.offset or 0.0)) ** int(kernel.degree)
    ),
}
# a composite has a map only where all its parts do
FEATURES |= {
    kernels.Sum: lambda kernel, X: stack([features(part, X) for part in kernel.parts]),
    kernels.Scale: lambda kernel, X: float(np.sqrt(kernel.variance)) * features(kernel.kernel, X),
    kernels.Columns: lambda kernel, X: features(kernel.kernel, X.take(kernel.columns)),
    kernels.Standardized: lambda kernel, X: features(kernel.kernel, _inside(kernel, X)),
    kernels.Constant: lambda kernel, X: 0.0 * X.take([0]) + float(np.sqrt(kernel.value)),
    kernels.Polynomial: lambda kernel, X: _monomials(kernel, X),
}


def _spelled(kernel: Kernel, d: int) -> Kernel:
    """Return a kernel whose polynomials have a weight for each column: a graph does not know d."""
    if isinstance(kernel, kernels.Polynomial):
        return kernel._restated(weight=np.array(np.broadcast_to(kernel.weight, d)))
    inside = len(kernel.columns) if isinstance(kernel, kernels.Columns) else d
    return kernel._rebuilt({k: _spelled(v, inside) for k, v in kernel._parts().items()})


def _monomials(kernel: kernels.Polynomial, X: Value) -> Value:
    weight = np.asarray(kernel.weight, dtype=np.float64)
    columns, (powers, roots) = X * np.sqrt(weight), kernel._monomials(len(weight))
    if kernel.offset is not None:
        columns = stack([columns, 0.0 * X.take([0]) + float(np.sqrt(kernel.offset))])
    each = [columns.take(column.tolist()) for column in powers.T]
    return reduce(mul, each) * roots[None, :]
