"""Slow and obvious versions of what losses do: dense sums, refined grids, one integral a class."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

from mercer.testing.observations import conjugate_by_grid, expected_by_sums, tilted_by_sums
from mercer.testing.observations import dense_grid as dense_grid
from mercer.testing.observations import kinks_of as kinks_of

conjugate, expected, tilted = conjugate_by_grid, expected_by_sums, tilted_by_sums


def mills(z, terms=4000):
    """r = N/Phi at z < 0 and two derivatives in 60 digits, by the continued fraction of Laplace."""
    with localcontext() as context:
        context.prec = 60
        x, rest = Decimal(-z), Decimal(0)
        for k in range(terms, 0, -1):
            rest = Decimal(k) / (x + rest)
        r = x + rest
        return [float(n) for n in (r, -r * rest, r * (rest * rest + r * rest - 1))]


def softmax_probabilities(m, v):
    """E softmax(f) for independent f_j ~ N(m_j, v_j), by the Gumbel trick.

    softmax_k is the probability that f_k plus Gumbel noise is the largest: one integral over the
    winning value x, of its density times the other distribution functions.
    """
    m, s = np.asarray(m), np.sqrt(np.asarray(v))
    span = 9.0 * s.max()
    x = np.linspace(m.min() - span - 6, m.max() + span + 40, 1001)
    t = np.linspace(-8.5, 8.5, 401)
    weight = np.exp(-(t**2) / 2)
    weight /= weight.sum()
    cdf, pdf = [], []
    for mj, sj in zip(m, s, strict=True):
        r = x[:, None] - mj - sj * t
        e = np.exp(-np.maximum(r, -600))
        cdf.append(np.exp(-e) @ weight)
        pdf.append(np.exp(-r - e) @ weight)
    cdf, pdf = np.array(cdf), np.array(pdf)
    out = [
        np.trapezoid(pdf[k] * np.prod(np.delete(cdf, k, axis=0), axis=0), x) for k in range(len(m))
    ]
    return np.array(out)
