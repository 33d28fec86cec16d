"""Scan: the length scales at which a climb should begin, from a few values of the criterion.

A function that varies fast against the range of its columns is noise to every longer length scale:
the criterion is flat there, and no gradient leads to the short ones. So they are tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.inference.base import Problem, Solution
from mercer.kernels import Stationary
from mercer.kernels.base import Kernel
from mercer.losses.base import Loss
from mercer.search.criteria.evidence import Criterion, bare
from mercer.search.space import Space

ROWS = 320  # points up to which all are taken
CENTRES, EACH = 8, 48  # else these, and their neighbours of so many ranks (some coincide)
STEP = 0.7  # of the grid, in the logarithm of the length scales: half the width of a narrow peak
# Noise of the scan relative to the variance of the kernel. Less makes white noise of all that is
# not smooth: at half, the peak is where it should be whatever the noise of the data.
NOISE = 0.5
LESS_NOISE = (0.1, 0.02)  # that are tried at the peak
# Steps of one length scale while the others stay, most telling first, and how many values in all.
ALONE = (2.0, 4.0, 1.0, -1.0, 6.0, -2.0)
VALUES = 16
# What a row may lose by the noise of the scan: .036 nats by N(0, 1.5) where N(0, 1) is true.
WORSE = 0.05
SHORTER, QUIETER = 1.4, 3.0  # logarithms by which a rough function without noise may differ
COLUMNS = 8  # up to which one alone is tried: the values take time in proportion


def scan(
    criterion: Criterion, space: Space, base: Array | None = None
) -> tuple[Array | None, list[Array], dict[str, Any]]:
    """Return the best point (p,) on a grid of length scales, the points to start from, a report.

    All length scales shrink together from the data's own scale (a suggestion, or the start)
    to about the distance of neighbours on a line. Then each alone is changed, and each alone is
    short where the others are long: a function may vary fast in one column. ``base`` is the best
    point of an earlier scan: then only the latter are done. Beyond 320 points the criterion is that
    of some of them, which depend on the order neither of the rows nor of the columns.

    The point is None if there is nothing to scan. To start from are points with other length scales
    than the start's that are better than it, or worse by no more than their rough noise explains
    (by a criterion that compares without such noise: the best alone, if it is better); and those
    that the criterion knows of.
    """
    where = _length_scales(space)
    if not len(where):
        return None, [], {}
    index = spread_out(criterion.problem)
    n = len(criterion.problem.points)
    if len(index) < n:
        if cast(Loss, space.parts["loss"]).of_rows:  # a noise for each row
            return None, [], {}
        criterion = criterion.on(rows_of(criterion.problem, index))
    grid = _Grid(criterion.guide(criterion.problem), space, n)
    before = grid.value(space.start)
    points = [grid.shrunk(where) if base is None else base]
    if 1 < len(where) <= COLUMNS:
        points = [grid.changed_alone(where, points[0]), *grid.one_short(where)]
        points.sort(key=grid.value, reverse=True)
    even = grid.criterion.even
    least = before - (0.0 if even else WORSE * len(index))
    starts: list[Array] = []
    for u in points:
        near = [np.abs(u - v)[where].max() < 0.5 * STEP for v in (space.start, *starts)]
        if grid.value(u) > least and not any(near) and not (even and starts):
            starts.append(u)
    gain = grid.value(points[0]) - before
    report = {
        "rows": len(index),
        "evaluations": grid.evaluations,
        "gain": float(gain) if np.isfinite(gain) else None,
        "starts": len(starts),
    }
    return points[0], [*starts, *criterion.also(grid.beginning(), where)], report


class _Grid:
    """Values of a criterion, each begun at the last posterior; impossible points are lowest."""

    def __init__(self, criterion: Criterion, space: Space, n: int) -> None:
        self.criterion, self.space = criterion, space
        self.steps = np.arange(np.log(2.0 * n) / STEP)  # to the distance of n neighbours on a line
        noises = [e.where.start for e in space.entries if e.name == "loss__noise" and not e.shape]
        self.noise = np.array(noises, dtype=np.intp)
        self.known: dict[bytes, float] = {}
        self.last: Solution | None = None

    @property
    def evaluations(self) -> int:
        return len(self.known)

    def value(self, u: Array) -> float:
        key = u.tobytes()
        if key not in self.known:
            try:
                value, solution = self.criterion.height(u, self.last)
                self.last = bare(solution)
            except ValueError:
                value, self.last = -np.inf, None
            self.known[key] = value if np.isfinite(value) else -np.inf
        return self.known[key]

    def best(self, points: list[Array]) -> Array:
        """Return the highest of some points; the first of equals."""
        low, high = self.space.bounds.T
        points = [np.clip(u, low, high) for u in points]
        return points[int(np.argmax([self.value(u) for u in points]))]

    def shrunk(self, where: Index) -> Array:
        """Return the best point at which all length scales are shorter by one factor."""
        u = self.beginning()
        points = [_moved(u, where, -STEP * i) for i in self.steps]
        return self._with_noise(self.best(points))

    def one_short(self, where: Index) -> list[Array]:
        """Return the best points at which one length scale is short, the others less or very long.

        A function that does not depend on a column, and one that does a little with less noise, are
        often two maxima: the rough values do not tell which is higher.
        """
        u = _moved(self.beginning(), where, 2.0 * STEP)
        if len(self.steps) < 4:  # a handful of rows
            return [u]
        shorter = STEP * np.arange(3, len(self.steps) + 2, 2)  # as short as all of them together
        tried = {int(i): [_moved(u, [i], -by) for by in shorter] for i in where}
        tops = {i: self.best(points) for i, points in tried.items()}
        i = max(tops, key=lambda i: self.value(tops[i]))
        near = [_moved(tops[i], [i], by) for by in (0.0, -STEP, STEP)]
        u = self._with_noise(self.best(near))
        others = where[where != i]
        return [self.best([u, *(_moved(u, others, -STEP * k) for k in (2.0, 3.0))]), u]

    def changed_alone(self, where: Index, u: Array) -> Array:
        """Return the best point at which one length scale, or each for itself, is another."""
        steps = ALONE[: VALUES // len(where)]
        moves = [[u, *(_moved(u, [i], STEP * step) for step in steps)] for i in where]
        each = [self.best(points) for points in moves]
        together = u + sum((v - u for v in each), np.zeros(len(u)))
        return self.best([u, *each, together])

    def beginning(self) -> Array:
        """Return the scale of the data, with a noise of half the kernel's variance."""
        suggested = self.space.data_scale
        u = (self.space.start if suggested is None else suggested).copy()
        kernel = cast(Kernel, self.space.parts_at(u)["kernel"])
        kernel = kernel.get_params(deep=False)["parts"][0] if kernel.separate else kernel
        amplitude = float(kernel.diag(self.criterion.problem.points).mean())
        if amplitude > 0.0:
            u[self.noise] = np.log(NOISE * amplitude)
        return u

    def _with_noise(self, u: Array) -> Array:
        """Return the best point that differs from u in the noise."""
        less = [_moved(u, self.noise, np.log(level / NOISE)) for level in LESS_NOISE]
        return self.best([u, *less]) if len(self.noise) else u


