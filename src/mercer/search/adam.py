"""Steps along a gradient that is right on average: Adam, and the mean of where it was last."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.search.criteria.evidence import Criterion

RATE, HALVED = 0.1, 10.0  # of a step, and the steps after which it is half as long
MOMENTS = (0.9, 0.999)  # weights of the past in the means of gradients and of their squares
AVERAGED = 5  # last points whose mean is the result


def adam(criterion: Criterion, u: Array, bounds: Array, steps: int) -> tuple[Array, dict[str, Any]]:
    """Climb from u (p,) within bounds (p, 2); return the mean of the last points, and a report.

    An interrupt ends it where it is. Nothing compares values: they may be estimates, too.

    Reference: Kingma and Ba (2015).
    """
    visited, first, second = [u], np.zeros_like(u), np.zeros_like(u)
    told: dict[str, Any] = {"steps": 0, "averaged": 1, "interrupted": False}
    a, b = MOMENTS
    try:
        for t in range(steps):
            _, slope, solution = criterion.evaluate(visited[-1])
            if not solution.report.converged:
                told["unsolved"] = told.get("unsolved", 0) + 1
            first, second = a * first + (1.0 - a) * slope, b * second + (1.0 - b) * slope**2
            mean, square = first / (1.0 - a ** (t + 1)), second / (1.0 - b ** (t + 1))
            step = RATE / (1.0 + t / HALVED) * mean / (np.sqrt(square) + 1e-8)
            visited.append(np.clip(visited[-1] + step, bounds[:, 0], bounds[:, 1]))
    except KeyboardInterrupt:
        told["interrupted"] = True
    last = visited[1:][-AVERAGED:] or visited
    return np.mean(last, axis=0), told | {"steps": len(visited) - 1, "averaged": len(last)}
