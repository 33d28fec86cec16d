"""Zoom: the highest point of a curve of one variable, many values at a time.

For curves that are cheap to evaluate at sixteen places together, as the O(n) spline's are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.arrays import Array

LANES = 16  # values that one call costs no more than one
COARSE = 5.5  # largest distance on the first grid
PEAKS = 4  # that are looked at more closely
FINE = 1.0  # distance from which on only the best of them is
NARROW = 0.1  # distance at which a quartic through five points takes over


def highest(
    curve: Callable[[Array], Array], low: float, high: float
) -> tuple[float, dict[str, Any]]:
    """Return where ``curve`` is highest on [low, high] or at infinity, and a report.

    ``curve`` maps (k,) places, of which one may be infinite, to (k,) values; NaN counts as lowest.
    Where values at the upper end do not fall below the best, the answer is infinity: the limit is
    the simpler model.
    """

    def values(u: Array) -> Array:
        found = np.asarray(curve(u), dtype=np.float64)
        return np.where(np.isnan(found), -np.inf, found)

    many = int(np.ceil((high - low) / (COARSE * LANES))) * LANES
    U = np.linspace(low, high, many - 1)
    first = values(np.append(U, np.inf))
    V, limit, calls = first[:-1], float(first[-1]), many
    report = {"converged": True, "evaluations": calls, "starts": 1, "at_bounds": []}
    if limit == np.inf:
        return np.inf, report | {"at_bounds": ["largest"]}
    while True:
        peaks = _peaks(V)[:PEAKS]
        ends = [(U[max(i - 1, 0)], U[min(i + 1, len(U) - 1)]) for i in peaks]
        wide = [(a, b) for a, b in ends if b - a > 2.0 * FINE]
        if not wide:  # the heights can be compared now: the best alone is looked at more closely
            wide = [(a, b) for a, b in ends[:1] if b - a > 2.0 * NARROW]
        if not wide:
            break
        each = LANES // len(wide)
        more = np.concatenate([np.linspace(a, b, each + 2)[1:-1] for a, b in wide])
        more = _fresh(more, U, 1e-6 * NARROW)
        U, V = np.append(U, more), np.append(V, values(more))
        order = np.argsort(U)
        U, V, calls = U[order], V[order], calls + len(more)
    best = peaks[0]
    report["evaluations"] = calls
    if limit >= V[best] - 1e-12 * max(1.0, abs(V[best])) or best == len(U) - 1:
        return np.inf, report | {"at_bounds": ["largest"]}
    if best == 0:
        return float(U[0]), report | {"at_bounds": ["smallest"]}
    return _top(U, V, best), report


def _fresh(more: Array, U: Array, apart: float) -> Array:
    """Return those of ``more`` that are away from U and from each other."""
    more = np.sort(more)
    more = more[np.diff(more, prepend=-np.inf) > apart]
    return np.asarray(more[np.abs(more[:, None] - U).min(axis=1) > apart])


def _peaks(V: Array) -> list[int]:
    """Places that no neighbour exceeds, highest first."""
    before = np.concatenate([[-np.inf], V[:-1]])
    after = np.concatenate([V[1:], [-np.inf]])
    found = np.flatnonzero((before <= V) & (after <= V))
    return [int(i) for i in found[np.argsort(-V[found], kind="stable")]]


def _top(U: Array, V: Array, best: int) -> float:
    """Highest point of the polynomial through the five nearest values, within the neighbours."""
    low, high = U[best - 1], U[best + 1]
    near = slice(max(best - 2, 0), best + 3)
    u, v = (U[near] - U[best]) / (high - low), V[near] - V[best]
    if not np.all(np.isfinite(v)):
        return float(U[best])
    fit = np.polynomial.Polynomial.fit(u, v, len(u) - 1)
    roots = fit.deriv().roots()
    real = roots[np.abs(roots.imag) < 1e-9].real
    inside = real[
        (real > (low - U[best]) / (high - low)) & (real < (high - U[best]) / (high - low))
    ]
    if not len(inside):
        return float(U[best])
    return float(U[best] + (high - low) * inside[np.argmax(fit(inside))])
