"""Kernels of smoothing splines: on a line (P3, P4), on a cycle, and thin plates (P9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb, factorial, gamma, pi
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import qr

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.core.component import POSITIVE, Domain, Names
from mercer.kernels.base import Gradient, Kernel, blocks, finite, other_points, positive, whole
from mercer.kernels.compose import Scale


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


def constant(order: int, D: int) -> float:
    """Return c of :func:`green`, with which (-1)^m laplacian^m G is the delta function, m = order.

    GPML (6.22) leaves it open; Wahba, Spline models for observational data (1990), (2.4.5).
    """
    if D % 2:
        scale = 4.0**order * float(pi ** (0.5 * D)) * factorial(order - 1)
        return float(gamma(0.5 * D - order) / scale)
    scale = 0.5 * 4.0**order * float(pi ** (D // 2)) * factorial(order - 1)
    return (-1.0) ** (D // 2 + 1 + order) / (scale * factorial(order - D // 2))


def green(X: Array, Z: Array, order: int) -> Array:
    """G(|x - z|), shape (n, p), for X (n, D) and Z (p, D): GPML (6.22), 2 m > D.

        G(r) = c r^(2m - D) log r   (D even),      c r^(2m - D)   (D odd),      G(0) = 0.

    The distances are sums of squared differences: the expanded form |x|^2 + |z|^2 - 2 x'z would
    cost half the digits of r for close points.
    """
    from scipy.spatial.distance import cdist  # when it is needed: it takes long to import

    D = X.shape[1]
    check_order(order, D)
    return np.asarray(green_of_squares(cdist(X, Z, "sqeuclidean"), order, D))


def green_of_squares(r2: Array, order: int, D: int) -> Array:
    """:func:`green` at squared distances r2, left as they are."""
    from scipy.special import xlogy

    if D % 2:
        G = np.sqrt(r2)
        if 2 * order - D > 1:
            G *= r2 ** (order - (D + 1) // 2)
    else:
        G = xlogy(r2, r2)  # r^2 log r^2, zero at r = 0
        if order - D // 2 > 1:
            G *= r2 ** (order - D // 2 - 1)
        G *= 0.5
    G *= constant(order, D)
    return G


def least_order(D: int) -> int:
    """Return the smallest m with 2 m > D."""
    return D // 2 + 1


def check_order(order: int, D: int) -> None:
    """Refuse an order m with 2 m <= D: a function of finite penalty need not be continuous."""
    if 2 * order <= D:
        raise ValueError(
            f"a thin-plate spline of {D} columns needs 2 * order > {D}, and the order is {order}: "
            f"the smallest that will do is {least_order(D)}"
        )


class ThinPlate(Kernel):
    """Thin-plate kernel of order m: |f|^2 is the integral of all squared m-th derivatives.

    The Green's function G of the penalty is positive on contrasts only, sums a_i f(x_i) in which
    every polynomial of degree < m cancels. With ``anchors`` T, one point for each of these
    polynomials, and the polynomials p(x) that are one at their own anchor and zero at the others,

        k(x, z) = G(x, z) - p(x)'G(T, z) - G(x, T) p(z) + p(x)'G(T, T) p(z)

    is a kernel like any other: that of the functions which vanish on T. Beside the polynomials as
    an unpenalised basis (``basis=order - 1``) it gives the thin-plate spline, whichever anchors
    were chosen, and it can be added to other kernels. Without anchors it is G itself, which
    :class:`~mercer.ThinPlateSpline` works with and other estimators refuse.

    Parameters
    ----------
    order : int, default=2
        m, with 2 m > number of columns; not searched.
    anchors : array (k, d) or None, default=None
        k = (m - 1 + d)! / (m - 1)! d! points on which no polynomial of degree < m vanishes;
        :meth:`anchored` picks them among the rows of a table.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equation (6.22); Wahba, Spline
    models for observational data (1990), sections 2.4 and 2.5.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import ThinPlate
    >>> kernel = ThinPlate(order=2, anchors=np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> kernel(np.array([[1.0, 1.0], [1.0, 0.0]])).round(4)
    array([[0.1103, 0.    ],
           [0.    , 0.    ]])
    """

    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, order: int = 2, anchors: Array | None = None) -> None:
        self.order = order
        self.anchors = anchors

    @classmethod
    def anchored(cls, X: Array, order: int = 2) -> Self:
        """Return the kernel with anchors among the rows of X (n, d): those furthest from dependent.

        Examples
        --------
        >>> import numpy as np
        >>> ThinPlate.anchored(np.array([[0.0], [1.0], [2.0]])).anchors.ravel()
        array([0., 2.])
        """
        X = np.asarray(X, dtype=np.float64)
        shift, scale = X.mean(axis=0), float(np.abs(X - X.mean(axis=0)).max(initial=0.0)) or 1.0
        H = PolynomialBasis(cls(order).null_degree)((X - shift) / scale)
        k = H.shape[1]
        _, R, pivots = qr(H.T, mode="economic", pivoting=True)
        if len(X) < k or abs(R[k - 1, k - 1]) <= 1e-10 * abs(R[0, 0]):
            raise ValueError(
                f"the {k} polynomials of degree below {order} are linearly dependent on these "
                f"{len(X)} points: give more points, not all on one line or surface, or a lower "
                "order"
            )
        return cls(order, np.ascontiguousarray(X[np.sort(pivots[:k])]))

    @classmethod
    def example(cls) -> Self:
        corners = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.2], [0.0, 1.5, 0.0], [0.3, 0.0, 2.0]]
        return cls(2, np.array(corners))

    @property
    def null_degree(self) -> int:
        """Return the degree of the polynomials that the penalty does not see: m - 1."""
        return whole(self, "order", 1) - 1

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        X, Z, same = other_points(X, Z)
        G = green(X, Z, whole(self, "order", 1))
        if self.anchors is None:
            return G
        PX, BX = self._halves(X)
        PZ, BZ = (PX, BX) if same else self._halves(Z)
        M = PX @ BZ.T
        G -= M + (M.T if same else BX @ PZ.T)
        return G

    def diag(self, X: Array) -> Array:
        if self.anchors is None:
            check_order(whole(self, "order", 1), X.shape[1])
            return np.zeros(len(X))
        P, B = self._halves(X)
        return np.asarray(-2.0 * np.einsum("ij,ij->i", P, B))

    def resolve(self, names: Sequence[str] | None, n_features: int) -> Kernel:
        check_order(whole(self, "order", 1), n_features)
        if self.anchors is None:
            raise ValueError(
                "ThinPlate without anchors is not a covariance: it is positive on contrasts only; "
                f"use ThinPlateSpline, or ThinPlate.anchored(X, order={self.order}) with "
                f"basis={self.order - 1}"
            )
        self._halves(np.zeros((1, n_features)))
        return self

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        s, D = float(scale[0]), len(scale)
        if np.any(scale != s):  # not the same in all directions any more
            return super().in_units(shift, scale)
        moved = None if self.anchors is None else np.asarray(self.anchors) * s + shift
        # G(r / s) = s^(D - 2m) G(r), for even D up to a polynomial that contrasts do not see
        return Scale(self._restated(anchors=moved), s ** (D - 2 * whole(self, "order", 1)))

    def _halves(self, X: Array) -> tuple[Array, Array]:
        """Return p(X) and B = G(X, T) - p(X) G(T, T) / 2, both (n, k): k = G - p B' - B p'."""
        T, m, d = np.asarray(self.anchors, dtype=np.float64), whole(self, "order", 1), X.shape[1]
        basis = PolynomialBasis(m - 1)
        if T.shape != (basis.size(d), d):
            raise ValueError(
                f"ThinPlate: order {m} in {d} columns needs anchors of shape "
                f"({basis.size(d)}, {d}), got {T.shape}"
            )
        centre = T.mean(axis=0)
        size = float(np.abs(T - centre).max(initial=0.0)) or 1.0
        HT = basis((T - centre) / size)
        if np.linalg.cond(HT) > 1e12:
            raise ValueError(
                "ThinPlate: a polynomial of degree below the order vanishes on all anchors; "
                "ThinPlate.anchored(X) picks anchors that will do"
            )
        P: Array = np.asarray(np.linalg.solve(HT.T, basis((X - centre) / size).T).T, dtype=float)
        return P, green(X, T, m) - 0.5 * P @ green(T, T, m)
