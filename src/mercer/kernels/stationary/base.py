"""Kernels of the distance of two points: base classes, RBF and its relatives."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mercer._native import core
from mercer.core.arrays import Array, Matrix, mirror, threads
from mercer.core.component import POSITIVE, Component, Domains, Words
from mercer.core.device.array import Distant
from mercer.kernels.base import (
    KEEP,
    Gradient,
    Kernel,
    blocked_matmul,
    blocks,
    inner,
    like,
    other_points,
    positive,
    rescaled,
    zero_gradient,
)

FEW = 16  # columns of a product up to which the compiled tiles beat the BLAS on blocks


class OfDistance(Kernel, abstract=True):
    """k(x, z) = profile(s), s the squared distance of the points' coordinates.

    A profile written with NumPy's functions is also its form in ONNX (:func:`mercer.to_onnx`).
    """

    def coordinates(self, X: Array, d: int) -> Array:
        """Return the coordinates (n, m) of X (n, d)."""
        raise self._unstated("coordinates(X, d)", "those of X whose distance the profile is of")

    def profile(self, s: Array) -> Array:
        """Return k at squared distances s of coordinates."""
        raise self._unstated("profile(s)", "k at the squared scaled distances s")

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self.profile(np.zeros(1))[0])

    def _scaled(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        X, Z, same = other_points(X, Z)
        U = self.coordinates(X, X.shape[1])
        return U, (U if same else self.coordinates(Z, Z.shape[1])), same


class Stationary(OfDistance, abstract=True):
    """A kernel k(x, z) = profile(s) of s = sum_d ((x_d - z_d) / length_scale_d)^2.

    A subclass implements ``profile`` and ``slope``, elementwise functions of s (any shape), which
    must not change s. One whose profile the compiled core knows names it with ``native`` and is
    then evaluated without temporaries.

    Parameters
    ----------
    length_scale : float or array (d,), default=1.0
        Positive, in the units of the inputs: one for all columns, or one per column (ARD).
    """

    alike = True
    by_scale = True

    domains: ClassVar[Domains] = {"length_scale": POSITIVE}
    words: ClassVar[Words] = {
        "length_scale": "length scale: the distance over which the function changes"
    }

    def __init__(self, length_scale: float | Array = 1.0) -> None:
        self.length_scale = length_scale

    def coordinates(self, X: Array, d: int) -> Array:
        return X / positive(self, "length_scale", d)

    def slope(self, s: Array) -> Array:
        """Return dk/ds at squared scaled distances s; zero where it is infinite at s = 0."""
        raise self._unstated("slope(s)", f"the derivative of the profile by s, {KEEP}")

    def shape_gradient(self, s: Array, Q: Array) -> Gradient:
        """Return d<Q, profile(s)> for parameters other than the length scale."""
        return {}

    @property
    def native(self) -> int | None:
        """Number of the profile in the compiled core, or None."""
        return None

    def workspace(self) -> int:
        return 0 if self.native is not None else 3

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self._formed(X, Z, 1.0)

    def multiple(self, X: Array, Z: Array | None, factor: float) -> Array:
        own = type(self).__call__ is not Stationary.__call__  # then it knows nothing of factors
        return super().multiple(X, Z, factor) if own else self._formed(X, Z, factor)

    def written(self, X: Array, out: Array, factor: float = 1.0, Z: Array | None = None) -> Array:
        own = type(self).__call__ is not Stationary.__call__
        return super().written(X, out, factor, Z) if own else self._formed(X, Z, factor, out)

    def _formed(self, X: Array, Z: Array | None, factor: float, out: Array | None = None) -> Array:
        X, Z, same = self._scaled(X, Z)
        if X.__class__ is Distant:
            return factor * self.profile(squares(X, Z))
        K = np.empty((X.shape[0], Z.shape[0])) if out is None else out
        if self.native is not None:
            core.stationary(self.native, X, Z, same, K, factor, threads(K.size))
            return K
        for rows, columns, _ in blocks(len(X), len(Z), same):
            K[rows, columns] = factor * self.profile(squares(X[rows], Z[columns]))
        return mirror(K) if same else K

    def _matmul(self, X: Any, Z: Any, V: Array) -> Array:
        if self.native is None or V.shape[1] > FEW or Z.__class__ is Distant:
            return blocked_matmul(self, X, Z, V)
        X, Z, _ = self._scaled(X, Z)
        out = np.empty((len(X), V.shape[1]))
        workers = threads(len(X) * len(Z))
        core.stationary_matmul(self.native, X, Z, np.ascontiguousarray(V.T), out, 1.0, workers)
        return out

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        X, Z, same = self._scaled(X, Z)
        sums, gradient = np.zeros(X.shape[1]), Gradient()
        if self.native is not None and X.__class__ is not Distant:
            Q = np.ascontiguousarray(Q)
            value = core.stationary_pullback(self.native, X, Z, same, Q, sums, threads(Q.size))
        else:
            value, gradient = self._by_blocks(X, Z, same, Q, sums)
        # ds/d length_scale_d = -2 ((x_d - z_d) / length_scale_d)^2 / length_scale_d
        sums *= -2.0 / np.asarray(self.length_scale, dtype=float)
        return value, {"length_scale": like(self.length_scale, sums), **gradient}

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        if self.native is None:
            return super().diag_pullback(X, q, noise=noise)
        return zero_gradient(self)  # k(x, x) = 1, whatever the parameters are

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        # dk/dz = 2 slope(s) (z - x) / length_scale^2
        U, T, _ = self._scaled(X, Z)
        moved = np.zeros_like(T)
        for rows, columns, _ in blocks(len(U), len(T), False, 512):
            S = self.slope(squares(U[rows], T[columns]))
            S *= Q[rows, columns]
            moved += S.sum(axis=0)[:, None] * T - S.T @ U[rows]
        return np.asarray(2.0 * moved / np.asarray(self.length_scale, dtype=float))

    def _by_blocks(
        self, X: Array, Z: Array, same: bool, Q: Array, sums: Array
    ) -> tuple[float, Gradient]:
        """Return <Q, k> and the shape gradient; add sum Q slope (x_d - z_d)^2 to ``sums`` (d,)."""
        value, gradient = 0.0, Gradient()
        if X.__class__ is Distant:  # a tile that its owner has cut already
            tiles = [(slice(0, len(X)), slice(0, len(Z)), 1.0)]
        else:
            tiles = list(blocks(len(X), len(Z), same))
        for rows, columns, weight in tiles:
            s, part = squares(X[rows], Z[columns]), weight * Q[rows, columns]
            value += inner(part, self.profile(s))
            for name, slope in self.shape_gradient(s, part).items():
                gradient[name] = gradient.get(name, 0.0) + slope
            sums += weighted_spread(X[rows], Z[columns], self.slope(s) * part)
        return value, gradient

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(length_scale=rescaled(self.length_scale, scale))


def squares(X: Matrix, Z: Array) -> Array:
    """Return the squared distances (n, m), from differences: those of equal points are zero."""
    if X.__class__ is Distant:
        there: Array = X.squares(Z)
        return there
    s = np.empty((X.shape[0], Z.shape[0]))
    core.stationary(-1, X, Z, False, s, 1.0, threads(s.size))
    return s


def weighted_spread(X: Matrix, Z: Array, M: Array) -> Array:
    """Return sum_ij M_ij (x_id - z_jd)^2 for each column d: (d,)."""
    if X.__class__ is Distant:
        return np.asarray(X.weighted_spread(Z, M))
    spread = np.empty(X.shape[1])
    core.weighted_spread(X, Z, M, spread, threads(M.size))
    return spread


class RBF(Stationary):
    """Squared-exponential kernel, k = exp(-s / 2) with s the squared scaled distance.

    Its functions have derivatives of every order. ``2.0 * RBF()`` has a variance that is searched.

    Parameters
    ----------
    length_scale : float or array (d,), default=1.0; positive, in units of the inputs (array: ARD).

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.9).

    Examples
    --------
    >>> RBF(length_scale=2.0)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    native = 0
    expects = "very smooth functions of the inputs"

    def as_rbf(self, X: Array, centre: Array) -> tuple[Array, float] | None:
        return (X - centre) / self.length_scale, 1.0

    def profile(self, s: Array) -> Array:
        return np.exp(-0.5 * s)

    def slope(self, s: Array) -> Array:
        return -0.5 * np.exp(-0.5 * s)


