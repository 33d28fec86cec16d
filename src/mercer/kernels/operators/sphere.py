"""Splines on the sphere: functions of latitude and longitude."""

from __future__ import annotations

from math import factorial, pi

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.parameters import whole
from mercer.kernels.stationary.base import OfDistance, squares


class SphereSpline(OfDistance):
    """Spline kernel on the sphere: a penalty like the integral of (laplacian^(m/2) f)^2 over it.

    In spherical harmonics of degree l = 1, 2, ..,

        k(x, z) = sum_l (2 l + 1) / (4 pi) xi_l P_l(cos angle),
        1 / xi_l = (l + 1/2) (l + 1) (l + 2) .. (l + 2 m - 1),

    near (l (l + 1))^m, the powers of the Laplacian, and summed in closed form: with n = 2 m - 2 and
    W = (1 - cos angle) / 2 it is (q_n / n! - 1 / (n + 1)!) / (2 pi), where

        q_n = int_0^1 h^n / sqrt(h^2 - 4 W h + 4 W) dh.

    The level, l = 0, is not penalised: add ``basis="constant"`` for the smoothing spline of Wahba.
    Inputs are two columns, latitude and longitude in degrees, or three, of vectors from the centre,
    whose length does not matter.

    Parameters
    ----------
    order : int, default=2; m, 2 or more; not searched. Functions have about m - 1 derivatives.

    References
    ----------
    Wahba, Spline interpolation and smoothing on the sphere (1981), equations (3.3) and (3.4), with
    the erratum of 1982.

    Examples
    --------
    >>> places = np.array([[90.0, 0.0], [90.0, 77.0], [0.0, 10.0], [-90.0, 0.0]])  # the pole twice
    >>> SphereSpline()(places[:1], places).round(4)
    array([[ 0.0133,  0.0133, -0.0011, -0.0048]])
    """

    def __init__(self, order: int = 2) -> None:
        self.order = order

    def coordinates(self, X: Array, d: int) -> Array:
        if d == 2:
            up, round_ = np.deg2rad(X[:, 0]), np.deg2rad(X[:, 1])
            flat = np.cos(up)
            return np.column_stack([flat * np.cos(round_), flat * np.sin(round_), np.sin(up)])
        if d != 3:
            raise ValueError(
                "SphereSpline takes two columns, latitude and longitude in degrees, or three, a "
                f"vector from the centre; the inputs have {d}"
            )
        length = np.sqrt((X**2).sum(axis=1, keepdims=True))
        if not (length > 0.0).all():
            raise ValueError("SphereSpline: a vector from the centre must have a direction")
        return np.asarray(X / length)

    def profile(self, s: Array) -> Array:
        # W = |chord|^2 / 4;  n q_n = 1 + 2 W (2 n - 1) q_{n-1} - 4 W (n - 1) q_{n-2}
        n = 2 * whole(self, "order", 2) - 2
        W = 0.25 * s
        root = np.sqrt(np.where(W > 0.0, W, 1.0))
        before = np.where(W > 0.0, np.log1p(1.0 / root), 0.0)  # q_0, which W multiplies
        q = 1.0 - 2.0 * np.sqrt(W) + 2.0 * W * before
        for i in range(2, n + 1):
            before, q = q, (1.0 + 2.0 * W * (2 * i - 1) * q - 4.0 * W * (i - 1) * before) / i
        return (q / factorial(n) - 1.0 / factorial(n + 1)) / (2.0 * pi)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        U, V, _ = self._scaled(X, Z)
        return self.profile(squares(U, V))

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return np.column_stack([rng.uniform(-85.0, 85.0, n), rng.uniform(-180.0, 180.0, n)])
