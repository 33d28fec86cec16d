"""Centres: few points that stand for many rows, as inducing points or for a preconditioner.

k-means on columns in units of the length scales leaves the least prior variance unexplained
wherever m is far below the rank of K; greedy pivots collect outliers, and win only at high rank and
where rows repeat or have no coordinates. Theory, section "Choosing the points".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array, Index, group_rows, location_scale
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.base import relevance

ROUNDS = 12  # of Lloyd's algorithm
EACH = 50  # rows a centre for k-means, at most
ROWS = 20  # rows a pivot, at most
PAIRS = 1 << 18  # of squared distances held at a time
FAR = 1e100  # units of distance beyond which they are taken relatively
NOTHING = 1e-12  # of the largest variance: what is left where a row is known from the pivots


def rule_for(signal: Kernel, rule: str) -> str:
    """Return the rule to choose points by: where inputs have no means, centres are rows."""
    return "random_pivots" if rule == "kmeans" and not signal.spatial else rule


def uniform(points: Array, m: int, rng: np.random.Generator) -> Index:
    """Return m distinct rows of points (n, d), drawn without replacement."""
    index = np.sort(rng.permutation(len(points))[: 2 * m])
    first = index[np.sort(group_rows(points[index])[0])]
    return np.asarray(np.sort(rng.permutation(first)[:m]))


def kmeans(points: Array, weights: Array, m: int, scale: Array, rng: np.random.Generator) -> Array:
    """Return m centres (m, d) by Lloyd's algorithm, distances in units of ``scale`` (d,).

    At most fifty rows a centre are looked at, drawn at random; a centre without rows is dropped.

    Examples
    --------
    >>> points = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> centres = kmeans(points, np.ones(4), 2, np.ones(1), np.random.default_rng(0))
    >>> np.sort(centres.ravel())
    array([0.1, 5.1])
    """
    if len(points) > EACH * m:
        chosen = np.sort(rng.permutation(len(points))[: EACH * m])
        points, weights = points[chosen], weights[chosen]
    far = float(np.abs(points / scale).max())
    scale = scale * far if far > FAR else scale  # or the squares of distances leave all numbers
    U = points / scale
    centres = U[uniform(U, m, rng)]
    for _ in range(ROUNDS):
        near = nearest(U, centres)
        mass = np.bincount(near, weights, len(centres))
        sums = np.column_stack([np.bincount(near, weights * u, len(centres)) for u in U.T])
        held = mass > 0.0
        moved = sums[held] / mass[held, None]
        done = moved.shape == centres.shape and np.allclose(moved, centres, rtol=0.0, atol=1e-6)
        centres = moved
        if done:
            break
    return np.asarray(centres * scale)


def nearest(U: Array, centres: Array) -> Index:
    """Return which of the centres (m, d) is nearest to each row of U (n, d)."""
    half = 0.5 * np.einsum("ij,ij->i", centres, centres)
    found = np.empty(len(U), dtype=np.intp)
    size = max(1, PAIRS // len(centres))
    for i in range(0, len(U), size):
        near = U[i : i + size] @ centres.T
        found[i : i + size] = np.argmin(np.subtract(half, near, out=near), axis=1)
    return found


def pivots(
    kernel: Kernel, points: Array, weights: Array, m: int, rng: np.random.Generator | None = None
) -> Index:
    """Return up to m rows of points (n, d) by a pivoted Cholesky decomposition.

    The next row is that of which the most variance is left (times its weight), or with ``rng``
    one drawn in proportion to it (Chen, Epperly, Tropp and Webber 2025). Ends where nothing is
    left. At most twenty rows a pivot are looked at, spread evenly over the table.
    """
    rows = np.arange(len(points))
    if len(points) > ROWS * m:
        rows = np.unique(np.linspace(0, len(points) - 1, ROWS * m).astype(np.intp))
    X, w = points[rows], weights[rows]
    left = kernel.diag(X).copy()
    top, chosen = float(left.max(initial=0.0)), np.empty(min(m, len(X)), dtype=np.intp)
    G = np.empty((len(chosen), len(X)))
    for i in range(len(chosen)):
        share = np.maximum(left, 0.0) * w
        if not np.any(left > NOTHING * top):
            chosen, G = chosen[:i], G[:i]
            break
        p = int(np.argmax(share) if rng is None else rng.choice(len(X), p=share / share.sum()))
        row = kernel(X[p : p + 1], X)[0] - G[:i, p] @ G[:i]
        G[i] = row / np.sqrt(row[p])
        left -= G[i] ** 2
        left[p], chosen[i] = 0.0, p
    return np.asarray(rows[chosen])


def scales(kernel: Kernel, points: Array, weights: Array) -> Array:
    """Return the unit (d,) of distances in each column: its length scale, or its deviation."""
    found = relevance(kernel, points, weights)
    spread = location_scale(points, np.ones(len(points)))[1]  # squares may leave all numbers
    if found is None:
        return np.asarray(spread)
    return np.asarray(spread / np.maximum(found, 1e-6 * max(float(found.max()), 1e-300)))


def by_kmeans(
    kernel: Kernel, points: Array, weights: Array, m: int, rng: np.random.Generator
) -> Array:
    """Return centres by k-means in units of the kernel's length scales."""
    return kmeans(points, weights, m, scales(kernel, points, weights), rng)


def by_chance(
    kernel: Kernel, points: Array, weights: Array, m: int, rng: np.random.Generator
) -> Array:
    """Return rows drawn at random."""
    return np.asarray(points[uniform(points, m, rng)])


def by_pivots(
    kernel: Kernel, points: Array, weights: Array, m: int, rng: np.random.Generator
) -> Array:
    """Return the rows of which most variance is left, one after the other."""
    return np.asarray(points[pivots(kernel, points, weights, m)])


def by_random_pivots(
    kernel: Kernel, points: Array, weights: Array, m: int, rng: np.random.Generator
) -> Array:
    """Return rows drawn in proportion to the variance that is left."""
    return np.asarray(points[pivots(kernel, points, weights, m, rng)])


Chooser = Callable[[Kernel, Array, Array, int, np.random.Generator], NDArray[np.float64]]


def by_class(
    chooser: Chooser,
    kernel: Kernel,
    points: Array,
    weights: Array,
    m: int,
    rng: np.random.Generator,
    classes: Array | None = None,
) -> Array:
    """Return m centres, as many in each of the classes (n,): a rare one is seen as well as others.

    A class with fewer rows than its share leaves the rest to the larger ones.
    """
    if classes is None:
        return chooser(kernel, points, weights, m, rng)
    names, rows = np.unique(classes, return_counts=True)
    found, left = list[Array](), m
    for k in np.argsort(rows, kind="stable"):
        share = min(int(rows[k]), left // (len(names) - len(found)))
        left -= share
        own = classes == names[k]
        part = chooser(kernel, points[own], weights[own], share, rng) if share else points[:0]
        found.append(part)
    return np.vstack(found)


CHOOSERS: dict[str, Chooser] = {
    "kmeans": by_kmeans,
    "uniform": by_chance,
    "pivots": by_pivots,
    "random_pivots": by_random_pivots,
}
