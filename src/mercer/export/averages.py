"""Probabilities of labels in ONNX: of a loss at a value, and averaged over a Gaussian.

The softmax is averaged by the fixed rule of ``losses.numbers.averages``, one row at a time (a
Scan), because it has thousands of points for each. The symmetric root of a covariance, for which
ONNX has no operator, is Newton's: with A = V / trace(V), Y = A and Z = I,

    T = (3 I - Z Y) / 2,    Y <- Y T,    Z <- T Z,    Y -> A^1/2,    Z -> A^-1/2

(Higham, Functions of Matrices, 2008, equation (6.35)). An eigenvalue a of A takes log(a) / log(4/9)
steps before it converges; those below 1e-15 have a root of zero to nine digits either way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from mercer.core.errors import ExportError
from mercer.export.expression import OnnxGraph, Value, stack, where
from mercer.export.functions import log_sum_exp, ndtr, softmax
from mercer.losses import Flip, LaplaceProbit, Logistic, NormalizedHinge, Probit
from mercer.losses.numbers import averages as rule
from mercer.losses.numbers.quadrature import NODES, REACH, STEPS, WEIGHTS

SMALLEST = 1e-300  # stands for a variance of zero


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
        base = where(f > 0.0, 1.0, where(f < 0.0, 0.0, 0.5))
        if loss.base is not None:
            base = probability(loss.base, f)
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
    if type(loss) is Logistic:
        return _logistic(m, v)
    if type(loss) is Flip:
        base = ndtr(m / np.sqrt(v)) if loss.base is None else averaged(loss.base, m, v)
        return loss.eps + (1.0 - 2.0 * loss.eps) * base
    return _by_panels(loss, m, v)


def _logistic(m: Any, v: Any) -> Value:
    """The two sums of :mod:`mercer.losses.numbers.averages`, each on its side of WIDE."""
    s = np.sqrt(v)
    narrow = special.expit(m + s * rule._T[None, :]) @ rule._WT[:, None]
    wide = ndtr((m + rule._U[None, :]) / np.maximum(s, np.sqrt(rule.WIDE))) @ rule._WU[:, None]
    return where(v > rule.WIDE, wide, narrow)


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
    breaks = _sorted(stack([s * STEPS[None, :], places]), count)
    left = breaks.take(range(count - 1)).expand(2)
    right = breaks.take(range(1, count)).expand(2)
    half = 0.5 * (right - left)
    r = 0.5 * (left + right) + half * NODES[None, None, :]
    density = np.exp(-0.5 * np.square(r / s.expand(2))) / (s.expand(2) * np.sqrt(2.0 * np.pi))
    total: Value = half * WEIGHTS[None, None, :] * density * probability(loss, m.expand(2) + r)
    return total.sum(2).sum(1).squeeze(2)


def _sorted(rows: Value, count: int) -> Value:
    """Each row (q, count) in ascending order."""
    return rows.graph.add("TopK", rows, np.array([count]), unused=1, axis=1, largest=0, sorted=1)


SOFTMAX_STEPS = 45
ROUGH = 12  # degree of the normal distribution function, as exact as the mixture of six


def softmax_averaged(mean: Value, blocks: list[list[Value]], noise: Value, c: int) -> Value:
    """Probabilities (q, c) for means (q, c) and covariances by pairs, (q, 1) each."""
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
        log_sum = log_sum_exp(means + sign * shift, 1).squeeze(1)
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
    """Symmetric root of V (..., c, c) and its inverse."""
    eye = np.eye(c)
    trace = (V * eye).sum(-1).sum(-2)
    Y, Z = V / trace, 0.0 * V + eye
    for _ in range(SOFTMAX_STEPS):
        T = (3.0 * eye - Z @ Y) * np.full((c, c), 0.5)
        Y, Z = Y @ T, T @ Z
    return Y * np.sqrt(trace), Z / np.sqrt(trace)


def _diagonal(V: Value, c: int) -> Value:
    return V.reshape(-1).take([j * c + j for j in range(c)], axis=0)
