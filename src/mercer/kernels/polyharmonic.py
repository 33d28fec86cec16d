"""The Green's function of the iterated Laplacian: the radial function of thin-plate splines.

Theory (P9).
"""

from __future__ import annotations

from math import factorial, gamma, pi

import numpy as np

from mercer.arrays import Array


def constant(order: int, D: int) -> float:
    """Return c of :func:`green`, with which (-1)^m laplacian^m G is the delta function, m = order.

    Reference: GPML (6.22), which leaves the constant open; Wahba, Spline models for observational
    data (1990), equation (2.4.5).

    Examples
    --------
    >>> [round(1.0 / constant(m, 1), 10) for m in (1, 2, 3)]
    [-2.0, 12.0, -240.0]
    """
    if D % 2:
        scale = 4.0**order * float(pi ** (0.5 * D)) * factorial(order - 1)
        return float(gamma(0.5 * D - order) / scale)
    sign = -1.0 if (D // 2 + 1 + order) % 2 else 1.0
    scale = 0.5 * 4.0**order * float(pi ** (D // 2))
    return float(sign / (scale * factorial(order - 1) * factorial(order - D // 2)))


def green(X: Array, Z: Array, order: int) -> Array:
    """G(|x - z|), shape (n, p), for X (n, D) and Z (p, D): GPML (6.22), 2 m > D.

        G(r) = c r^(2m - D) log r   (D even),      c r^(2m - D)   (D odd),      G(0) = 0.

    The distances are sums of squared differences: the expanded form |x|^2 + |z|^2 - 2 x'z would
    cost half the digits of r for close points.
    """
    from scipy.spatial.distance import cdist  # when it is needed: it takes long to import
    from scipy.special import xlogy

    D = X.shape[1]
    check_order(order, D)
    r2 = cdist(X, Z, "sqeuclidean")
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
    return np.asarray(G)


def least_order(D: int) -> int:
    """Return the smallest m with 2 m > D.

    Examples
    --------
    >>> [least_order(D) for D in (1, 2, 3, 4)]
    [1, 2, 2, 3]
    """
    return D // 2 + 1


def check_order(order: int, D: int) -> None:
    """Refuse an order m with 2 m <= D: a function of finite penalty need not be continuous."""
    if 2 * order <= D:
        raise ValueError(
            f"a thin-plate spline of {D} columns needs 2 * order > {D}, and the order is {order}: "
            f"the smallest that will do is {least_order(D)}"
        )
