"""Functions of NumPy and SciPy in ONNX, in doubles, and probabilities averaged over a Gaussian.

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
from mercer.export.expression import FUNCTIONS, OnnxGraph, Value, graph_of, stack, where
from mercer.losses import Flip, LaplaceProbit, Logistic, NormalizedHinge, Probit
from mercer.losses.numbers import averages as rule
from mercer.losses.numbers.quadrature import NODES, REACH, STEPS, WEIGHTS

ANCHOR = 3.0  # of the map x -> (x - ANCHOR) / (x + ANCHOR) of the half line to [-1, 1]
DEGREE = 20  # of the series below: relative errors of 1e-14
ROUGH = 12  # the same, as exact as the mixture of six
SOFTMAX_STEPS = 45
SMALLEST = 1e-300  # stands for a variance of zero


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
    return 0.5 * np.sign(x) * (e + e / (e + 1.0))


def remainder(x: Any, n: Any) -> Value:
    """x modulo n, with the sign of n."""
    rest = graph_of(x, n).add("Mod", x, n, fmod=1)
    return where(rest * n < 0.0, rest + n, rest)


def xlogy(x: Any, y: Any) -> Value:
    """x log y, zero where x is."""
    zero = x == 0.0
    return where(zero, 0.0, x * np.log(where(zero, 1.0, y)))


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
    "hstack": stack,
    "vstack": lambda values: stack(values, 0),
    "log10": lambda x: np.log(x) / np.log(10.0),
    "log1p": log1p,
    "log2": lambda x: np.log(x) / np.log(2.0),
    "logaddexp": lambda a, b: np.maximum(a, b) + log1p(np.exp(-np.abs(a - b))),
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


def probability(loss: Any, f: Any) -> Value:
    """P(y = +1 | f) for f of any shape."""
    if type(loss) is Logistic:
        return special.expit(f)
    if type(loss) is Probit:
        return ndtr(f / float(loss.scale))
    if type(loss) is NormalizedHinge:
        return special.expit(float(loss.C) * (f + np.clip(f, -1.0, 1.0)))
    if type(loss) is LaplaceProbit:
        tail = 0.5 * np.exp(-float(loss.C) * abs(f))
        return where(f < 0.0, tail, 1.0 - tail)
    if type(loss) is Flip:
        step = where(f > 0.0, 1.0, where(f < 0.0, 0.0, 0.5))
        base = step if loss.base is None else probability(loss.base, f)
        return loss.eps + (1.0 - 2.0 * loss.eps) * base
    raise ExportError(
        f"the probabilities of the loss {type(loss).__name__} cannot be exported: those of "
        "Logistic, Probit, NormalizedHinge, LaplaceProbit, Flip and Softmax can"
    )


def averaged(loss: Any, m: Any, v: Any) -> Value:
    """E[P(y = +1 | f)], f ~ N(m, v), for m and v (q, 1)."""
    v = np.maximum(v, SMALLEST)
    if type(loss) is Probit:
        return ndtr(m / np.sqrt(float(loss.scale) ** 2 + v))
    if type(loss) is Logistic:  # the two sums of the rule, each on its side of WIDE
        s = np.sqrt(v)
        narrow = special.expit(m + s * rule._T[None, :]) @ rule._WT[:, None]
        wide = ndtr((m + rule._U[None, :]) / np.maximum(s, np.sqrt(rule.WIDE))) @ rule._WU[:, None]
        return where(v > rule.WIDE, wide, narrow)
    if type(loss) is Flip:
        base = ndtr(m / np.sqrt(v)) if loss.base is None else averaged(loss.base, m, v)
        return loss.eps + (1.0 - 2.0 * loss.eps) * base
    return _by_panels(loss, m, v)


def _by_panels(loss: Any, m: Value, v: Value) -> Value:
    """The rule of :mod:`mercer.losses.numbers.quadrature`: 12 nodes between sorted breaks."""
    probability(loss, m)  # refuses before anything is built
    s, one = np.sqrt(v), np.ones(1)
    reach = np.asarray(loss.reach)
    steps = np.concatenate([-reach, [0.0], reach]) * float(loss.width(one))
    fixed = [loss.kinks(one)[:, 0], *(float(c[0]) + steps for c in loss.centers(one))]
    places = np.concatenate(fixed)[None, :] - m
    places = where(places < -REACH * s, -REACH * s, where(places > REACH * s, REACH * s, places))
    count = len(STEPS) + sum(map(len, fixed))
    rows = stack([s * STEPS[None, :], places])
    breaks = rows.graph.add("TopK", rows, np.array([count]), unused=1, axis=1, largest=0, sorted=1)
    left = breaks.take(range(count - 1)).expand(2)
    right = breaks.take(range(1, count)).expand(2)
    half = 0.5 * (right - left)
    r = 0.5 * (left + right) + half * NODES[None, None, :]
    density = np.exp(-0.5 * np.square(r / s.expand(2))) / (s.expand(2) * np.sqrt(2.0 * np.pi))
    total: Value = half * WEIGHTS[None, None, :] * density * probability(loss, m.expand(2) + r)
    return total.sum(2).sum(1).squeeze(2)


def softmax_averaged(mean: Value, blocks: list[list[Value]], noise: Value, c: int) -> Value:
    """Probabilities (q, c) for means (q, c) and covariances by pairs, (q, 1) each.

    The fixed rule of ``losses.numbers.averages`` has thousands of points, so it is applied to one
    row at a time (a Scan).
    """
    own = [blocks[j][j] + noise for j in range(c)]
    if c == 2:  # the difference of the two is one Gaussian
        variance = own[0] + own[1] - 2.0 * blocks[0][1]
        p = averaged(Logistic(), mean.take([1]) - mean.take([0]), variance)
        return stack([1.0 - p, p])
    V = stack([own[i] if i == j else blocks[i][j] for i in range(c) for j in range(c)])
    row = OnnxGraph(mean.graph)
    names = {f"{row.prefix}/m": (c,), f"{row.prefix}/V": (c * c,)}
    m, S = (Value(row, name) for name in names)
    p = _one(m, S.reshape(c, c), c)
    body = row.body([p], names)
    return mean.graph.add("Scan", mean, V, body=body, num_scan_inputs=2)


def _one(m: Value, V: Value, c: int) -> Value:
    """Probabilities (c,) of one row: m (c,), V (c, c)."""
    own = _diagonal(V, c)
    widest = (own.expand(1) + own.expand(0) - 2.0 * V).reshape(-1).max(0)
    near, far = OnnxGraph(m.graph), OnnxGraph(m.graph)
    count = rule.FEW if c <= rule.FEW_CLASSES else rule.MANY
    plain = _plain(Value(near, m.name), Value(near, V.name), c, count)
    split = _split(Value(far, m.name), Value(far, V.name), c, count)
    condition = (widest > rule.CLOSE**2).squeeze(0)
    return m.graph.add(
        "If", condition, then_branch=far.body([split]), else_branch=near.body([plain])
    )


def _plain(m: Value, V: Value, c: int, count: int) -> Value:
    root, _ = _roots(V, c)
    shift = rule.normal_points(c, count) @ root
    both = softmax(m.expand(0) + shift) + softmax(m.expand(0) - shift)
    return (both.sum(0) / (2.0 * count)).squeeze(0)


def _split(m: Value, V: Value, c: int, count: int) -> Value:
    """Each class given the others: all classes along the first axis."""
    spread = _independent(V, c)
    others = np.array([[k for k in range(c) if k != j] for j in range(c)], dtype=np.int64)
    flat = spread.reshape(-1)
    inner = flat.take(others[:, :, None] * c + others[:, None, :], axis=0)  # (c, c-1, c-1)
    root, inverse = _roots(inner, c - 1)
    towards = flat.take(others * c + np.arange(c)[:, None], axis=0).expand(2)
    along = inverse @ towards  # (c, c-1, 1)
    rest = np.maximum(_diagonal(spread, c) - np.square(along).sum(1).reshape(-1), 0.0)
    points = rule.normal_points(c - 1, count).T[None]
    shift = root @ points  # (c, c-1, count)
    lean = (along * points).sum(1).squeeze(1)  # (c, count)
    means = m.take(others, axis=0).expand(2)
    total = 0.0 * m
    for sign in (1.0, -1.0):
        others_at = means + sign * shift
        top = others_at.max(1)
        log_sum = (top + np.log(np.exp(others_at - top).sum(1))).squeeze(1)
        z = m.expand(1) + sign * lean - log_sum
        total = total + _mixture(z, rest.expand(1)).sum(1).squeeze(1)
    return total / total.sum(0)


def _mixture(m: Value, v: Value) -> Value:
    """E[sigma(z)], z ~ N(m, v), to 1e-7: see :func:`mercer.losses.numbers.averages.mixture`."""
    total = 0.0 * m
    for rate, mass in zip(rule.RATE, rule.MASS / rule.MASS.sum(), strict=True):
        total = total + float(mass) * ndtr(float(rate) * m / np.sqrt(1.0 + rate**2 * v), ROUGH)
    return total


def _independent(V: Value, c: int) -> Value:
    """See :func:`mercer.losses.numbers.averages.independent_as_possible`."""
    own = _diagonal(V, c)
    row = V.sum(1).squeeze(1) - own
    b = (row.sum(0) / (2.0 * (c - 1)) - row) / float(c - 2)
    both, trace = b.expand(1) + b.expand(0), own.sum(0)
    found = V
    for length in (0.25, 0.5, 1.0):
        moved = V + length * both
        found = where(_positive(moved + 1e-12 * trace * np.eye(c), c), moved, found)
    return found


def _positive(A: Value, c: int) -> Value:
    """Whether A (c, c) is positive definite: the pivots of its elimination are."""
    pivots = []
    for k in range(c):
        pivot = A.take([k]).take([k], axis=0)
        pivots.append(pivot)
        A = A - A.take([k]) * A.take([k], axis=0) / pivot
    fine = where(stack(pivots) > 0.0, 0.0, 1.0)  # NaN counts as not positive
    return fine.sum(1) == 0.0


def _roots(V: Value, c: int) -> tuple[Value, Value]:
    """Symmetric root of V (..., c, c) and its inverse, for which ONNX has no operator: Newton's.

    With A = V / trace(V), Y = A and Z = I,

        T = (3 I - Z Y) / 2,    Y <- Y T,    Z <- T Z,    Y -> A^1/2,    Z -> A^-1/2

    (Higham, Functions of Matrices, 2008, equation (6.35)). An eigenvalue a of A takes log(a) /
    log(4/9) steps before it converges; those below 1e-15 have a root of zero to nine digits.
    """
    eye = np.eye(c)
    trace = (V * eye).sum(-1).sum(-2)
    Y, Z = V / trace, 0.0 * V + eye
    for _ in range(SOFTMAX_STEPS):
        T = (3.0 * eye - Z @ Y) * np.full((c, c), 0.5)
        Y, Z = Y @ T, T @ Z
    return Y * np.sqrt(trace), Z / np.sqrt(trace)


def _diagonal(V: Value, c: int) -> Value:
    return V.reshape(-1).take([j * c + j for j in range(c)], axis=0)
