"""Kernels of smoothing splines of one column: on a line, theory (P3), (P4), and on a cycle."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import comb, factorial
from typing import ClassVar, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domain, Names
from mercer.kernels.base import Gradient, Kernel, blocks, finite, other_points, positive
from mercer.kernels.parameters import whole


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


class PeriodicSpline(Kernel):
    """Periodic spline kernel of order m, k = B_2m(u) / B_2m(0), u the fraction of (x - z) / period.

    B_2m is the Bernoulli polynomial of degree 2 m. As a Fourier series, with weights that sum to 1,

        k(x, z) = sum_j j^(-2m) cos(2 pi j (x - z) / period) / sum_j j^(-2m),      j = 1, 2, ...

    Times :meth:`penalty_variance` it is the reproducing kernel of the periodic functions of mean
    zero with |f|^2 = integral over one period of (f^(m))^2. The mean of the function is not
    part of it: with a constant as unpenalised basis (``basis="constant"``) the posterior mean is
    the periodic smoothing spline, lam = noise * penalty_variance / variance. Orders 1, 2, ... draw
    functions that are 0, 1, ... times differentiable; :class:`Periodic` draws smooth ones.

    One column only: ``PeriodicSpline(period=24.0).on("hour")``.

    Parameters
    ----------
    period : float, default=1.0
        Positive, in the units of the column.
    order : int, default=2
        m, 1 or more; 2 is the cubic spline. Not searched.

    References
    ----------
    Wahba, Spline models for observational data (1990), section 2.1; Craven and Wahba, Smoothing
    noisy data with spline functions (1979).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import PeriodicSpline
    >>> PeriodicSpline(period=2.0)(np.array([[0.0]]), np.array([[1.0], [2.0], [2.5]]))
    array([[-0.875    ,  1.       ,  -0.0546875]])
    """

    domains: ClassVar[Mapping[str, Domain]] = {"period": POSITIVE}
    words: ClassVar[Mapping[str, str]] = {"period": "period"}
    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, period: float = 1.0, order: int = 2) -> None:
        self.period = period
        self.order = order

    @classmethod
    def example(cls) -> Self:
        return cls(period=1.7, order=2)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, 1))

    def penalty_variance(self) -> float:
        """Return v such that v k is the reproducing kernel of the integral of (f^(m))^2.

        v = period^(2m - 1) |B_2m(0)| / (2m)!.

        Examples
        --------
        >>> round(1.0 / PeriodicSpline(period=1.0, order=2).penalty_variance(), 9)
        720.0
        """
        m = whole(self, "order", 1)
        top = abs(float(bernoulli(2 * m)[0] / factorial(2 * m)))
        return float(positive(self, "period")) ** (2 * m - 1) * top

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return _even(self._phase(self._distance(X, Z)), whole(self, "order", 1))

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        # d B_2m(u)/du = 2m B_2m-1(u), du/dperiod = -|x - z| / period^2
        period, m = float(positive(self, "period")), whole(self, "order", 1)
        X, Z, same = other_points(X, Z)
        value, slope = 0.0, 0.0
        for rows, columns, weight in blocks(len(X), len(Z), same):
            delta = self._distance(X[rows], Z[columns])
            t = self._phase(delta)
            q = weight * Q[rows, columns]
            value += float(np.einsum("ij,ij->", q, _even(t, m)))
            slope -= float(np.einsum("ij,ij->", q * delta, _odd(t, m))) / period**2
        return value, {"period": slope}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        return self._restated(period=float(self.period) * float(scale[0]))

    def _distance(self, X: Array, Z: Array | None) -> Array:
        X, Z, _ = other_points(X, Z)
        if X.shape[1] != 1:
            raise ValueError(
                f"PeriodicSpline is a kernel of one column, and the inputs have {X.shape[1]}; "
                "choose one with .on(column), and add or multiply kernels of several"
            )
        return np.abs(X - Z[:, 0])  # k is even, and the matrix exactly symmetric

    def _phase(self, distance: Array) -> Array:
        """Return the fraction of distance / period, less 1/2."""
        t = distance / float(positive(self, "period"))
        t -= np.floor(t)
        t -= 0.5
        return np.asarray(t)


@lru_cache(maxsize=64)
def bernoulli(n: int) -> tuple[Fraction, ...]:
    """Return the coefficients of B_n(u), lowest power first."""
    numbers = [Fraction(1)]
    for i in range(1, n + 1):
        total = sum((comb(i + 1, j) * numbers[j] for j in range(i)), Fraction(0))
        numbers.append(-total / (i + 1))
    return tuple(comb(n, j) * numbers[n - j] for j in range(n + 1))


@lru_cache(maxsize=64)
def centred_bernoulli(n: int, m: int) -> tuple[float, ...]:
    """Return the coefficients of B_n(1/2 + t) / B_2m(0) in t: every second one is zero."""
    raw, half = bernoulli(n), Fraction(1, 2)
    shifted = [
        sum((raw[i] * comb(i, j) * half ** (i - j) for i in range(j, n + 1)), Fraction(0))
        for j in range(n + 1)
    ]
    return tuple(float(c / bernoulli(2 * m)[0]) for c in shifted)


def _even(t: Array, m: int) -> Array:
    """B_2m(1/2 + t) / B_2m(0), exactly even in t, at t in [-1/2, 1/2]."""
    return _horner(t * t, centred_bernoulli(2 * m, m)[0::2])


def _odd(t: Array, m: int) -> Array:
    """The derivative of :func:`_even`; zero at whole periods, where order 1 has a kink."""
    slope = 2 * m * t * _horner(t * t, centred_bernoulli(2 * m - 1, m)[1::2])
    return np.where(t == -0.5, 0.0, slope) if m == 1 else slope


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= x
        total += c
    return total