class RationalQuadratic(Stationary):
    """Rational quadratic kernel, k = (1 + s / (2 alpha))^(-alpha): RBF kernels of many scales.

    s is the squared scaled distance. The inverse squared length scales of the RBF kernels have a
    gamma distribution of shape alpha; alpha to infinity gives one RBF kernel.

    Parameters
    ----------
    alpha : float, default=1.0; positive, no units; small values mix widely different length scales.
    length_scale : float or array (d,), default=1.0; positive, in units of the inputs (array: ARD).

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.19).

    Examples
    --------
    >>> RationalQuadratic(alpha=0.5)(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.7071]])
    """

    domains: ClassVar[Domains] = {"length_scale": POSITIVE, "alpha": POSITIVE}
    words: ClassVar[Words] = {"alpha": "mixture of length scales"}
    expects = "smooth functions that vary on several scales at once"

    def __init__(self, alpha: float = 1.0, length_scale: float | Array = 1.0) -> None:
        self.alpha, self.length_scale = alpha, length_scale

    def profile(self, s: Array) -> Array:
        alpha = positive(self, "alpha")
        return np.asarray(np.exp(-alpha * np.log1p(s / (2.0 * alpha))))

    def slope(self, s: Array) -> Array:
        alpha = positive(self, "alpha")
        return np.asarray(-0.5 * np.exp(-(alpha + 1.0) * np.log1p(s / (2.0 * alpha))))

    def shape_gradient(self, s: Array, Q: Array) -> Gradient:
        # d log k / d alpha = u / (1 + u) - log(1 + u) with u = s / (2 alpha)
        u = s / (2.0 * positive(self, "alpha"))
        return {"alpha": inner(Q, self.profile(s) * (u / (1.0 + u) - np.log1p(u)))}


