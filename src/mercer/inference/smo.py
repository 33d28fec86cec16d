"""SMO: the box-constrained quadratic programme of support vector machines.

    maximise  p'b - sum_t eps_t |b_t| - 1/2 b'K b,   low <= b <= high,
              sum of b fixed within each segment (with a bias)                   (GPML 6.38, 6.41)

The steps run in compiled code on the variables that can still move; here what came out is judged.
Theory (S3), (S4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.inference.active import Ascent
from mercer.inference.programme import Programme, directions
from mercer.linalg.rows import RowCache

__all__ = ["Optimum", "Programme", "directions", "maximise"]

UNLIMITED = 1 << 62
# How often variables that were set aside may come back before none is set aside any more.
RETURNS = 5


@dataclass
class Optimum:
    """Where a programme ended.

    Attributes
    ----------
    beta : (N,) the variables.
    slope : (N,) p - K b.
    level : (g,) the multiplier of each segment: slope -+ eps of its free variables.
    report : convergence, steps, violation, objective, rows computed, the fewest variables that were
        active at a time and how often those that had been set aside came back.
    """

    beta: Array
    slope: Array
    level: Array
    report: dict[str, Any] = field(default_factory=dict)


def maximise(
    programme: Programme, rows: RowCache, *, tol: float = 1e-3, max_iter: int = -1
) -> Optimum:
    """Maximise the programme until no pair (or variable) violates optimality by more than tol.

    ``max_iter`` limits the steps (-1: no limit); reaching it is reported, not raised. Variables
    that cannot move are set aside on the way; the violation in the end is that of all variables.
    """
    ascent = Ascent(programme, rows)
    reached = _objective(programme, ascent.beta, ascent.slope)
    limit, steps = (max_iter if max_iter >= 0 else UNLIMITED), 0
    spell = max(20_000, 20 * len(ascent.beta))  # steps after which the objective must have grown
    since, grown, shrinking, returns, narrowest = 0, 0.0, True, 0, len(ascent.beta)
    while True:
        budget = min(limit - steps, spell - since)
        if shrinking:
            budget = min(budget, ascent.pause)
        made, violation, gained, again = ascent.climb(tol, budget)
        steps, since, grown = steps + made, since + made, grown + gained
        narrowest = min(narrowest, len(ascent.now_beta))
        if again:
            continue
        stuck = violation > tol and made < budget  # rounding: no step lowers the violation
        if since >= spell:
            reached += grown
            stuck = stuck or grown <= 1e-12 * abs(reached)  # the tolerance cannot be reached
            since, grown = 0, 0.0
        if steps >= limit or (ascent.whole and (violation <= tol or stuck)):
            break
        if violation <= tol or stuck:
            violation = ascent.restore()
            if violation <= tol:
                break
            returns += 1
            shrinking = shrinking and not stuck and returns < RETURNS
            ascent.widen(again=shrinking)
        elif shrinking and ascent.pause <= 0:
            ascent.shrink()
    if not ascent.whole:
        violation = ascent.restore()
        rows.reset()  # whoever uses the rows next means all points
    beta, slope = ascent.beta, ascent.slope
    if violation <= tol:
        message = "converged"
    else:
        message = "iteration limit" if steps >= limit else "no step lowers the violation further"
    report = {
        "converged": bool(violation <= tol),
        "message": message,
        "iterations": int(steps),
        "violation": float(violation),
        "objective": _objective(programme, beta, slope),
        "rows_computed": int(rows.computed),
        "fewest_active": int(narrowest),
        "returns": returns,
        "precision": str(rows.table.dtype),
    }
    return Optimum(beta, slope, _levels(programme, beta, slope), report)


def _objective(P: Programme, beta: Array, slope: Array) -> float:
    """p'b - sum eps |b| - 1/2 b'K b, with K b = p - slope."""
    return float(0.5 * beta @ (P.linear + slope) - P.kink @ np.abs(beta))


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
