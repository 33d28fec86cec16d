"""How far to go along a Newton step: O(n) for each trial, the step itself cost O(n^3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def longer(
    at: Callable[[float], tuple[float, float, Any]], start: float, value: float, found: Any
) -> tuple[float, Any]:
    """A step t > 1, doubled while the objective falls steeply: the curvature was too large."""
    t = 1.0
    for _ in range(60):
        further, slope, there = at(2.0 * t)
        if not (further < value and slope <= 0.5 * abs(start)):
            break
        t, value, found = 2.0 * t, further, there
        if slope > -0.3 * abs(start):
            break
    return t, found


def shorter(
    at: Callable[[float], tuple[float, float, Any]], start: float, slope: float, value: float
) -> tuple[float, Any]:
    """A step t in (0, 1) where the slope has fallen to a tenth and the objective too.

    Regula falsi (Illinois) on the slope, every third step a bisection; O(n) for each trial.
    """
    low, high, at_low, at_high = 0.0, 1.0, start, slope if np.isfinite(value) else np.inf
    best: tuple[float, float, Any] | None = None
    for k in range(60):
        secant = high - at_high * (high - low) / (at_high - at_low) if at_high > at_low else np.nan
        t = secant if low < secant < high and k % 3 != 2 else 0.5 * (low + high)
        value, slope, found = at(t)
        if value < 0.0 and (best is None or value < best[0]):
            best = value, t, found
        if value < 0.0 and abs(slope) <= 0.1 * abs(start):
            break
        if np.isfinite(value) and slope < 0.0 and value < 0.0:
            low, at_low, at_high = t, slope, 0.5 * at_high
        else:
            high, at_high, at_low = t, slope if np.isfinite(value) else np.inf, 0.5 * at_low
    if best is None:  # rounding: no point on the way is better than where it began
        return 0.0, at(0.0)[2]
    return best[1], best[2]
