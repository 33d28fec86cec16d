"""The neural network kernel."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from mercer.arrays import Array, mirror
from mercer.component import POSITIVE, Domain
from mercer.kernels.base import Gradient, Kernel, inner, other_points
from mercer.kernels.checks import like, positive


class ArcSine(Kernel):
    """Neural network kernel: a layer of infinitely many error-function units.

    With c(x, z) = 2 (bias + sum_d weight_d x_d z_d),

        k = (2 / pi) arcsin( c(x, z) / sqrt((1 + c(x, x)) (1 + c(z, z))) ).

    Parameters
    ----------
    weight : float or array (d,)
        Prior variance of the input weights of the units, shared or one per column.
    bias : float
        Prior variance of the offset of the units.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.29).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import ArcSine
    >>> ArcSine()(np.array([[0.0], [3.0]])).round(4)
    array([[0.4646, 0.1622],
           [0.1622, 0.8027]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"weight": POSITIVE, "bias": POSITIVE}

    def __init__(self, weight: float | Array = 1.0, bias: float = 1.0) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        cross, p, q, _, _ = self._products(X, Z)
        np.arctan2(cross, _adjacent(cross, p, q), out=cross)
        cross *= 2.0 / np.pi
        return mirror(cross) if Z is None else cross

    def diag(self, X: Array) -> Array:
        X, _, _ = other_points(X, None)
        p = self._squares(X)
        return np.asarray((2.0 / np.pi) * np.arctan2(p, np.sqrt(1.0 + 2.0 * p)))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # With A = 1 + p, B = 1 + q, t = cross / sqrt(A B):
        # dk = (2 / pi) (dcross - cross (dA / A + dB / B) / 2) / sqrt(A B - cross^2)
        cross, p, q, X, Z = self._products(X, Z)
        adjacent = _adjacent(cross, p, q)
        value = (2.0 / np.pi) * inner(Q, np.arctan2(cross, adjacent))
        M = np.divide((2.0 / np.pi) * Q, adjacent, out=adjacent)
        cross *= M
        rows = 0.5 * cross.sum(axis=1) / (1.0 + p)
        columns = 0.5 * cross.sum(axis=0) / (1.0 + q)
        sums = np.einsum("id,id->d", X, M @ Z) - rows @ (X * X) - columns @ (Z * Z)
        bias = M.sum() - rows.sum() - columns.sum()
        return value, {"weight": like(self.weight, 2.0 * sums), "bias": 2.0 * float(bias)}

    def _products(self, X: Array, Z: Array | None) -> tuple[Array, Array, Array, Array, Array]:
        """Return c(X, Z) (n, m), c(x, x) (n,), c(z, z) (m,) and the two sets of points."""
        X, Z, same = other_points(X, Z)
        p = self._squares(X)
        weighted = X * np.sqrt(2.0 * positive(self, "weight", X.shape[1]))
        other = weighted if same else Z * np.sqrt(2.0 * positive(self, "weight", X.shape[1]))
        cross = weighted @ other.T
        cross += 2.0 * positive(self, "bias")
        return cross, p, (p if same else self._squares(Z)), X, Z

    def _squares(self, X: Array) -> Array:
        weight = np.broadcast_to(positive(self, "weight", X.shape[1]), X.shape[1])
        return np.asarray(2.0 * (X * X @ weight + positive(self, "bias")))


def _adjacent(cross: Array, p: Array, q: Array) -> Array:
    """Return sqrt((1 + p)(1 + q) - cross^2) (n, m).

    Written as 1 + p + q + (p q - cross^2), where the bracket is never negative (Cauchy-Schwarz)
    but may round below zero: then it is zero.
    """
    excess = np.outer(p, q)
    excess -= cross * cross
    np.maximum(excess, 0.0, out=excess)
    excess += 1.0 + p[:, None]
    excess += q
    return np.asarray(np.sqrt(excess, out=excess))
