"""Functions that onnxruntime has in single precision only, or not at all, for doubles."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.export.value import Value, where

ANCHOR = 3.0  # of the map x -> (x - ANCHOR) / (x + ANCHOR) of the half line to [-1, 1]
DEGREE = 20  # of the series below: relative errors of 1e-14


def ndtr(z: Value, degree: int = DEGREE) -> Value:
    """Phi(z), the standard normal distribution function; relative errors of 1e-14 in both tails.

    A ``degree`` of 12 has errors of 2e-9.

    erfc(x) = e^{-x^2} g(u) / (x + 1), x >= 0, with g a Chebyshev series in
    u = (x - ANCHOR) / (x + ANCHOR), summed by Clenshaw's rule.
    """
    x = (z * float(np.sqrt(0.5))).apply("Abs")
    u2 = 2.0 * (x - ANCHOR) / (x + ANCHOR)
    coefficients = _tail_series(degree)
    after, last = 0.0 * u2, 0.0 * u2
    for c in coefficients[:0:-1]:
        after, last = u2 * after - last + float(c), after
    series = 0.5 * u2 * after - last + float(coefficients[0])
    half = 0.5 * (-(x * x)).exp() * series / (x + 1.0)
    return where(z < 0.0, half, 1.0 - half)


@cache
def _tail_series(degree: int) -> Array:
    """Chebyshev coefficients (degree + 1,) of (x + 1) e^{x^2} erfc(x) in u."""

    def scaled(u: Array) -> Array:
        x = ANCHOR * (1.0 + u) / (1.0 - u)
        return np.asarray((x + 1.0) * special.erfcx(x))

    nodes = np.polynomial.chebyshev.chebpts1(degree + 1)
    return np.asarray(np.polynomial.chebyshev.chebfit(nodes, scaled(nodes), degree))


def atan(t: Value) -> Value:
    """arctan(t), by three halvings of the angle and eleven terms of the series at tan(pi / 16)."""
    for _ in range(3):
        t = t / (1.0 + (1.0 + t * t).sqrt())
    t2, total = t * t, 0.0 * t
    for k in range(21, 0, -2):
        total = total * t2 + (-1.0) ** (k // 2) / k
    return 8.0 * t * total


def softmax(f: Value) -> Value:
    """Probabilities (q, k) of scores f (q, k)."""
    e = (f - f.max()).exp()
    return e / e.sum()


def log_sum_exp(f: Value, axis: int) -> Value:
    """Logarithm of the sum of exponentials along an axis."""
    top = f.max(axis)
    return top + (f - top).exp().sum(axis).log()


def polynomial(x: Value, coefficients: Array) -> Value:
    """sum_j coefficients_j x^j by Horner's rule."""
    total = 0.0 * x + float(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + float(c)
    return total


def log1p(x: Value) -> Value:
    """log(1 + x) without loss for small x: Kahan's log(w) x / (w - 1), w = 1 + x rounded."""
    w = 1.0 + x
    same = w == 1.0
    return where(same, x, w.log() * x / where(same, 1.0, w - 1.0))
