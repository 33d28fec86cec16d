"""What a thin-plate spline refuses, and the units it works in."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.core.rows import group_rows, location_scale
from mercer.estimators.shared.table import Table, check_finite
from mercer.estimators.shared.units import Units
from mercer.linalg.contrasts.inducing import spread_out
from mercer.search import Problem


def check_lam(lam: Any) -> float | None:
    """Return lam >= 0, or None."""
    if lam is None:
        return None
    number = isinstance(lam, (int, float, np.number)) and not isinstance(lam, bool)
    if not number or not lam >= 0.0:
        raise ValueError(f"lam must be a number >= 0, or None to search for it, not {lam!r}")
    return float(lam)


def check_search(search: Any) -> str:
    """Return the name of the criterion."""
    if not isinstance(search, str) or search not in ("evidence", "gcv"):
        raise ValueError(
            f"search must be 'evidence' or 'gcv', not {search!r}; give lam to search for nothing"
        )
    return search


def check_points(table: Table, basis: PolynomialBasis, order: int, names: Any) -> None:
    """Refuse a table that does not determine the polynomials, or shows nothing beside them."""
    n, d = table.points.shape
    k = basis.size(d)
    if n <= k:
        raise ValueError(
            f"a thin-plate spline of order {order} in {d} columns leaves {k} polynomials "
            f"unpenalised, and needs more distinct inputs than that: n_samples={n}, a minimum of "
            f"{k + 1} is required; give more points or fewer columns, or use GPRegressor"
        )
    constant = np.flatnonzero(np.ptp(table.points, axis=0) == 0.0)
    if len(constant):
        j = int(constant[0])
        label = repr(str(names[j])) if names is not None else str(j)
        raise ValueError(
            f"column {label} is constant: how the function varies along it cannot be learned; "
            "drop the column"
        )


def isotropic_units(table: Table, order: int) -> Units:
    """Return units with the same scale for all columns, so that directions stay alike."""
    shift, scale = location_scale(table.points, table.total)
    top = float(scale.max())
    common = top * float(np.sqrt(np.mean((scale / top) ** 2)))
    y_shift, y_scale = location_scale(table.mean, table.total, table.spread)
    d = len(scale)
    sizes = np.concatenate([y_scale**2, [common ** (2 * order - d)]])
    if not np.all((sizes > 1e-140) & (sizes < 1e140)):
        raise ValueError(
            "inputs or targets are so large or so small that their powers leave the range of "
            "floating-point numbers; give them in other units"
        )
    return Units(shift, np.full(d, common), y_shift, y_scale)


def check_knots(knots: Any, lam: float | None, problem: Problem, units: Units, k: int) -> Array:
    """Return the inducing points (p, d) in standardised units: as many rows, or those given."""
    if lam == 0.0:
        raise ValueError(
            "lam=0 interpolates, which a few knots cannot: give lam > 0, or knots=None"
        )
    n, d = problem.points.shape
    if isinstance(knots, (int, np.integer)) and not isinstance(knots, bool):
        if not k < knots <= n:
            raise ValueError(
                f"knots must be more than the {k} unpenalised polynomials and at most the {n} "
                f"distinct points, got {knots}; knots=None is exact"
            )
        return np.ascontiguousarray(problem.points[np.sort(spread_out(problem.points, int(knots)))])
    given = np.asarray(knots)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[1] != d:
        raise ValueError(
            f"knots must be None, a number of points or an array (p, {d}) of points, got "
            f"{type(knots).__name__} of shape {given.shape}"
        )
    points = np.ascontiguousarray(given, dtype=np.float64)
    check_finite(points, "knots")
    if len(points) <= k or len(group_rows(points)[0]) < len(points):
        raise ValueError(
            f"knots must be more than {k} different points: there are {k} unpenalised polynomials"
        )
    return units.standardised(points)
