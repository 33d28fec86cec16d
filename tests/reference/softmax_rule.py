"""The fixed rule of a softmax average, one row and one class at a time, every point in full."""

import numpy as np
from scipy import special

from mercer.losses.numbers.averages import FEW, FEW_CLASSES, MANY, mixture, normal_points


def root(V):
    values, vectors = np.linalg.eigh(V)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def moved(V):
    """V + 1 b' + b 1' with the least sum of squares off the diagonal that is a covariance."""
    c = len(V)
    row = V.sum(axis=1) - np.diagonal(V)
    b = (-row + row.sum() / (2.0 * (c - 1))) / (c - 2)
    for length in (1.0, 0.5, 0.25):
        found = V + length * (b[:, None] + b)
        if np.linalg.eigvalsh(found)[0] >= -1e-12 * np.trace(V):
            return found
    return V


def softmax_rule(m, V):
    """p (c,) for m (c,), V (c, c)."""
    c = len(m)
    count = FEW if c <= FEW_CLASSES else MANY
    own = np.diagonal(V)
    if (own[:, None] + own - 2.0 * V).max() <= 1.0:
        shift = normal_points(c, count) @ root(V)
        both = special.softmax(m + shift, axis=1) + special.softmax(m - shift, axis=1)
        return 0.5 * both.mean(axis=0)
    V, points, p = moved(V), normal_points(c - 1, count), np.empty(c)
    for j in range(c):
        others = np.delete(np.arange(c), j)
        half = root(V[np.ix_(others, others)])
        along = np.linalg.lstsq(half, V[others, j], rcond=1e-12)[0]
        rest = max(float(V[j, j] - along @ along), 0.0)
        averages = []
        for z in (points, -points):
            lead = m[j] + z @ along - special.logsumexp(m[others] + z @ half, axis=1)
            averages.append(mixture(lead, rest).mean())
        p[j] = 0.5 * sum(averages)
    return p / p.sum()
