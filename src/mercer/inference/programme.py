"""The quadratic programme of support vector machines, and what optimality means for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array, Index


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


def directions(P: Programme, beta: Array, slope: Array) -> tuple[Array, Array]:
    """Slope of the objective when a variable rises (-inf: cannot), and when it falls (inf)."""
    up = np.where(beta < P.high, slope + np.where(beta >= 0, -P.kink, P.kink), -np.inf)
    down = np.where(beta > P.low, slope + np.where(beta > 0, -P.kink, P.kink), np.inf)
    return up, down


def violations(P: Programme, beta: Array, slope: Array) -> float:
    """The largest violation of optimality: max up - min down of a segment, >= 0.

    Without a bias each variable stands alone: max up and -min down.
    """
    up, down = directions(P, beta, slope)
    if not P.bias:
        return float(max(up.max(), -down.min(), 0.0))
    return max(float(up[begin:end].max() - down[begin:end].min()) for begin, end, _ in P.segments)
