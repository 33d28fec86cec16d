"""Weights of a combination: those that maximise the log density of rows left out.

With p_ik the density that machine k gives to row i, left out, the weights w on the simplex maximise

    F(w) = sum_i c_i log sum_k w_k p_ik / sum_i c_i,

which is concave (Yao, Vehtari, Simpson & Gelman 2018, Using stacking to average Bayesian predictive
distributions, Bayesian Analysis 13). c_i is how often row i counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from mercer.core.arrays import Array, Index

GAP = 1e-9  # nats per row within which the weights are the best ones
STEPS = 200
FOLDS = 10  # of rows, for figures that the weights were not fitted to
PAIRS = 16  # of halves of the rows, over which weights are averaged
LEAST = 0.002  # nats per row, below which several machines are not worth their room
SMALL = 0.05  # a weight below it is dropped

Rule = Callable[[Array, Array | None], Array]  # log densities (n, k), counts (n,) -> weights (k,)


class BestWeights(NamedTuple):
    """Weights (k,), and by how many nats per row at most they miss the maximum."""

    weights: Array
    gap: float


def best_weights(log_density: Array, counts: Array | None = None) -> BestWeights:
    """Return the maximum of F for log densities (n, k), certified.

    The simplex is the set w >= 0 of  -F(w) + sum_k w_k, whose minimum has sum one; each step is a
    Newton step under w >= 0, a quadratic problem of k numbers (Kim, Carbonetto, Stephens &
    Anitescu 2020, A fast algorithm for maximum likelihood estimation of mixture proportions).
    With g_k = dF/dw_k, sum_k w_k g_k = 1, Jensen's inequality says F(best) - F(w) <= log max g.

    Examples
    --------
    >>> import numpy as np
    >>> found = best_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]))
    >>> found.weights.round(4), found.gap < 1e-9
    (array([0.7083, 0.2917]), True)
    """
    n, k = log_density.shape
    c = np.full(n, 1.0 / n) if counts is None else counts / counts.sum()
    P = np.exp(log_density - log_density.max(axis=1, keepdims=True))  # a factor per row is free
    w = np.full(k, 1.0 / k)

    def value(w: Array) -> float:
        with np.errstate(divide="ignore"):  # a row that no machine of w allows
            return float(c @ np.log(P @ w) - w.sum())

    gap = np.inf
    for _ in range(STEPS):
        A = P / (P @ w)[:, None]  # (n, k), A w = 1
        g = c @ A
        gap = float(np.log(g.max()))
        if gap <= GAP:
            break
        H = (A * c[:, None]).T @ A
        H[np.diag_indices(k)] += 1e-12 * np.trace(H)  # equal machines: any of them
        R = cholesky(H)
        goal, _ = nnls(R, solve_triangular(R, H @ w + g - 1.0, trans="T"))
        step, slope, now = 1.0, float((g - 1.0) @ (goal - w)), value(w)
        while step > 1e-12 and not value(w + step * (goal - w)) >= now + 1e-4 * step * slope:
            step *= 0.5
        w = np.maximum(w + step * (goal - w), 0.0)
        w = w / w.sum()
    return BestWeights(w, max(gap, 0.0))


def combined(log_density: Array, weights: Array) -> Array:
    """Return log sum_k w_k p_ik, (n,), of log densities (n, k); weights are (k,) or (n, k)."""
    with np.errstate(divide="ignore"):  # a weight of zero
        return np.asarray(np.logaddexp.reduce(log_density + np.log(weights), axis=1))


def nested(
    log_density: Array,
    rule: Rule,
    counts: Array | None = None,
    same: Index | None = None,
    seed: int = 0,
) -> Array:
    """Return the weights (n, k) for each tenth of the rows that a rule finds on the others.

    What the rule gains by fitting the rows that it is judged by is not in figures with these. Rows
    with equal numbers in ``same`` (n,), those of equal inputs, are in the same tenth.
    """
    group = np.arange(len(log_density)) if same is None else same
    found, m = np.empty(log_density.shape), int(group.max()) + 1
    part = (np.random.default_rng(seed).permutation(m) % min(FOLDS, m))[group]
    if m == 1:  # nothing is left to learn from
        found[:] = rule(log_density, counts)
        return found
    for fold in np.unique(part).tolist():
        here = part == fold
        others = None if counts is None else counts[~here]
        found[here] = rule(log_density[~here], others)
    return found


def free(log_density: Array, counts: Array | None = None) -> Array:
    """The rule of the maximum of F."""
    return best_weights(log_density, counts).weights


def single(log_density: Array, counts: Array | None = None) -> Array:
    """The rule that takes the one machine whose mean log density is the greatest."""
    means = np.average(log_density, axis=0, weights=counts)
    return np.asarray(np.eye(len(means))[means.argmax()])


class Weighed(NamedTuple):
    """One machine or several.

    Attributes
    ----------
    weights : (k,) of the machines; one of them is 1 where it is kept alone.
    outside : (n, k) the weights for each row that were found without it.
    gained : (n,) log density by which several, weighed by half of the rows, are better than one
        that half of the rows choose; zeros where one is kept.
    """

    weights: Array
    outside: Array
    gained: Array


def stacked(
    log_density: Array, counts: Array | None = None, most: int = 4, same: Index | None = None
) -> Weighed:
    """Return the weights of a combination, or of the best machine alone if nothing is gained.

    The weights are averages of those that maximise F on halves of the rows: with few rows the
    maximum follows chance, and so does a choice. Those of a row, ``outside``, are of the halves
    without it. A combination must predict the rows outside by more than ``LEAST`` nats a row better
    than the machines that are the best of the same halves. It has at most ``most`` members, of a
    weight of ``SMALL`` at least.

    Examples
    --------
    >>> import numpy as np
    >>> stacked(np.tile([-1.0, -1.5], (50, 1))).weights
    array([1., 0.])
    """
    n, k = log_density.shape
    alone, zeros = single(log_density, counts), np.zeros(n)
    first = _by_halves(log_density, counts, same)
    if first is None:
        return Weighed(alone, np.tile(alone, (n, 1)), zeros)
    keep = np.argsort(-first.weights, kind="stable")[:most]
    keep = np.sort(keep[first.weights[keep] >= min(SMALL, float(first.weights.max()))])
    found = _by_halves(log_density[:, keep], counts, same)
    assert found is not None
    gained = combined(log_density[:, keep], found.outside) - first.chosen
    if len(keep) < 2 or not gain(gained, counts)[0] > LEAST:
        return Weighed(alone, nested(log_density, single, counts, same), zeros)
    weights, outside = np.zeros(k), np.zeros((n, k))
    weights[keep], outside[:, keep] = found.weights, found.outside
    return Weighed(weights, outside, gained)


class _Halves(NamedTuple):
    weights: Array  # (k,) averages over the halves
    outside: Array  # (n, k) over those without the row
    chosen: Array  # (n,) mean log density by the machine that is the best of these


def _by_halves(log_density: Array, counts: Array | None, same: Index | None) -> _Halves | None:
    """Return what halves of the rows say, drawn in pairs; None if all rows belong together."""
    n, k = log_density.shape
    group = np.arange(n) if same is None else same
    m, rng = int(group.max()) + 1, np.random.default_rng(0)
    if m < 2:
        return None
    c = np.ones(n) if counts is None else counts
    weights, outside, chosen = np.zeros(k), np.zeros((n, k)), np.zeros(n)
    for _ in range(PAIRS):
        half = (rng.permutation(m) < m // 2)[group]
        for inside in (half, ~half):
            w = free(log_density[inside], c[inside])
            weights += w / (2 * PAIRS)
            outside[~inside] += w / PAIRS
            best = int(single(log_density[inside], c[inside]).argmax())
            chosen[~inside] += log_density[~inside, best] / PAIRS
    return _Halves(weights, outside, chosen)


def gain(difference: Array, counts: Array | None = None) -> tuple[float, float]:
    """Return the mean of paired differences (n,) and its standard error; counts are weights."""
    mean = float(np.average(difference, weights=counts))
    w = np.ones(len(difference)) if counts is None else counts
    square = float(w @ (difference - mean) ** 2) / float(w.sum())
    return mean, float(np.sqrt(square / max(float(w.sum()) - 1.0, 1e-12)))
