"""Spline kernel: the covariance of an integrated Wiener process; theory (P3), (P4)."""

from __future__ import annotations

from math import comb, factorial
from typing import ClassVar, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Names
from mercer.kernels.base import Kernel, finite, other_points, whole


class Spline(Kernel):
    """Spline kernel of order m: the (m-1)-fold integral of a Wiener process from ``origin`` on.

    With x and z measured from the origin, v = min(x, z) and d = abs(x - z):

        k(x, z) = int_0^v ((x - u) (z - u))^(m-1) / ((m-1)!)^2 du
                = sum_j C(m-1, j) d^j v^(2m-1-j) / (2m-1-j) / ((m-1)!)^2,     j = 0 .. m-1

    so v for m = 1 and v^3/3 + d v^2/2 for m = 2. It is the reproducing kernel of the functions
    with abs(f)^2 = integral of (f^(m))^2 whose value and first m - 1 derivatives are zero at the
    origin. With the polynomials of degree m - 1 as unpenalised basis the posterior mean is the
    smoothing spline, whatever the origin: :class:`~mercer.SmoothingSpline` computes it in O(n).

    One column only, for example ``Spline().on("age")``; nothing is searched, and the amplitude is
    that of ``Scale``: ``2.0 * Spline()``.

    Parameters
    ----------
    order : int, default=2
        m, 1 or more: the penalised derivative; 2 is the cubic spline. Not searched.
    origin : float, default=0.0
        In the units of the column, not above any input.

    References
    ----------
    Rasmussen & Williams, Gaussian Processes for Machine Learning, equation (6.28); Wahba, Spline
    models for observational data (1990), section 1.5.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Spline
    >>> Spline(order=2)(np.array([[1.0]]), np.array([[1.0], [2.0]]))
    array([[0.33333333, 0.83333333]])
    """

    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, order: int = 2, origin: float = 0.0) -> None:
        self.order = order
        self.origin = origin

    @classmethod
    def example(cls) -> Self:
        return cls(order=2, origin=-1.0)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return np.asarray(self.origin + rng.uniform(0.0, 3.0, (n, 1)))

    @property
    def null_degree(self) -> int:
        """Return the degree of the polynomials that the penalty does not see: m - 1."""
        return whole(self, "order", 1) - 1

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, _ = other_points(X, Z)
        x, z = self._from_origin(X), self._from_origin(Z)
        v = np.minimum(x[:, None], z[None, :])
        return self._value(v, np.abs(x[:, None] - z[None, :]))

    def diag(self, X: Array) -> Array:
        v = self._from_origin(other_points(X, None)[0])
        return self._value(v, np.zeros_like(v))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        # k of x / s is s^-(2m-1) times k of x
        s, m = float(scale[0]), whole(self, "order", 1)
        moved = self._restated(origin=float(self.origin) * s + float(shift[0]))
        return s ** (1 - 2 * m) * moved

    def _value(self, v: Array, d: Array) -> Array:
        """Sum over powers of d by Horner's rule, in a fresh array."""
        m = whole(self, "order", 1)
        total = np.zeros_like(v)
        for j in range(m - 1, -1, -1):
            total *= d
            total += comb(m - 1, j) / (2 * m - 1 - j) * v ** (m - 1 - j)
        total *= v**m
        total /= factorial(m - 1) ** 2
        return total

    def _from_origin(self, X: Array) -> Array:
        if X.shape[1] != 1:
            raise ValueError(
                f"Spline is a kernel of one column, and the inputs have {X.shape[1]}; "
                "name the column: Spline().on(0)"
            )
        x = X[:, 0] - float(finite(self, "origin"))
        if np.any(x < 0.0):
            raise ValueError(
                f"Spline(origin={self.origin:g}): an input lies at {X[:, 0].min():g}, below the "
                "origin; choose an origin that is not above any input"
            )
        return np.asarray(x)
