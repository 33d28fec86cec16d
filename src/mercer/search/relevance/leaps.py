"""Functions that gain far from where they come in: the last look before a search ends.

Under a loss that is not Gaussian a function that few rows see can be useless while it is small,
and gain where it brings these rows to their side and their curvature is gone: the evidence has a
second maximum in its precision, of which the Gaussian model that touches it knows nothing. Where
the step of that model, with the other weights in answer,

    d = phi - F'Sigma F B phi,      |Q| / S max_i |d_i|

moves no row far, that model is right. The others are tried by the evidence itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.core.arrays import Array
from mercer.search.relevance.bend import least_precision
from mercer.search.relevance.machines import Machine
from mercer.search.relevance.state import SparseState

# Tried are candidates that promise not much less than to gain, Q^2 / S > NEAR, and whose step moves
# a row by more than FAR; at these multiples of the least precision, the others if the evidence
# loses less than WORSE at the first; and TIMES as high as they promise to gain at, if they do.
NEAR, FAR, TIMES = 0.1, 1.0, 3.0
ROWS = 64
WIDTHS, WORSE = (20.0, 1.0, 5.0, 80.0, 320.0), 0.25


def leaps(
    machine: Machine, state: SparseState, S: Array, Q: Array, V: Array, least: Array
) -> Iterator[SparseState]:
    """Yield models with one more function that may have a higher evidence than ``state``.

    S, Q, least (m,) and V (p, m) are those of a :class:`Scan`.
    """
    free = np.logical_and(least >= 0.0, least < S)
    ratio = np.where(free, Q**2 / np.where(free, S, 1.0), 0.0)
    which = np.flatnonzero(ratio > NEAR)
    T = state.factor.back(np.ascontiguousarray(V[: len(state.mu), which]))
    widest, read = np.zeros(len(which)), machine.design.some(which)
    for first in range(0, len(state.b), ROWS):  # so many that they stay in the cache
        rows = slice(first, first + ROWS)
        moved = read(rows)
        moved -= state.F[:, rows].T @ T
        np.maximum(widest, np.maximum(moved.max(axis=0), -moved.min(axis=0)), out=widest)
    lowest = least_precision(machine)
    for i in which[np.abs(Q[which]) / S[which] * widest > FAR]:
        if ratio[i] > 1.0:
            yield with_one(machine, state, i, max(TIMES * S[i] / (ratio[i] - 1.0), lowest))
        for width in WIDTHS:
            new = with_one(machine, state, i, width * lowest)
            yield new
            if ratio[i] <= 1.0 and new.evidence < state.evidence - WORSE:
                break


def with_one(machine: Machine, state: SparseState, i: int, alpha: float) -> SparseState:
    """Return the model with candidate i as well, of precision alpha."""
    prior = np.append(state.prior, alpha)
    return machine.evaluate((*state.active, int(i)), prior, state.beta, state)
