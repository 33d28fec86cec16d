"""Rows left out in folds: what the others say of them, and the search for parameters by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.estimators.shared.parts import Parts
from mercer.inference.base import Problem
from mercer.inference.mode.programme import dual_of
from mercer.inference.smo import SMO
from mercer.kernels import Precomputed
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.base import Stationary
from mercer.linalg.rows import RowCache
from mercer.losses.base import Loss
from mercer.losses.real.absolute import Pinball
from mercer.search import Criterion, LooBound, Space

FOLDS = 5
SEARCHED = 500  # points that the search looks at: each candidate is fitted in all folds and levels
STEPS = 20_000  # of the solver at most for a candidate: one that needs more is no better for it
WEIGHTS = 1e2  # how far the search moves C from where it begins
SHORTER = (0.3, 0.1)  # further length scales that the search starts from, times that of the data
ROUGH = SMO(tol=1e-6, max_iter=STEPS)


def pinball(y: Array, f: Array, levels: Array, weights: Array) -> Array:
    """Return the mean loss of the quantiles f (n, q) of y (n, 1), for each of q levels."""
    r = y - f
    return np.asarray(weights @ np.maximum(levels * r, (levels - 1.0) * r) / weights.sum())


def folds_of(n: int, rng: np.random.Generator) -> Index:
    """Return the fold (n,) of each point, at random; of few points each is one of its own."""
    return np.asarray(rng.permutation(n) % min(FOLDS, n), dtype=np.intp)


def left_out(problem: Problem, K: Array, losses: Sequence[Loss], fold: Index, solver: SMO) -> Array:
    """Return f (n, p) of the points of each fold, learned from the others, K (n, n) given."""
    p, found = problem, np.empty((len(problem.points), len(losses)))
    for k in range(int(fold.max()) + 1):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        numbers, across = train[:, None].astype(np.float64), K[np.ix_(test, train)]
        rows = RowCache(Precomputed(K), numbers, 8.0 * len(train) ** 2, single=False)
        rows.fetch(np.arange(len(train)))  # K is there: nothing is gained by waiting
        for j, loss in enumerate(losses):
            programme = dual_of(loss, p.y[train, 0], p.weights[train], bias=True)
            best = solver.climb(programme, rows)
            alpha = np.bincount(programme.columns(), best.beta, len(train))
            found[test, j] = across @ alpha + best.level[0]
    return found


def left_out_on_landmarks(
    problem: Problem, parts: Parts, kernel: Kernel, losses: Sequence[Loss], fold: Index
) -> Array:
    """Return f (n, p) of the points of each fold, learned from the others on the same landmarks."""
    p, found = problem, np.empty((len(problem.points), len(losses)))
    for k in range(int(fold.max()) + 1):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        gram = parts.make_gram(kernel, p.points[train], scratch=False)
        basis, weights = cast(Array, p.basis), p.weights[train]
        for j, loss in enumerate(losses):
            best = parts.inference.solve(
                gram, p.y[train], loss, basis=basis[train], weights=weights
            )
            smooth = kernel.matmul(p.points[test], gram.support, gram.carry(best.alpha))
            found[test, j] = (smooth + basis[test] @ cast(Array, best.beta))[:, 0]
    return found


class FoldCriterion(Criterion):
    """Minus the pinball loss of points left out in folds, the mean over points and levels.

    It has no gradient: the rows that a quantile goes through change from one parameter to another.
    """

    def __init__(self, parts: Parts, space: Space, problem: Problem, levels: Array, fold: Index):
        super().__init__(space, problem, parts.inference, parts.make_gram)
        self.levels, self.fold = levels, fold

    def __call__(self, u: Array) -> tuple[float, Array]:
        at, p = self.space.parts_at(u), self.problem
        K = self.make_gram(cast(Kernel, at["kernel"]), p.points, scratch=False).matrix
        each = [at["loss"].replaced({"level": level}) for level in self.levels]
        f = left_out(p, K, cast(list[Loss], each), self.fold, ROUGH)
        value = -float(pinball(p.y, f, self.levels, p.weights).mean())
        return value + self.space.log_prior(u)[0], np.zeros(len(u))

    def value_and_gradients(self, *_: Any) -> Any:
        raise NotImplementedError("the loss of left-out rows has no gradient here")


def found_by_folds(
    parts: Parts, problem: Problem, levels: Array, rng: np.random.Generator
) -> tuple[Kernel, Pinball, dict[str, Any]]:
    """Return kernel, loss and report of the parameters with the least loss on left-out points."""
    n, p = len(problem.points), problem
    some = np.sort(rng.permutation(n)[:SEARCHED])
    if len(some) < n:
        p = replace(
            p,
            points=p.points[some],
            y=p.y[some],
            weights=p.weights[some],
            spread=p.spread[some],
            basis=cast(Array, p.basis)[some],
        )
    scale = cast(Pinball, parts.loss).scale
    bounds = parts.bounds | {"loss__scale": (scale / WEIGHTS, scale * WEIGHTS)}
    space = Space({"kernel": parts.kernel, "loss": parts.loss}, bounds)
    scales = [
        (f"kernel__{path}", getattr(owner, name))
        for path, owner, name in parts.kernel.differentiable()
        if name == "length_scale" and isinstance(owner, Stationary)
    ]
    for factor in SHORTER:
        space.suggest({path: factor * np.asarray(value) for path, value in scales})
    criterion = FoldCriterion(parts, space, p, levels, folds_of(len(some), rng))
    best = LooBound().run(criterion, space, rng)[0]
    at = space.parts_at(best.u)
    edge = np.any(np.abs(best.u[:, None] - space.bounds) < 1e-9, axis=1)
    report = best.report | {
        "criterion": "left_out_pinball",
        "rows": len(some),
        "loss": -best.value,
        "at_bounds": [entry.name for entry in space.entries if np.any(edge[entry.where])],
    }
    return cast(Kernel, at["kernel"]), cast(Pinball, at["loss"]), report
