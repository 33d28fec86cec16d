"""Probabilities of labels in ONNX: of a loss at a value, and averaged over a Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.export.errors import ExportError
from mercer.export.functions import ndtr
from mercer.export.value import Value, stack, where
from mercer.losses import Flip, LaplaceProbit, Logistic, NormalizedHinge, Probit
from mercer.losses.logistic_average import _T, _U, _WT, _WU, WIDE
from mercer.losses.quadrature import NODES, REACH, STEPS, WEIGHTS

SMALLEST = 1e-300  # stands for a variance of zero


def probability(loss: Any, f: Value) -> Value:
    """P(y = +1 | f) for f of any shape."""
    if type(loss) is Logistic:
        return f.apply("Sigmoid")
    if type(loss) is Probit:
        return ndtr(f / float(loss.scale))
    if type(loss) is NormalizedHinge:
        return (float(loss.C) * (f + f.at_least(-1.0).at_most(1.0))).apply("Sigmoid")
    if type(loss) is LaplaceProbit:
        tail = 0.5 * (-float(loss.C) * f.apply("Abs")).exp()
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


def averaged(loss: Any, m: Value, v: Value) -> Value:
    """E[P(y = +1 | f)], f ~ N(m, v), for m and v (q, 1)."""
    v = v.at_least(SMALLEST)
    if type(loss) is Probit:
        return ndtr(m / (float(loss.scale) ** 2 + v).sqrt())
    if type(loss) is Logistic:
        return _logistic(m, v)
    if type(loss) is Flip:
        base = ndtr(m / v.sqrt()) if loss.base is None else averaged(loss.base, m, v)
        return loss.eps + (1.0 - 2.0 * loss.eps) * base
    return _by_panels(loss, m, v)


def _logistic(m: Value, v: Value) -> Value:
    """The two sums of :mod:`mercer.losses.logistic_average`, each on its side of WIDE."""
    s = v.sqrt()
    narrow = (m + s * _T[None, :]).apply("Sigmoid") @ _WT[:, None]
    wide = ndtr((m + _U[None, :]) / s.at_least(np.sqrt(WIDE))) @ _WU[:, None]
    return where(v > WIDE, wide, narrow)


def _by_panels(loss: Any, m: Value, v: Value) -> Value:
    """The rule of :mod:`mercer.losses.quadrature`: 12 nodes between each two of sorted breaks."""
    probability(loss, m)  # refuses before anything is built
    s, one = v.sqrt(), np.ones(1)
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
    density = (-0.5 * (r / s.expand(2)).square()).exp() / (s.expand(2) * np.sqrt(2.0 * np.pi))
    total: Value = half * WEIGHTS[None, None, :] * density * probability(loss, m.expand(2) + r)
    return total.sum(2).sum(1).squeeze(2)


def _sorted(rows: Value, count: int) -> Value:
    """Each row (q, count) in ascending order."""
    return rows.graph.add("TopK", rows, np.array([count]), unused=1, axis=1, largest=0, sorted=1)