class BiasedRBF(OfDistance):
    """Squared exponential plus bias, k = variance (exp(-1/(2d) sum_k weight_k (x_k-z_k)^2) + bias).

    By the 1/d, d columns, the weights are comparable between tables of different width.

    Parameters
    ----------
    weight : float or array (d,), default=1.0; w, positive inverse squared length scales (ARD).
    bias : float, default=0.1; v, positive variance of an offset, relative to ``variance``.
    variance : float, default=10.0; C, the positive overall scale, in squared units of the function.

    References
    ----------
    Seeger, Bayesian methods for Support Vector machines and Gaussian processes (1999),
    equation (4.22).

    Examples
    --------
    >>> BiasedRBF(weight=1.0, bias=0.1, variance=10.0)(np.zeros((1, 2)), np.ones((1, 2))).round(4)
    array([[7.0653]])
    """

    domains: ClassVar[Domains] = {
        "weight": POSITIVE,
        "bias": POSITIVE,
        "variance": POSITIVE,
    }
    words: ClassVar[Words] = {
        "weight": "how much each column counts in the squared distance",
        "bias": "variance of the level, as a share",
        "variance": "variance of the function about its mean",
    }

    def __init__(
        self, weight: float | Array = 1.0, bias: float = 0.1, variance: float = 10.0
    ) -> None:
        self.weight, self.bias, self.variance = weight, bias, variance

    def coordinates(self, X: Array, d: int) -> Array:
        return X * np.sqrt(positive(self, "weight", d) / d)

    def profile(self, s: Array) -> Array:
        return positive(self, "variance") * (np.exp(-0.5 * s) + positive(self, "bias"))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = self._scaled(X, Z)
        K = np.empty((X.shape[0], Z.shape[0]))
        core.stationary(0, X, Z, same, K, 1.0, threads(K.size))
        K += positive(self, "bias")
        K *= positive(self, "variance")
        return K

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # With E the exponential: dk/dw_k = -C E (x_k - z_k)^2 / (2 d), dk/dv = C, dk/dC = E + v.
        # The contraction with Q is one pass over differences; the expanded form
        # sum_i rho_i x_ik^2 - x_k' M x_k, M = Q o (C E), is the same number with cancellation.
        X, Z, same = self._scaled(X, Z)
        v, C = float(positive(self, "bias")), float(positive(self, "variance"))
        Q, sums = np.ascontiguousarray(Q), np.empty(X.shape[1])
        exponential = core.stationary_pullback(0, X, Z, same, Q, sums, threads(Q.size))
        total = float(Q.sum())
        by_weight = C * sums / np.asarray(self.weight, dtype=float)
        value = exponential + v * total
        slopes = {"weight": like(self.weight, by_weight), "bias": C * total, "variance": value}
        return C * value, slopes

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(weight=rescaled(self.weight, 1.0 / np.square(scale)))


def tied_scales(kernel: Component) -> list[Component]:
    """Return the parts of the kernel that have one tied, free length scale."""
    return [
        owner
        for _, owner, name in kernel.differentiable()
        if name == "length_scale"
        and np.ndim(getattr(owner, name)) == 0
        and not owner.mark(name).fixed
    ]


def bending(kernel: Component) -> dict[str, int]:
    """Return the powers of columns in a kernel that are free, by path, and how many each bends."""
    owners: dict[str, Any] = {
        p: owner for p, owner, name in kernel.differentiable() if name == "power"
    }
    return {
        path: owner.bends
        for path, owner in owners.items()
        if getattr(owner, "bends", 0) and not owner.mark("power").fixed
    }


def untied(kernel: Kernel, d: int) -> Kernel:
    """Return a copy in which every tied length scale is repeated for each of d columns."""
    clone = copy.deepcopy(kernel)
    for owner in tied_scales(clone):
        owner.set_params(length_scale=np.full(d, owner.get_params()["length_scale"]))
    return clone


def relevance(kernel: Kernel, points: Array, weights: Array) -> Array | None:
    """Return deviation / length scale of each column (d,); None if there is not one set of them."""
    d = points.shape[1]
    found = list(_scales(kernel, list(range(d))))
    if len(found) != 1 or np.size(found[0][1]) not in (1, len(found[0][0])):
        return None
    columns, scales = found[0]
    centred = points[:, columns] - weights @ points[:, columns] / weights.sum()
    top = max(float(np.abs(centred).max(initial=0.0)) * 1e-150, 1.0)  # 1, but for huge numbers
    result = np.zeros(d)
    result[columns] = top * np.sqrt(weights @ (centred / top) ** 2 / weights.sum()) / scales
    return result


def _scales(kernel: Component, columns: list[int]) -> Iterator[tuple[list[int], Any]]:
    """Yield the length scales in a kernel with the columns they belong to."""
    if getattr(kernel, "by_scale", False):
        yield columns, getattr(kernel, "length_scale")  # noqa: B009  # only some kernels have it
    chosen = getattr(kernel, "columns", None)
    inner = columns if chosen is None else [columns[i] for i in chosen]
    for child in kernel.children().values():
        yield from _scales(child, inner)
