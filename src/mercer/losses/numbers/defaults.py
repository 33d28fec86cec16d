"""Defaults for losses without closed forms: quantities by search, gradients by differences."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mercer.core.arrays import Array

if TYPE_CHECKING:
    from mercer.losses.base import Loss

# central differences of order 8, 8 and 6 on the points f + k h, k = 1 .. 4
_FIRST = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
_SECOND = np.array([8 / 5, -1 / 5, 8 / 315, -1 / 560])
_THIRD = np.array([-61 / 30, 169 / 120, -3 / 10, 7 / 240])


def differences(loss: Loss, y: Array, f: Array) -> tuple[Array, Array, Array]:
    """First three derivatives of ``loss.value`` in f by central differences.

    The step is 1.5 % of the loss's width. For a loss that is smooth on that width the errors are
    about 1e-12, 1e-10 and 1e-7 times the size of the loss; across a kink they mean nothing.
    """
    y, f = np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64)
    h = 0.015 * np.broadcast_to(loss.width(y), np.broadcast_shapes(y.shape, f.shape))
    center = loss.value(y, f)
    d1, d2, d3 = (np.zeros_like(center) for _ in range(3))
    for k in range(4):
        right, left = loss.value(y, f + (k + 1) * h), loss.value(y, f - (k + 1) * h)
        d1 += _FIRST[k] * (right - left)
        d2 += _SECOND[k] * ((right - center) + (left - center))
        d3 += _THIRD[k] * (right - left)
    return d1 / h, d2 / h**2, d3 / h**3


def partials(function: Callable[[Array], Array], f: Array, step: float = 0.015) -> Array:
    """Derivatives of ``function`` in each entry of the last axis of f (..., m), as a last axis.

    ``function`` maps (..., m) to (...) or (..., more); central differences of order 8.
    """
    f = np.asarray(f, dtype=np.float64)
    found = []
    for unit in np.eye(f.shape[-1]):
        slope = 0.0
        for k, weight in enumerate(_FIRST):
            h = (k + 1) * step * unit
            slope = slope + weight * (function(f + h) - function(f - h))
        found.append(slope / step)
    return np.stack(found, axis=-1)


def conjugate(loss: Loss, y: Array, u: Array) -> Array:
    """sup_f u f - g(y, f) for a convex g, by solving g'(y, f) = u; +inf outside its domain.

    Where g' comes within 1e-13 of u without reaching it (u at the edge of the domain) the value 64
    widths out is returned: the limit, for tails that approach their slope exponentially.
    """
    y, u = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.asarray(u, dtype=np.float64))
    shape, y, u = y.shape, y.reshape(-1), u.reshape(-1)
    center = np.asarray(loss.centers(y), dtype=np.float64).mean(axis=0)
    width = np.broadcast_to(loss.width(y), y.shape)

    def excess(f: Array) -> Array:
        return loss.derivatives(y, f)[0] - u

    side = np.where(excess(center) < 0.0, 1.0, -1.0)  # the maximiser lies on this side
    near, far = center.copy(), center + side * width
    open_ = side * excess(far) < 0.0
    edge = center + 64.0 * side * width
    flat = np.abs(excess(edge)) < 1e-13
    for k in range(1, 61):
        if not np.any(open_):
            break
        near = np.where(open_, far, near)
        far = np.where(open_, center + side * width * 2.0**k, far)
        open_ &= side * excess(far) < 0.0
    low, high = np.minimum(near, far), np.maximum(near, far)
    f = 0.5 * (low + high)
    for _ in range(200):
        d1, d2, _ = loss.derivatives(y, f)
        slope = d1 - u
        low, high = np.where(slope < 0.0, f, low), np.where(slope < 0.0, high, f)
        newton = f - slope / np.where(d2 > 0.0, d2, np.inf)
        moved = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
        done = np.abs(moved - f) <= 1e-15 * (np.abs(f) + width)
        f = moved
        if np.all(done | open_ | flat):
            break
    f = np.where(flat, edge, f)
    best = u * f - loss.value(y, f)
    return np.asarray(np.where(open_ & ~flat, np.inf, best)).reshape(shape)


def increasing_root(function: Callable[[Array], Array], start: Array, step: Array) -> Array:
    """The root x (n,) of an increasing function, from a guess and a first step, to 1e-13."""
    low, high = start - step, start + step
    at_low, at_high = function(low), function(high)
    for k in range(1, 1000):
        left, right = at_low > 0.0, at_high < 0.0
        if not np.any(left | right):
            break
        reach = step * 2.0 ** min(k, 900)
        low = np.where(left, start - reach, low)
        high = np.where(right, start + reach, high)
        at_low, at_high = function(low), function(high)
    x, last = 0.5 * (low + high), np.zeros(start.shape)
    for k in range(200):  # regula falsi (Illinois), every third step a bisection
        width = at_high - at_low
        secant = low - at_low * (high - low) / np.where(width > 0.0, width, 1.0)
        inside = (secant > low) & (secant < high) & (width > 0.0) & (k % 3 != 2)
        x = np.where(inside, secant, 0.5 * (low + high))
        at = function(x)
        below, hit = at < 0.0, at == 0.0
        side = np.where(below, -1.0, 1.0)
        kept = np.where(side == last, 0.5, 1.0)  # an end kept twice counts half
        at_high = np.where(below, kept * at_high, at)
        at_low = np.where(below, at, kept * at_low)
        last = side
        low, high = np.where(below | hit, x, low), np.where(below, high, x)
        if np.all(high - low <= 1e-13 * (np.abs(x) + step)):
            break
    return x


def smallest_integer(function: Callable[[Array], Array], q: Array) -> Array:
    """The smallest k = 0, 1, ... with function(k) >= q, for an increasing function."""
    low, high = np.full(q.shape, -1.0), np.zeros(q.shape)
    for _ in range(1000):
        short = function(high) < q
        if not np.any(short):
            break
        low, high = np.where(short, high, low), np.where(short, 2.0 * high + 1.0, high)
    for _ in range(1100):
        middle = np.floor(0.5 * (low + high))
        open_ = (high - low > 1.0) & (middle > low) & (middle < high)
        if not np.any(open_):
            break
        enough = function(np.where(open_, middle, high)) >= q
        high = np.where(open_ & enough, middle, high)
        low = np.where(open_ & ~enough, middle, low)
    return high


STEP = 1e-3  # relative; the error of the fourth-order rule is about STEP^4, rounding 1e-13 / STEP


def slopes(loss: Loss, total: Callable[[Loss], float]) -> dict[str, float | Array]:
    """d total(loss) / d name for each free parameter of the loss, by central differences.

    ``total`` maps a loss to a number that costs O(n), such as the sum of E[g] at fixed moments.
    Fourth order in the parameter; scalars and arrays alike.
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
            at = []
            for step in (h, -h, 2.0 * h, -2.0 * h):
                moved = theta.copy()
                moved[i] += step
                twin = copy.deepcopy(loss)
                twin.set_params(**{path: moved if moved.ndim else float(moved)})
                at.append(total(twin))
            slope[i] = (8.0 * (at[0] - at[1]) - (at[2] - at[3])) / (12.0 * h)
        found[path] = slope if theta.ndim else float(slope)
    return found
