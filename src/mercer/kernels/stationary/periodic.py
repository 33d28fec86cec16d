"""Kernels of functions that repeat."""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

import numpy as np

from mercer._native import core
from mercer.core.arrays import Array, threads
from mercer.core.component import POSITIVE, Domains, Words
from mercer.kernels.base import (
    Gradient,
    Kernel,
    blocks,
    inner,
    like,
    other_points,
    positive,
    rescaled,
)
from mercer.kernels.markov import Block, MarkovProcess, Slopes
from mercer.kernels.stationary.base import OfDistance


class Periodic(OfDistance):
    """Periodic kernel, k = exp(-2 sum_d sin^2(pi (x_d - z_d) / period_d) / length_scale_d^2).

    Each column is wound around a circle, u_d = (cos, sin)(2 pi x_d / period_d), and an RBF kernel
    is taken there: |u_d(x) - u_d(z)|^2 = 4 sin^2(pi (x_d - z_d) / period_d).

    Parameters
    ----------
    period : float or array (d,), default=1.0; positive, in the units of the columns.
    length_scale : float or array (d,), default=1.0; positive; smoothness in a period, without units

    References
    ----------
    MacKay, Introduction to Gaussian Processes (1998), section 5.2; Rasmussen and Williams,
    Gaussian Processes for Machine Learning, equation (4.31).

    Examples
    --------
    >>> Periodic(period=2.0)(np.array([[0.0]]), np.array([[1.0], [2.0]])).round(4)
    array([[0.1353, 1.    ]])
    """

    domains: ClassVar[Domains] = {"period": POSITIVE, "length_scale": POSITIVE}
    words: ClassVar[Words] = {
        "period": "period",
        "length_scale": "length scale: the distance over which the function changes",
    }
    expects = "functions that repeat themselves"

    def __init__(self, period: float | Array = 1.0, length_scale: float | Array = 1.0) -> None:
        self.period, self.length_scale = period, length_scale

    def coordinates(self, X: Array, d: int) -> Array:
        """Return (cos | sin)(2 pi x / period) / length_scale, shape (n, 2 d)."""
        angle = np.remainder(X / positive(self, "period", d), 1.0) * (2.0 * np.pi)
        length_scale = positive(self, "length_scale", d)
        return np.hstack([np.cos(angle) / length_scale, np.sin(angle) / length_scale])

    def profile(self, s: Array) -> Array:
        return np.exp(-0.5 * s)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        U, V, same = self._scaled(X, Z)
        K = np.empty((len(U), len(V)))
        core.stationary(0, U, V, same, K, 1.0, threads(K.size))
        return K

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        U, V, same = self._scaled(X, Z)
        X, Z, _ = other_points(X, Z)
        d = X.shape[1]
        period = np.broadcast_to(positive(self, "period", d), d)
        length_scale = np.broadcast_to(positive(self, "length_scale", d), d)
        M, sums = np.empty((len(U), len(V))), np.empty(2 * d)
        core.stationary(0, U, V, same, M, 1.0, threads(M.size))
        M *= Q
        core.weighted_spread(U, V, M, sums, threads(M.size))
        by_length = (sums[:d] + sums[d:]) / length_scale
        # dk/dperiod_d = 2 pi k delta_d sin(2 pi delta_d / period_d) / (period_d length_scale_d)^2
        # with delta = x - z. U holds cos and sin divided by length_scale, so that
        # sin(a - b) / length_scale^2 = U_sin V_cos - U_cos V_sin: two products with M for all d.
        centre = X.mean(axis=0)
        x, z = np.tile(X - centre, 2), np.tile(Z - centre, 2)
        MV = M @ V
        by_sine = x * MV - M @ (z * V)
        turned = U[:, d:] * by_sine[:, :d] - U[:, :d] * by_sine[:, d:]
        by_period = 2.0 * np.pi * turned.sum(axis=0) / period**2
        slopes = {"period": like(self.period, by_period)}
        return float(M.sum()), {**slopes, "length_scale": like(self.length_scale, by_length)}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(period=rescaled(self.period, scale))


class Cosine(Kernel):
    """Cosine kernel, k = prod_d cos(2 pi (x_d - z_d) / period_d): pure oscillations.

    The functions are products of sinusoids of exactly this period, one for each column.

    Parameters
    ----------
    period : float or array (d,), default=1.0; positive, in the units of the columns.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (4.5).

    Examples
    --------
    >>> Cosine(period=4.0)(np.array([[0.0]]), np.array([[2.0], [4.0]]))
    array([[-1.,  1.]])
    """

    domains: ClassVar[Domains] = {"period": POSITIVE}
    words: ClassVar[Words] = {"period": "period"}

    def __init__(self, period: float | Array = 1.0) -> None:
        self.period = period

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        A, B, _ = self._angles(X, Z)
        turned = _turned(A)
        pairs = zip(turned, turned if B is A else _turned(B), strict=True)
        U, V = next(pairs)
        K = U @ V.T
        for U, V in pairs:
            K *= U @ V.T
        return np.asarray(K)

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # d cos(a - b)/d period_d = (a - b) sin(a - b) / period_d times the cosines of the other
        # columns, which are products of those before d and those after d: O(d n m) in all.
        A, B, period = self._angles(X, Z)
        turned_A, turned_B = _turned(A), _turned(B)
        value, sums = 0.0, np.zeros(A.shape[1])
        for rows, columns, weight in blocks(len(A), len(B), Z is None):
            pairs = [(U[rows], V[columns]) for U, V in zip(turned_A, turned_B, strict=True)]
            cosines = [U @ V.T for U, V in pairs]
            after = [*accumulate(reversed(cosines[1:]), np.multiply)][::-1]
            before = weight * Q[rows, columns]
            for d, (U, V) in enumerate(pairs):
                M = before * after[d] if d < len(after) else before
                a, b = A[rows, d], B[columns, d]
                by_sine = a[:, None] * (M @ V) - M @ (b[:, None] * V)
                sums[d] += U[:, 1] @ by_sine[:, 0] - U[:, 0] @ by_sine[:, 1]
                before = before * cosines[d]
            value += float(before.sum())
        return value, {"period": like(self.period, sums / period)}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(period=rescaled(self.period, scale))

    def markov_process(self) -> MarkovProcess | None:
        if np.size(self.period) != 1:
            return None
        F, none = self._turn(), np.zeros((2, 2))
        return MarkovProcess((Block(F, none, np.eye(2)),))

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        slope = -inner(slopes[0][0], self._turn()) / np.asarray(self.period, dtype=float)
        return {"period": float(slope) if np.ndim(slope) == 0 else slope}

    def _turn(self) -> Array:
        """Return the generator (2, 2) of a rotation by 2 pi over a period of one column."""
        angle = float(2.0 * np.pi / np.ravel(positive(self, "period", 1))[0])
        return np.array([[0.0, -angle], [angle, 0.0]])

    def _angles(self, X: Array, Z: Array | None) -> tuple[Array, Array, Array]:
        """Return the angles of both sets of points, from a common centre, and the period."""
        X, Z, same = other_points(X, Z)
        period = positive(self, "period", X.shape[1])
        centre = X.mean(axis=0)
        A = (X - centre) * (2.0 * np.pi / period)
        return A, (A if same else (Z - centre) * (2.0 * np.pi / period)), period


def _turned(A: Array) -> list[Array]:
    """Return for each column of the angles A (n, d) its (cos, sin), (n, 2): U V' is cos(a - b)."""
    return [np.column_stack([np.cos(a), np.sin(a)]) for a in A.T]