def rougher(space: Space) -> list[Array]:
    """Return the start (p,) with shorter length scales and less noise, if there are such.

    Targets that are nearly exact have two explanations, often two maxima: a smooth function and
    some noise, or a rough one and none. A climb from the former does not find the latter.
    """
    where = _length_scales(space)
    noise = [e.where.start for e in space.entries if e.name == "loss__noise" and not e.shape]
    if not len(where) or not noise:
        return []
    u = _moved(_moved(space.start, where, -SHORTER), noise, -QUIETER)
    return [np.clip(u, *space.bounds.T)]


def _moved(u: Array, where: Any, by: float) -> Array:
    moved = u.copy()
    moved[where] += by
    return moved


def _length_scales(space: Space) -> Index:
    """Return where u has the length scales of stationary kernels."""
    kernel = space.parts.get("kernel")
    if kernel is None:
        return np.zeros(0, dtype=np.intp)
    paths = {
        path
        for path, owner, name in kernel.differentiable()
        if name == "length_scale" and isinstance(owner, Stationary)
    }
    loss: Any = space.parts.get("loss")
    if loss is not None and loss.latents:  # what the targets are about varies fast or not
        paths = {path for path in paths if path.startswith("0__")}
    spans = [e.where for e in space.entries if e.part == "kernel" and e.path in paths]
    return np.array([i for span in spans for i in range(span.start, span.stop)], dtype=np.intp)


def spread_out(problem: Problem) -> Index:
    """Return some points that show short distances as well as long ones; all, if they are few.

    Eight centres, each the farthest from those before, and for each of them the neighbours of
    geometric rank, 1 to n: their distances cover all scales, whatever n.
    """
    n = len(problem.points)
    if n <= ROWS:
        return np.arange(n)
    X = problem.points - problem.points.mean(axis=0)
    X = X / np.maximum(X.std(axis=0), np.finfo(float).tiny)
    order = np.lexsort([*X.T, *problem.y.T])  # of equal distances the choice is not by row number
    X = X[order]
    ranks = np.unique(np.geomspace(1, n, EACH).astype(np.intp)) - 1
    chosen: list[Index] = []
    nearest, squares = np.full(n, np.inf), (X**2).sum(axis=1)
    for _ in range(CENTRES):
        centre = int(np.argmax(nearest)) if chosen else int(np.argmin(squares))
        distance = ((X - X[centre]) ** 2).sum(axis=1)
        nearest = np.minimum(nearest, distance)
        chosen.append(np.argsort(distance, kind="stable")[ranks])
    return np.sort(order[np.unique(np.concatenate(chosen))])


def rows_of(problem: Problem, index: Index) -> Problem:
    """Return the problem of some of its points, in increasing order."""
    p, place = problem, np.full(len(problem.points), -1)
    place[index] = np.arange(len(index))
    rows = place[p.group] >= 0
    return replace(
        p,
        points=p.points[index],
        y=p.y[index],
        weights=p.weights[index],
        spread=p.spread[index],
        basis=None if p.basis is None else p.basis[index],
        group=place[p.group[rows]],
        rows=p.rows[rows],
        row_weights=p.row_weights[rows],
        left_out=None if p.left_out is None else p.left_out[rows],
    )
