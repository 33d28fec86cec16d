"""Splines in tension: penalties on the first and on higher derivatives; theory (F8)."""

from __future__ import annotations

from math import factorial
from typing import Self

import numpy as np

from mercer.core.arrays import Array, as_matrix, mirror
from mercer.kernels.base import Gradient, Kernel, blocks, finite, other_points
from mercer.kernels.operators.greens import Complex, Nodes
from mercer.kernels.operators.operator import Operator, Penalty

NEAR = 0.7  # |q r| below which exp(-q r) - 1 + q r is a series
TERMS = 16


class TensionSpline(Penalty):
    """Kernel of |f|^2 = sum_m a_m int (f^(m))^2 dx, m = 1 .. M, over the whole line: a_0 = 0.

    The level of f is not penalised, and away from data the curve levels off. With
    ``basis="constant"`` beside it this is the tension spline, whatever the origin; by itself it is
    the prior of functions with f(origin) = 0. The slope of f is the process of :class:`Operator`
    with the coefficients a_1 .. a_M, and

        k(x, z) = S(x - origin) + S(z - origin) - S(x - z),    S(r) = int_0^|r| (|r| - u) k'(u) du

    with k' the kernel of the slope. a_1 = 0 would be a cubic spline, a_2 = 0 a linear one
    (:class:`Spline`); the ratio a_1 / a_2 = t^2 is the tension, and 1 / t the distance over which
    the curve bends.

    Parameters
    ----------
    coefficients : array (M,); a_1 > 0, .., a_M > 0, searched in logarithms while all are positive.
    origin : float, default=0.0; where the functions are zero; not searched.

    References
    ----------
    Schweikert, An interpolation curve using a spline in tension (1966); Rasmussen and Williams,
    Gaussian Processes for Machine Learning, section 6.3.

    Examples
    --------
    >>> TensionSpline(np.array([1.0, 1.0])).diag(np.array([[0.0], [1.0]])).round(4)  # r - 1 + e^-r
    array([0.    , 0.3679])
    """

    def __init__(self, coefficients: Array, origin: float = 0.0) -> None:
        self.coefficients, self.origin = coefficients, origin

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([0.7, 2.0, 0.3]), origin=-0.5)

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.standard_normal((n, 1))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        x, z, same = self._points(X, Z)
        nodes = self._nodes()
        K = np.add.outer(_spread(nodes, x), _spread(nodes, z))
        for rows, columns, _ in blocks(len(x), len(z), same):
            K[rows, columns] -= _spread(nodes, np.subtract.outer(x[rows], z[columns]))
        return mirror(K) if same else K

    def diag(self, X: Array) -> Array:
        return 2.0 * _spread(self._nodes(), self._points(X, None)[0])

    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        x, z, same = self._points(X, Z)
        nodes = self._nodes()
        sums = _sums(nodes, x, Q.sum(axis=1)) + _sums(nodes, z, Q.sum(axis=0))
        for rows, columns, weight in blocks(len(x), len(z), same):
            r = np.subtract.outer(x[rows], z[columns])
            sums -= _sums(nodes, r, weight * Q[rows, columns])
        value, slope = sums
        gradient = (nodes.value @ value + nodes.slope @ slope).real
        return float((nodes.weight @ value).real), {"coefficients": gradient}

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        # S(r / c) is that of the slope's kernel k'(r / c) / c^2: a_m becomes a_m c^(2 m - 1)
        c, a = float(scale[0]), np.asarray(self.coefficients, dtype=float)
        news = a * c ** (2.0 * np.arange(len(a)) + 1.0)
        return self._restated(coefficients=news, origin=float(shift[0]) + c * float(self.origin))

    def _points(self, X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
        """Return both sets of points, as distances (n,) and (m,) from the origin."""
        X, Z, same = other_points(X, Z)
        if X.shape[1] != 1:
            raise ValueError(
                f"TensionSpline is for inputs of one column, and they have {X.shape[1]}; choose "
                "one with kernel.on(column), or use ThinPlate"
            )
        origin = float(finite(self, "origin"))
        return X[:, 0] - origin, Z[:, 0] - origin, same

    def _nodes(self) -> Nodes:
        a = as_matrix(np.atleast_1d(self.coefficients)[None])[0]
        if len(a) < 2:
            raise ValueError(
                "TensionSpline needs a_1 and a_2 at least; with a_1 alone it is Spline(order=1)"
            )
        return Operator(a)._nodes()


def _kicks(y: Complex) -> Complex:
    """Return (exp(-y) - 1 + y) / y^2, 1/2 at y = 0."""
    near = np.abs(y) < NEAR
    safe = np.where(near, 1.0, y)
    small = np.where(near, y, 0.0)
    series = np.zeros_like(y)
    for k in range(TERMS, -1, -1):
        series = series * -small + 1.0 / factorial(k + 2)
    return np.where(near, series, (np.expm1(-safe) + safe) / safe**2)


def _spread(nodes: Nodes, r: Array) -> Array:
    """Return S(r) = Re sum_l weight_l r^2 kicks(q_l r) / (2 q_l)."""
    r, total = np.abs(r), np.zeros(np.shape(r))
    for weight, q in zip(nodes.weight, nodes.q, strict=True):
        total += (weight * _kicks(q * r) / (2.0 * q)).real
    return np.asarray(total * r**2)


def _sums(nodes: Nodes, r: Array, Q: Array) -> Complex:
    """Return <Q, S> and <Q, dS/dz> for S of each node, z = -q^2: (2, l)."""
    r, found = np.abs(r), np.zeros((2, len(nodes.q)), dtype=np.complex128)
    weights = Q * r**2
    for i, q in enumerate(nodes.q):
        y = q * r
        kicks = _kicks(y)
        small = np.where(y == 0.0, 1.0, y)
        first = np.where(y == 0.0, 1.0, -np.expm1(-small) / small)
        found[0, i] = np.sum(weights * kicks) / (2.0 * q)
        # dS/dq = r^2 (y kicks' - kicks) / (2 q^2), y kicks' = first - 2 kicks; dz = -2 q dq
        found[1, i] = np.sum(weights * (first - 3.0 * kicks)) / (-4.0 * q**3)
    return found
