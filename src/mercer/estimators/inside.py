"""Between the user's units and those in which a machine works: the problem, and what is told."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.estimators.table import Table
from mercer.estimators.units import Units
from mercer.process import Loo
from mercer.search import Problem


def problem_inside(table: Table, units: Units, points: Array, H: Array | None) -> Problem:
    """Return the problem at the points (n, d) of a table, which are inside already.

    H (n, k) are the values of the basis there.
    """
    return Problem(
        points,
        units.y_inside(table.mean),
        table.total,
        table.spread / units.y_scale**2,
        H,
        table.group,
        units.y_inside(table.Y[table.keep]),
        table.weights[table.keep],
    )


def loo_outside(mean: Array, variance: Array, density: Array, table: Table, units: Units) -> Loo:
    """Return figures of left-out rows, (N, m) inside, in the user's units."""
    outside = (units.y_outside(mean), variance * units.y_scale**2, density - np.log(units.y_scale))
    first, second, third = ((a[:, 0] if table.flat else a) for a in outside)
    return Loo(first, second, third, table.weights)


def told_units(units: Units) -> dict[str, Any]:
    """Return what was subtracted from each column and target, and by what it was divided."""
    names = ("x_shift", "x_scale", "y_shift", "y_scale")
    return {name: getattr(units, name).tolist() for name in names}


def told_rows(table: Table | Problem, weights: Array) -> dict[str, Any]:
    """Return how many rows of these weights count, at how many points, and for how much."""
    return {
        "used": len(weights),
        "distinct": len(table.points),
        "weight": float(weights.sum()),
    }
