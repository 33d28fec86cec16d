"""Whether a curve with free polynomials exists: losses that a polynomial can lower for ever.

If some polynomial p of degree < m is positive only where the loss does not mind f = +infinity and
negative only where it does not mind f = -infinity, then f + t p is better the larger t, and there
is neither a mode nor an evidence. Labels that p separates are the known case; counts that are zero
but for the places where p is zero are another (GPML 6.2 with a null space).
"""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.losses.base import Loss

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
