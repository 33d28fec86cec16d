"""A worked example: the kernel of a thesis, ``C * (RBF(length_scale) + v)``, as a class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mercer._native import core
from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels.base import Gradient, Kernel, like, positive, rescaled
from mercer.kernels.stationary.base import OfDistance


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
        core.stationary(0, X, Z, same, K)
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
        exponential = core.stationary_pullback(0, X, Z, same, Q, sums)
        total = float(Q.sum())
        by_weight = C * sums / np.asarray(self.weight, dtype=float)
        value = exponential + v * total
        slopes = {"weight": like(self.weight, by_weight), "bias": C * total, "variance": value}
        return C * value, slopes

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(weight=rescaled(self.weight, 1.0 / np.square(scale)))
