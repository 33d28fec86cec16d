"""Sample: some of the rows of a large table, to learn hyperparameters from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Index
from mercer.inference.base import Problem
from mercer.kernels.base import Kernel
from mercer.search.criteria.evidence import balanced
from mercer.search.scan import rows_of

AMONG = 100_000  # rows at most, drawn at random, that neighbours are looked for among
BLOCK = 2048  # of them at a time
FEW = 1000  # rows of which a half would tell too little


def some(problem: Problem, rows: int, rng: np.random.Generator) -> Index:
    """Return so many places of points, drawn at random, in order; all if there are not more."""
    n = len(problem.points)
    return np.arange(n) if n <= rows else np.sort(rng.permutation(n)[:rows])


def first_rows(problem: Problem, rows: int, rng: np.random.Generator) -> Problem:
    """Return the problem of so many of its points, drawn at random; all if there are not more."""
    return problem if len(problem.points) <= rows else rows_of(problem, some(problem, rows, rng))


def with_nearest(
    problem: Problem, index: Index, kernel: Kernel, rng: np.random.Generator
) -> Problem:
    """Return the problem of the points at ``index`` and, for each, the nearest other point.

    Noise is what near points differ by, and in a sample no two are as near as in the table: its
    evidence can take for signal what the table shows to be noise, and the reverse. The distance is
    that of the kernel, d(x, z)^2 = k(x, x) + k(z, z) - 2 k(x, z).
    """
    here, among = problem.points[index], some(problem, AMONG, rng)
    nearest, least = index.copy(), np.full(len(index), np.inf)
    for first in range(0, len(among), BLOCK):
        block = among[first : first + BLOCK]
        there = problem.points[block]
        squared = kernel.diag(there) - 2.0 * kernel(here, there)
        own = np.minimum(np.searchsorted(block, index), len(block) - 1)
        itself = np.flatnonzero(block[own] == index)
        squared[itself, own[itself]] = np.inf
        best = squared.argmin(axis=1)
        found = squared[np.arange(len(index)), best]
        nearer = found < least
        nearest[nearer], least[nearer] = block[best[nearer]], found[nearer]
    return rows_of(problem, np.union1d(index, nearest))


@dataclass
class Samples:
    """Samples of one table: ``rows`` points to learn from, and twice as many to judge by.

    ``balances`` as a search does: copies say how much a point counts, not how little noise there
    is. There is but one sample if it is not ``halved``, as one of few rows never is.
    """

    problem: Problem
    rows: int
    balances: bool
    halved: bool
    rng: np.random.Generator

    def __post_init__(self) -> None:
        n = len(self.problem.points)
        self.halved = self.halved and n > self.rows >= FEW
        self.index = some(self.problem, self.rows // 2 if self.halved else self.rows, self.rng)

    def first(self) -> Problem:
        """Half of the points, or the one sample, drawn at random."""
        every = len(self.index) == len(self.problem.points)
        return self._drawn(self.problem if every else rows_of(self.problem, self.index))

    def near(self, kernel: Kernel) -> Problem:
        """The first half and its nearest neighbours."""
        return self._drawn(with_nearest(self.problem, self.index, kernel, self.rng))

    def judge(self) -> Problem:
        """Twice as many points, drawn at random."""
        return self._drawn(first_rows(self.problem, 2 * self.rows, self.rng))

    def _drawn(self, sample: Problem) -> Problem:
        return balanced(sample)[0] if self.balances else sample


def leave_if_interrupted(report: dict[str, Any], few: Problem, problem: Problem) -> None:
    """Leave a fit whose search on few rows was interrupted: all rows would take much longer."""
    if ended_by_user(report["search"]) and len(few.points) < len(problem.points):
        raise KeyboardInterrupt


def ended_by_user(search: dict[str, Any]) -> bool:
    """Whether a search was interrupted by a person, and not by a time budget."""
    return bool(search.get("interrupted")) and "ended" not in search
