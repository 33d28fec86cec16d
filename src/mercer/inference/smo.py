"""SMO: the box-constrained quadratic programme of support vector machines.

    maximise  p'b - sum_t eps_t |b_t| - 1/2 b'K b,   low <= b <= high,
              sum of b fixed within each segment (with a bias)                   (GPML 6.38, 6.41)

The steps run in compiled code; here rows of K are fetched, and what came out is judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._native import machines
from mercer.arrays import Array, Index
from mercer.linalg.rows import BATCH, RowCache

UNLIMITED = 1 << 62


@dataclass
class Programme:
    """A quadratic programme over N variables.

    Attributes
    ----------
    linear : (N,) p.
    low, high : (N,) the box.
    kink : (N,) eps.
    start : (N,) a feasible point.
    segments : (g, 3) rows (begin, end, column): variables begin .. end-1 have a fixed sum and
        belong to the points column, column + 1, ...
    bias : whether the sums are fixed; without, there is one segment.
    """

    linear: Array
    low: Array
    high: Array
    kink: Array
    start: Array
    segments: NDArray[np.int64]
    bias: bool = True

    def columns(self) -> Index:
        """The point of each variable, (N,)."""
        index = np.empty(len(self.linear), dtype=np.intp)
        for begin, end, column in self.segments:
            index[begin:end] = np.arange(column, column + end - begin)
        return index


@dataclass
class Optimum:
    """Where a programme ended.

    Attributes
    ----------
    beta : (N,) the variables.
    slope : (N,) p - K b.
    level : (g,) the multiplier of each segment: slope -+ eps of its free variables.
    report : convergence, steps, violation, objective, rows computed.
    """

    beta: Array
    slope: Array
    level: Array
    report: dict[str, Any] = field(default_factory=dict)


def maximise(
    programme: Programme, rows: RowCache, *, tol: float = 1e-3, max_iter: int = -1
) -> Optimum:
    """Maximise the programme until no pair (or variable) violates optimality by more than tol.

    ``max_iter`` limits the steps (-1: no limit); reaching it is reported, not raised.
    """
    P, columns = programme, programme.columns()
    beta = P.start.astype(np.float64).copy()
    sums = np.asarray(np.bincount(columns, beta, len(rows.points)), dtype=np.float64)
    slope: Array = P.linear - rows.product(sums)[columns]
    diagonal = rows.kernel.diag(rows.points)[columns].astype(np.float32)
    limit, steps = (max_iter if max_iter >= 0 else UNLIMITED), 0
    spell = max(20_000, 20 * len(beta))  # steps after which the objective must have grown
    since, reached = 0, -np.inf
    while True:
        made, violation, wanted, rows.next_free, rows.clock = machines.climb(
            rows.table,
            rows.slot_of,
            rows.row_in,
            rows.used,
            rows.next_free,
            rows.single,
            rows.columns,
            rows.variance,
            P.segments,
            slope,
            beta,
            P.low,
            P.high,
            P.kink,
            diagonal,
            P.bias,
            tol,
            min(limit - steps, spell - since),
            rows.clock,
        )
        steps += made
        since += made
        if wanted >= 0:
            rows.fetch(_next_rows(P, slope, beta, columns, wanted, rows))
            continue
        if violation <= tol or steps >= limit or since < spell:
            break
        since, before, reached = 0, reached, _objective(P, beta, slope)
        if reached - before <= 1e-12 * abs(reached):
            break  # rounding: the tolerance cannot be reached
    if violation <= tol:
        message = "converged"
    else:
        message = "iteration limit" if steps >= limit else "no step lowers the violation further"
    report = {
        "converged": bool(violation <= tol),
        "message": message,
        "iterations": int(steps),
        "violation": float(violation),
        "objective": _objective(P, beta, slope),
        "rows_computed": int(rows.computed),
        "precision": str(rows.table.dtype),
    }
    return Optimum(beta, slope, _levels(P, beta, slope), report)


def _objective(P: Programme, beta: Array, slope: Array) -> float:
    """p'b - sum eps |b| - 1/2 b'K b, with K b = p - slope."""
    return float(0.5 * beta @ (P.linear + slope) - P.kink @ np.abs(beta))


def _next_rows(
    P: Programme, slope: Array, beta: Array, columns: Index, wanted: int, rows: RowCache
) -> Index:
    """The wanted row and those likely to be wanted next: of the most violating variables."""
    up, down = directions(P, beta, slope)
    half = min(BATCH // 2, len(up) - 1)
    likely = np.concatenate([np.argpartition(-up, half)[:half], np.argpartition(down, half)[:half]])
    candidates = np.unique(columns[likely])
    missing = candidates[(rows.slot_of[candidates] < 0) & (candidates != wanted)]
    return np.concatenate([[wanted], missing[: BATCH - 1]]).astype(np.intp)


def directions(P: Programme, beta: Array, slope: Array) -> tuple[Array, Array]:
    """Slope of the objective when a variable rises (-inf: cannot), and when it falls (inf)."""
    up = np.where(beta < P.high, slope + np.where(beta >= 0, -P.kink, P.kink), -np.inf)
    down = np.where(beta > P.low, slope + np.where(beta > 0, -P.kink, P.kink), np.inf)
    return up, down


def _levels(P: Programme, beta: Array, slope: Array) -> Array:
    """The multiplier of each segment: mean over free variables, else the middle of its bounds."""
    if not P.bias:
        return np.zeros(1)
    up, down = directions(P, beta, slope)
    free = (beta > P.low) & (beta < P.high) & ~((beta == 0) & (P.kink > 0))
    levels = np.empty(len(P.segments))
    for g, (begin, end, _) in enumerate(P.segments):
        inside = slice(begin, end)
        if np.any(free[inside]):
            shifted = slope[inside] - np.sign(beta[inside]) * P.kink[inside]
            levels[g] = shifted[free[inside]].mean()
        else:
            levels[g] = 0.5 * (up[inside].max() + down[inside].min())
    return levels
