"""Functions of NumPy and SciPy in ONNX, in doubles.

Some onnxruntime has in single precision only, or not at all: those are written as series and
identities here, to 1e-14. ``FUNCTIONS`` lists all that a formula may use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.errors import ExportError
from mercer.export import expression
from mercer.export.expression import FUNCTIONS, Value, graph_of, where

ANCHOR = 3.0  # of the map x -> (x - ANCHOR) / (x + ANCHOR) of the half line to [-1, 1]
DEGREE = 20  # of the series below: relative errors of 1e-14


def ndtr(z: Value, degree: int = DEGREE) -> Value:
    """Phi(z), the standard normal distribution function; relative errors of 1e-14 in both tails.

    A ``degree`` of 12 has errors of 2e-9.

    erfc(x) = e^{-x^2} g(u) / (x + 1), x >= 0, with g a Chebyshev series in
    u = (x - ANCHOR) / (x + ANCHOR), summed by Clenshaw's rule.
    """
    x = abs(z * float(np.sqrt(0.5)))
    u2 = 2.0 * (x - ANCHOR) / (x + ANCHOR)
    coefficients = _tail_series(degree)
    after, last = 0.0 * u2, 0.0 * u2
    for c in coefficients[:0:-1]:
        after, last = u2 * after - last + float(c), after
    series = 0.5 * u2 * after - last + float(coefficients[0])
    half = 0.5 * np.exp(-(x * x)) * series / (x + 1.0)
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
        t = t / (1.0 + np.sqrt(1.0 + t * t))
    t2, total = t * t, 0.0 * t
    for k in range(21, 0, -2):
        total = total * t2 + (-1.0) ** (k // 2) / k
    return 8.0 * t * total


def softmax(f: Value) -> Value:
    """Probabilities (q, k) of scores f (q, k)."""
    e = np.exp(f - f.max())
    return e / e.sum()


def log_sum_exp(f: Value, axis: int) -> Value:
    """Logarithm of the sum of exponentials along an axis."""
    top = f.max(axis)
    return top + np.log(np.exp(f - top).sum(axis))


def log1p(x: Value) -> Value:
    """log(1 + x) without loss for small x: Kahan's log(w) x / (w - 1), w = 1 + x rounded."""
    w = 1.0 + x
    same = w == 1.0
    return where(same, x, np.log(w) * x / where(same, 1.0, w - 1.0))


def expm1(x: Value) -> Value:
    """e^x - 1 without loss for small x: Kahan's (u - 1) x / log(u), u = e^x rounded."""
    u = np.exp(x)
    plain = (u == 1.0) | (abs(x) > 1.0)
    near = where(u == 1.0, x, u - 1.0)
    return where(plain, near, (u - 1.0) * x / where(plain, 1.0, np.log(u)))


def sinh(x: Value) -> Value:
    """Hyperbolic sine, from e^x - 1."""
    e = expm1(abs(x))
    return 0.5 * x.apply("Sign") * (e + e / (e + 1.0))


def remainder(x: Any, n: Any) -> Value:
    """x modulo n, with the sign of n."""
    rest = graph_of(x, n).add("Mod", x, n, fmod=1)
    return where(rest * n < 0.0, rest + n, rest)


def xlogy(x: Any, y: Any) -> Value:
    """x log y, zero where x is."""
    zero = x == 0.0
    return where(zero, 0.0, x * np.log(where(zero, 1.0, y)))


def logaddexp(a: Any, b: Any) -> Value:
    """log(e^a + e^b)."""
    return np.maximum(a, b) + log1p(np.exp(-np.abs(a - b)))


def einsum(pattern: str, a: Any, b: Any) -> Value:
    """Sums of products of equal shape, along one axis: "ij,ij->i" or "ij,ij->j"."""
    axis = {"ij,ij->i": 1, "ij,ij->j": 0}.get(pattern)
    if axis is None:
        raise ExportError(f"it uses einsum({pattern!r}), which cannot be written in ONNX")
    return (a * b).sum(axis).squeeze(axis)


# functions that are operators of ONNX
OPERATORS = """
absolute=Abs add=Add bitwise_and=And bitwise_or=Or ceil=Ceil cos=Cos equal=Equal exp=Exp
expit=Sigmoid fabs=Abs floor=Floor greater=Greater greater_equal=GreaterOrEqual invert=Not
less=Less less_equal=LessOrEqual log=Log logical_and=And logical_not=Not logical_or=Or
maximum=Max minimum=Min rint=Round sign=Sign sin=Sin sqrt=Sqrt subtract=Sub tanh=Tanh
"""
FUNCTIONS |= dict(pair.split("=") for pair in OPERATORS.split())
FUNCTIONS |= {
    "arctan": atan,
    "broadcast_arrays": lambda *values: values,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "cosh": lambda x: 0.5 * (np.exp(x) + np.exp(-x)),
    "divide": expression.divide,
    "einsum": einsum,
    "erfc": lambda x: 2.0 * ndtr(-x * np.sqrt(2.0)),
    "exp2": lambda x: np.exp(x * np.log(2.0)),
    "expm1": expm1,
    "float_power": expression.power,
    "full_like": lambda x, fill, **_: 0.0 * x + fill,
    "hstack": expression.stack,
    "log10": lambda x: np.log(x) / np.log(10.0),
    "log1p": log1p,
    "log2": lambda x: np.log(x) / np.log(2.0),
    "logaddexp": logaddexp,
    "matmul": expression.matmul,
    "multiply": expression.multiply,
    "ndtr": ndtr,
    "negative": lambda x: x * -1.0,
    "not_equal": lambda a, b: ~(a == b),
    "ones_like": lambda x, **_: 0.0 * x + 1.0,
    "positive": lambda x: x,
    "power": expression.power,
    "reciprocal": lambda x: 1.0 / x,
    "remainder": remainder,
    "shape": lambda x: x.shape,
    "sinh": sinh,
    "square": lambda x: x * x,
    "tan": lambda x: np.sin(x) / np.cos(x),
    "where": where,
    "xlogy": xlogy,
    "zeros_like": lambda x, **_: 0.0 * x,
}
