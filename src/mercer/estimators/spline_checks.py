"""What a smoothing spline refuses, each with the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._native import markov
from mercer.arrays import Array
from mercer.estimators.spline_rows import SplineRows
from mercer.estimators.spline_smoothing import LOWEST, SEARCHES
from mercer.losses.base import Loss


def check_order(order: Any) -> int:
    """Return the order m of the penalty, 1 to 6."""
    fine = isinstance(order, (int, np.integer)) and not isinstance(order, bool)
    if not fine or not 1 <= order <= markov.HIGHEST:
        raise ValueError(
            f"order must be a whole number from 1 to {markov.HIGHEST}, got {order!r}; "
            "2 is the cubic spline"
        )
    return int(order)


def check_lam(lam: Any, search: Any) -> float | None:
    """Return lam > 0, infinity included, or None; refuse an unknown criterion."""
    if search not in SEARCHES:
        names = ", ".join(repr(name) for name in SEARCHES)
        raise ValueError(f"search must be one of {names}, got {search!r}; lam gives a value")
    if lam is None:
        return None
    try:
        value = float(lam)
    except (TypeError, ValueError):
        raise TypeError(f"lam must be a positive number or None, got {lam!r}") from None
    if not value > 0.0:
        raise ValueError(
            f"lam must be positive (infinity is the polynomial), got {lam!r}; for a curve through "
            "the observations give a lam far below the cube of a typical gap"
        )
    return value


def check_rows(rows: SplineRows, m: int, lam: float | None) -> None:
    """Refuse too few points, and inputs or lam beyond the range of floating-point numbers."""
    n = len(rows.points)
    if n < m:
        raise ValueError(
            f"Found {len(rows.x)} sample(s) with {n} distinct input(s): a spline of order {m} "
            f"needs {m}; choose a smaller order or give more rows"
        )
    if not rows.count > m:
        raise ValueError(
            f"Found {len(rows.x)} sample(s) of total weight {rows.count:g} for {m} polynomial "
            "coefficients: nothing is left to learn the noise from; give more rows or a smaller "
            "order (weights count rows: give precisions a mean of one)"
        )
    unit = (2 * m - 1) * float(np.log(rows.unit))
    if abs(unit) > 690.0:
        raise ValueError(
            f"the mean gap of the inputs is {rows.unit:.3g}: its power {2 * m - 1}, the unit of "
            "lam, leaves the range of floating-point numbers; give x in other units"
        )
    if lam is not None and np.log(lam) - unit < LOWEST:
        raise ValueError(
            f"lam={lam:.3g} is less than exp({LOWEST:g}) times the power {2 * m - 1} of the mean "
            f"gap {rows.unit:.3g}: too small to be told from zero; give a larger lam"
        )


def check_derivative(order: Any, m: int, return_std: bool) -> int:
    """Return the order of a derivative, 0 or more; below m if deviations are wanted."""
    if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or order < 0:
        raise ValueError(f"order must be a whole number of 0 or more, got {order!r}")
    if return_std and order >= m:
        raise ValueError(
            f"the curves of a spline of order {m} have {m - 1} derivatives, the mean alone has "
            f"one of order {order}: it has no deviation; leave return_std off, or fit with "
            f"order={int(order) + 1} or more"
        )
    return int(order)


def check_ends(a: Any, b: Any) -> Array:
    """Return the two ends of an integral, (2,)."""
    if np.ndim(a) or np.ndim(b):
        raise ValueError(
            "integral takes one interval, two numbers; for several call it for each of them"
        )
    try:
        ends = np.array([float(a), float(b)])
    except (TypeError, ValueError):
        raise TypeError(f"the ends of an integral must be numbers, got {a!r}, {b!r}") from None
    if not np.all(np.isfinite(ends)):
        raise ValueError(f"an integral needs two finite ends, got {a!r} and {b!r}")
    return ends


def check_evidence(search: Any, loss: Loss) -> None:
    """Refuse cross-validation for a loss that has the evidence alone."""
    if search != "evidence":
        raise ValueError(
            f"search={search!r} is for Gaussian noise, and the loss is {type(loss).__name__}; use "
            "search='evidence', or give lam and compare loo_.log_density"
        )


def check_open(report: dict[str, Any]) -> None:
    """Refuse derivatives and integrals of a periodic curve, which keeps no states."""
    if "period" in report:
        raise ValueError(
            "a periodic spline gives values, deviations and draws, no derivatives or integrals; "
            "take differences of predict_latent, or repeat the rows over three periods and fit "
            "without period"
        )
