"""What a smoothing spline refuses, each with the remedy.

Whether a curve with free polynomials exists: losses that a polynomial can decrease without bound.

If some polynomial p of degree < m is positive only where the loss does not mind f = +infinity and
negative only where it does not mind f = -infinity, then f + t p is better the larger t, and there
is neither a mode nor an evidence. Labels that p separates are the known case; counts that are zero
but for the places where p is zero are another (GPML 6.2 with a null space).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import inference as inferences
from mercer._native import markov
from mercer.core.arrays import Array
from mercer.inference.base import Inference
from mercer.inference.mode.prox import has_kinks
from mercer.losses.base import Loss

SEARCHES = ("evidence", "gcv", "loo")
LOWEST = -300.0  # of log lam over the mean gap's power: the filter squares exp(150)
FAR = 600.0  # where a loss is as good as at infinity; e^FAR is still a number
LEVEL = 1e-12  # a slope below this one is none


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


def check_line(
    points: Array, gap: float, count: float, given: int, m: int, lam: float | None
) -> None:
    """Refuse too few points, and inputs or lam beyond the range of floating-point numbers.

    ``points`` (n,) are the distinct inputs, ``gap`` their mean gap, ``count`` the total weight of
    the ``given`` rows.
    """
    n = len(points)
    if n < m:
        raise ValueError(
            f"Found {given} sample(s) with {n} distinct input(s): a spline of order {m} "
            f"needs {m}; choose a smaller order or give more rows"
        )
    if not count > m:
        raise ValueError(
            f"Found {given} sample(s) of total weight {count:g} for {m} polynomial "
            "coefficients: nothing is left to learn the noise from; give more rows or a smaller "
            "order (weights count rows: give precisions a mean of one)"
        )
    unit = (2 * m - 1) * float(np.log(gap))
    if abs(unit) > 690.0:
        raise ValueError(
            f"the mean gap of the inputs is {gap:.3g}: its power {2 * m - 1}, the unit of "
            "lam, leaves the range of floating-point numbers; give x in other units"
        )
    if lam is not None and np.log(lam) - unit < LOWEST:
        raise ValueError(
            f"lam={lam:.3g} is less than exp({LOWEST:g}) times the power {2 * m - 1} of the mean "
            f"gap {gap:.3g}: too small to be told from zero; give a larger lam"
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


def check_open(report: dict[str, Any]) -> None:
    """Refuse derivatives and integrals of a periodic curve, which keeps no states."""
    if "period" in report:
        raise ValueError(
            "a periodic spline gives values, deviations and draws, no derivatives or integrals; "
            "take differences of predict_latent, or repeat the rows over three periods and fit "
            "without period"
        )


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
    reason = why.get(loss.response, "a polynomial decreases the loss without bound")
    raise ValueError(
        f"{reason}: the curve of order {order}, which may add any polynomial of degree "
        f"{order - 1}, has no optimum; choose a smaller order, give more rows, or put a prior on "
        "the polynomial: GPClassifier or GPRegressor with the kernel Spline() + Constant() + "
        "Linear()"
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


def resolve_response(loss: Any, inference: Any) -> tuple[Loss | None, Inference | None]:
    """Return a copy of the loss, and its inference; None twice for Gaussian noise."""
    named = isinstance(loss, str)
    found = Loss.by_name(loss) if named else loss
    if not isinstance(found, Loss):
        raise TypeError(f"loss must be a Loss or the name of one, not {loss!r}")
    if found.offers("quadratic"):
        _check_gaussian(found, named, inference)
        return None, None
    if found.response == "multiclass":
        raise ValueError(
            f"{type(found).__name__} has one curve for each class, and a smoothing spline is one; "
            "use GPClassifier, or one spline for each class"
        )
    method: Any = inference
    if isinstance(inference, str) and inference == "auto":
        method = "ep" if has_kinks(found) else "laplace"
    chosen = inferences.by_name(method, found)
    works = chosen.works_in_linear_time and chosen.has_evidence
    if not (works and {"derivatives", "tilted"} & set(chosen.needs)):
        raise ValueError(
            f"a smoothing spline knows Laplace and EP inference, not {type(chosen).__name__}; use "
            "inference='laplace' or 'ep', or GPRegressor for others"
        )
    chosen.check(found)
    if not found.convex and "tilted" in chosen.needs:
        raise ValueError(
            f"{type(found).__name__} is not convex: EP would need sites of negative precision, "
            "which the O(n) filter does not have; use inference='laplace'"
        )
    if not found.convex and not hasattr(found, "expected_curvature"):
        raise ValueError(
            f"{type(found).__name__} is not convex, and Laplace needs its expected curvature here "
            "(a method expected_curvature() of the loss); use GPRegressor or GPClassifier"
        )
    found = found.__sklearn_clone__()
    if found.response == "binary" and "scale" in found.domains:
        found = found.fix("scale")  # with a flat prior the scale of the curve is the loss's own
    return found, chosen


def _check_gaussian(loss: Loss, named: bool, inference: Any) -> None:
    if "quadratic" not in inferences.by_name(inference, loss).needs:
        raise ValueError(
            f"Gaussian noise needs no approximation: give inference='auto', not {inference!r}"
        )
    mark = loss.mark("noise")
    if not named and (np.ndim(getattr(loss, "noise", 0.0)) or mark.fixed or mark.bounds):
        raise ValueError(
            "a smoothing spline finds the noise together with lam; for noise that is known give "
            "sample_weight = 1 / noise for each row, or use GPRegressor with the kernel Spline() "
            "and a basis"
        )


def labels(y: Array) -> Array:
    """Return labels 0 and 1, or -1 and +1, as -1 and +1."""
    y = np.asarray(y, dtype=np.float64)
    if np.all((y == 0.0) | (y == 1.0)):
        return np.where(y == 1.0, 1.0, -1.0)
    if np.all(np.abs(y) == 1.0):
        return y
    raise ValueError(
        "a binary loss needs the labels 0 and 1 (or -1 and +1): encode the two classes so, or use "
        "GPClassifier, which takes any labels"
    )


def check_period(period: Any, search: Any, loss: Any) -> float:
    """Return the period > 0, or refuse what a periodic spline cannot do."""
    fine = isinstance(period, (int, float, np.integer, np.floating)) and period > 0.0
    if not fine or not np.isfinite(period) or isinstance(period, bool):
        raise ValueError(f"period must be a positive number or None, got {period!r}")
    if search == "loo":
        raise ValueError("a periodic spline has search='evidence' or 'gcv', not 'loo'")
    if loss is not None:
        raise ValueError(
            f"a periodic spline has Gaussian noise, and the loss is {type(loss).__name__}; use "
            "GPRegressor or GPClassifier with the kernel PeriodicSpline(period).fix('period')"
        )
    return float(period)
