"""Class probabilities of a softmax averaged over Gaussian latent values.

p_j = E[e^{f_j} / sum_k e^{f_k}], f ~ N(m, V). A plain average over quasi-random points meets a step
where the latent values are far apart (errors of 3e-3 at deviations of 30 with 8192 points). Given
all other latent values, f_j is Gaussian and its average is one-dimensional:

    p_j = E_{f_-j} [ A(mean of f_j given f_-j - log sum_{k != j} e^{f_k}, its variance) ],

A(m, v) = E[sigma(f)], f ~ N(m, v). That integrand is smooth at the scale of the Gaussian, and the
fixed rule gives it to 1e-4.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.losses.logistic_average import mixture

FEW, MANY = 4096, 32768  # points of the fixed rule for up to FEW_CLASSES classes, and for more
FEW_CLASSES = 4
CLOSE = 1.0  # largest deviation of a difference at which the plain average is as good


def softmax_average(m: Array, V: Array) -> Array:
    """p (c,) for one point: m (c,) and V (c, c), c > 2; the probabilities sum to one."""
    c = len(m)
    count = FEW if c <= FEW_CLASSES else MANY
    own = np.diagonal(V)
    if (own[:, None] + own - 2.0 * V).max() <= CLOSE**2:
        return _plain(m, V, count)
    spread = independent_as_possible(V)
    points = normal_points(c - 1, count)
    p = np.empty(c)
    for j in range(c):
        others = np.delete(np.arange(c), j)
        root = symmetric_root(spread[np.ix_(others, others)])
        # f_j given the others: its mean moves along with them, this variance is left
        along = np.linalg.lstsq(root, spread[others, j], rcond=1e-12)[0]
        rest = max(float(spread[j, j] - along @ along), 0.0)
        shift, lean = root @ points.T, along @ points.T  # (c - 1, count), (count,)
        p[j] = 0.5 * sum(
            mixture(m[j] + sign * lean - _log_sum(m[others, None] + sign * shift), rest).mean()
            for sign in (1.0, -1.0)
        )
    return np.asarray(p / p.sum())


def _log_sum(f: Array) -> Array:
    """log sum_k e^{f_k} down the columns of f (k, count); f is used up."""
    top = f.max(axis=0)
    f -= top
    return np.asarray(top + np.log(np.exp(f, out=f).sum(axis=0)))


def _plain(m: Array, V: Array, count: int) -> Array:
    """The average of the softmax itself: enough where it hardly bends over the Gaussian."""
    shift = normal_points(len(m), count) @ symmetric_root(V)
    both = special.softmax(m + shift, axis=1) + special.softmax(m - shift, axis=1)
    return np.asarray(0.5 * both.mean(axis=0))


def symmetric_root(V: Array) -> Array:
    """The symmetric root of V (c, c): it moves little with V, where single eigenvectors may not."""
    values, vectors = np.linalg.eigh(V)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def independent_as_possible(V: Array) -> Array:
    """V + 1 b' + b 1' (c, c): the same covariances of differences, small off the diagonal.

    A softmax does not see what moves all latent values together. b minimises the sum of squares
    off the diagonal; it is shortened if the result would not be a covariance.
    """
    c = len(V)
    row = V.sum(axis=1) - np.diagonal(V)
    b = (-row + row.sum() / (2.0 * (c - 1))) / (c - 2)
    for length in (1.0, 0.5, 0.25):
        moved = V + length * (b[:, None] + b)
        lowest = np.linalg.eigvalsh(moved)[0]
        if lowest >= -1e-12 * np.trace(V):
            return np.asarray(moved)
    return V


@cache
def normal_points(c: int, count: int) -> Array:
    """Return the fixed rule (count, c): a scrambled Sobol sequence through Phi^-1."""
    from scipy.stats import qmc  # imported here: it costs more than the rest of this room

    x = qmc.Sobol(c, seed=0).random(count)
    points: Array = np.asarray(special.ndtri(np.clip(x, 1e-12, 1.0 - 1e-12)))
    points.setflags(write=False)
    return points
