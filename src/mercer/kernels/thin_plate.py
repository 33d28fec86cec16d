"""Thin-plate kernel: functions whose m-th derivatives are small in all directions; theory (P9)."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, gamma, pi
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import qr

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.core.component import Names
from mercer.kernels.base import Kernel, other_points
from mercer.kernels.compose import Scale
from mercer.kernels.parameters import whole


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
