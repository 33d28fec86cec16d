"""How a total over a loss moves with the loss's own parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mercer.arrays import Array

if TYPE_CHECKING:
    from mercer.losses.base import Loss

STEP = 1e-3  # relative; the error of the fourth-order rule is about STEP^4, rounding 1e-13 / STEP


def slopes(loss: Loss, total: Callable[[Loss], float]) -> dict[str, float | Array]:
    """d total(loss) / d name for each free parameter of the loss, by central differences.

    ``total`` maps a loss to a number that costs O(n), such as the sum of E[g] at fixed moments: a
    handful of such sums is nothing beside the factorisation that led to the moments. Fourth order
    in the parameter; scalars and arrays alike.

    Examples
    --------
    >>> from mercer.losses import StudentT
    >>> found = slopes(StudentT(), lambda loss: float(loss.value(0.0, 1.0)))
    >>> sorted(found) == sorted(StudentT().free)
    True
    """
    found: dict[str, float | Array] = {}
    for path, domain in loss.free.items():
        theta = np.asarray(loss.get_params()[path], dtype=np.float64)
        room = np.ones_like(theta) if np.isinf(domain.lower) else theta - domain.lower
        if np.isfinite(domain.upper):
            room = np.minimum(room, domain.upper - theta)
        slope = np.empty(theta.shape)
        for i in np.ndindex(theta.shape):
            h = STEP * float(room[i])
            near, far = (_difference(loss, total, path, theta, i, k * h) for k in (1.0, 2.0))
            slope[i] = (8.0 * near - far) / (12.0 * h)
        found[path] = slope if theta.ndim else float(slope)
    return found


def _difference(
    loss: Loss,
    total: Callable[[Loss], float],
    path: str,
    theta: Array,
    i: tuple[int, ...],
    h: float,
) -> float:
    """total at theta_i + h less total at theta_i - h."""
    values = []
    for sign in (1.0, -1.0):
        moved = theta.copy()
        moved[i] += sign * h
        twin = copy.deepcopy(loss)
        twin.set_params(**{path: moved if moved.ndim else float(moved)})
        values.append(total(twin))
    return values[0] - values[1]
