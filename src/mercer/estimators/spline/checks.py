"""What a smoothing spline refuses, each with the remedy.

Whether a curve with free polynomials exists: losses that a polynomial can lower for ever.

If some polynomial p of degree < m is positive only where the loss does not mind f = +infinity and
negative only where it does not mind f = -infinity, then f + t p is better the larger t, and there
is neither a mode nor an evidence. Labels that p separates are the known case; counts that are zero
but for the places where p is zero are another (GPML 6.2 with a null space).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array
from mercer.estimators.spline.gaussian import LOWEST, SEARCHES
from mercer.linalg.spline.rows import SplineRows
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


FAR = 600.0  # where a loss is as good as at infinity; e^FAR is still a number
LEVEL = 1e-12  # a slope below this one is none


def check_exists(loss: Loss, x: Array, y: Array, order: int) -> None:
    """Refuse observations y (n,) at x (n,), ascending, that leave the polynomials without bound."""
    if not loss.convex:
        return  # a loss that grows like a logarithm grows; others are refused before
    far = np.full(len(y), FAR)
    with np.errstate(over="ignore"):
        rise = loss.derivatives(y, far)[0] <= LEVEL
        fall = loss.derivatives(y, -far)[0] >= -LEVEL
    if not (np.any(rise) or np.any(fall)):
        return
    new = np.append(True, x[1:] > x[:-1])
    first = np.flatnonzero(new)
    up, down = (np.logical_and.reduceat(side, first) for side in (rise, fall))
    if fewest_roots(up, down) >= order:
        return
    why = {
        "binary": f"a polynomial of degree {order - 1} separates the labels",
        "count": "too few places, or places on one side only, have counts above zero",
    }
    raise ValueError(
        f"{why.get(loss.response, 'a polynomial lowers the loss without end')}: the curve of order "
        f"{order}, which may add any polynomial of degree {order - 1}, has no optimum; choose a "
        "smaller order, give more rows, or put a prior on the polynomial: GPClassifier or "
        "GPRegressor with the kernel Spline() + Constant() + Linear()"
    )


def fewest_roots(rise: Array, fall: Array) -> int:
    """Fewest roots of a polynomial that is > 0 only where ``rise`` and < 0 only where ``fall``.

    Both (n,), at ascending points; it may be zero anywhere. Roots count with their multiplicity.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([1, 1, -1, -1, 1])
    >>> fewest_roots(labels > 0, labels < 0)
    2
    """
    kind = rise.astype(np.int64) + 2 * fall
    keep = np.ones(
        len(kind), dtype=bool
    )  # two of a run say what a hundred do; places of zero count
    keep[2:] = (kind[2:] != kind[1:-1]) | (kind[2:] != kind[:-2]) | (kind[2:] == 0)
    cost = [0, 0]  # with the polynomial positive, negative from here on
    for up, down in zip(rise[keep], fall[keep], strict=True):
        before = [min(cost[s], cost[1 - s] + 1) for s in (0, 1)]
        cost = [
            min(before[s] if free else before[s] + 2, before[1 - s] + 1)
            for s, free in ((0, up), (1, down))
        ]
        if min(cost) > 16:
            break
    return int(min(cost))
