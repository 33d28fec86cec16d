"""The proximal map of a loss, for whole arrays: z = argmin_z w g(y, z) + (z - c)^2 / (2 kappa).

With it a dual coordinate is maximised exactly: c = f_i - kappa a_i, then a_i = (z - c) / kappa
(Jaakkola & Haussler, Theorem 1). It is closed for straight losses, a safeguarded Newton iteration
for those with derivatives, and a search for the minimum for those that state only their value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.base import Loss

GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
FAR = 2.0**20  # widths from the centre at which a convex loss shows the slopes of its tails


def prox(loss: Loss, y: Array, w: Array, c: Array, kappa: Array) -> tuple[Array, Array, Array]:
    """Return z, a = (z - c) / kappa and the slope dz/dc in [0, 1]; all arrays are (n,).

    -a is a subgradient of w g at z.
    """
    return near(loss, y, w)(c, kappa)


def near(loss: Loss, y: Array, w: Array) -> Callable[[Array, Array], tuple[Array, Array, Array]]:
    """Return the map (c, kappa) -> :func:`prox` at one y and w, for many c."""
    pieces = getattr(loss, "pieces", None)
    if pieces is not None:
        return partial(_straight, pieces(y), w)
    return partial(_smooth if states_derivatives(loss) else _by_value, loss, y, w)


class Bend(NamedTuple):
    """The loss, its kinks rounded off, at some f: -a (n,) is its slope, E (n,) its curvature.

    -a is a subgradient of w g at z.
    """

    a: Array
    E: Array
    z: Array


class Rounded:
    """The loss of n rows, its kinks rounded off: its Moreau envelope of width kappa about a centre.

    e_i(f) = min_z w_i g(y_i, z) + (z - f + kappa_i c_i)^2 / (2 kappa_i)
    """

    def __init__(self, loss: Loss, y: Array, w: Array) -> None:
        self.loss, self.y, self.w = loss, y, w
        self.prox = near(loss, y, w)

    def bend(self, f: Array, kappa: Array | None, center: Array | float) -> Bend:
        """Return slope and curvature at f (n,); without kappa of the loss as it is."""
        with np.errstate(over="ignore", invalid="ignore"):
            if kappa is None:
                d1, d2, _ = self.loss.derivatives(self.y, f)
                return Bend(-self.w * d1, self.w * np.maximum(d2, 0.0), f)
            z, a, slope = self.prox(f - kappa * center, kappa)
            return Bend(a, (1.0 - slope) / kappa, z)


def breadth(loss: Loss, y: Array, w: Array) -> float:
    """Return what is one unit of f: 1 for labels, else the deviation of the targets (n,)."""
    if loss.response != "real":
        return 1.0
    total = w.sum()
    return float(np.sqrt(w @ (y - w @ y / total) ** 2 / total)) or 1.0


def states_derivatives(loss: Loss) -> bool:
    """Whether the loss has derivatives of its own, not differences of its values."""
    return type(loss).derivatives is not Loss.derivatives


def _straight(pieces: Any, w: Array, c: Array, kappa: Array) -> tuple[Array, Array, Array]:
    """On line j the map is c - kappa w b_j, cut off at the knots: a maximum of minima."""
    knots, slopes = pieces
    ends = np.concatenate([knots, np.full((1, len(c)), np.inf)])
    z = np.max(np.minimum(c - kappa * w * slopes, ends), axis=0)
    a = np.clip((z - c) / kappa, -w * slopes[-1], -w * slopes[0])
    at_knot = np.any(z == knots, axis=0)
    return z, a, np.where(at_knot, 0.0, 1.0)


def _smooth(loss: Loss, y: Array, w: Array, c: Array, kappa: Array) -> tuple[Array, Array, Array]:
    """The root of z - c + kappa w g'(z), which rises at least as fast as z."""
    weight = kappa * w

    def excess(z: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            d1, d2, _ = loss.derivatives(y, z)
            return z - c + weight * d1, 1.0 + weight * np.maximum(d2, 0.0)

    low, high = _bracket(lambda z: excess(z)[0], c, np.broadcast_to(loss.width(y), c.shape))
    z = 0.5 * (low + high)
    for _ in range(200):
        value, slope = excess(z)
        low, high = np.where(value < 0.0, z, low), np.where(value < 0.0, high, z)
        newton = z - value / slope
        inside = (newton > low) & (newton < high)
        moved = np.where(value == 0.0, z, np.where(inside, newton, 0.5 * (low + high)))
        done = np.abs(moved - z) <= 4e-16 * (np.abs(z) + np.abs(c))
        z = moved
        if np.all(done):
            break
    with np.errstate(over="ignore", invalid="ignore"):
        d1, d2, _ = loss.derivatives(y, z)
    a = (z - c) / kappa
    rounding = 1e-15 * (np.abs(z) + np.abs(c)) / kappa
    exact = np.abs(a + w * d1) <= 1e-7 * (np.abs(a) + np.abs(w * d1)) + rounding  # no kink there
    slope = np.where(exact, 1.0 / (1.0 + weight * np.maximum(d2, 0.0)), 0.0)
    return z, np.where(exact, -w * d1, a), slope


def _bracket(excess: Callable[[Array], Array], c: Array, step: Array) -> tuple[Array, Array]:
    """Two ends between which the increasing function ``excess`` changes its sign."""
    side = np.where(excess(c) < 0.0, 1.0, -1.0)
    near, far = c.copy(), c + side * step
    for k in range(1, 1000):
        short = side * excess(far) < 0.0
        if not np.any(short):
            break
        near, far = np.where(short, far, near), np.where(short, c + side * step * 2.0**k, far)
    return np.minimum(near, far), np.maximum(near, far)


def _by_value(loss: Loss, y: Array, w: Array, c: Array, kappa: Array) -> tuple[Array, Array, Array]:
    def height(z: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(w * loss.value(y, z) + np.square(z - c) / (2.0 * kappa))

    step = np.minimum(np.broadcast_to(loss.width(y), c.shape).astype(np.float64), np.sqrt(kappa))
    z = lowest(height, c, step)
    # how the minimum moves with c: a difference, zero at a kink
    h = 1e-4 * step
    c = c + h
    up = lowest(height, c, step)
    c = c - h
    low, high = _tails(loss, y)
    return z, np.clip((z - c) / kappa, -w * high, -w * low), np.clip((up - z) / h, 0.0, 1.0)


def _tails(loss: Loss, y: Array) -> tuple[Array, Array]:
    """The slopes (n,) of a convex loss far to the left and to the right, from its values."""
    center, width = _middle(loss, y)
    far = FAR * width
    with np.errstate(over="ignore", invalid="ignore"):
        left = loss.value(y, center - far) - loss.value(y, center - 0.5 * far)
        right = loss.value(y, center + far) - loss.value(y, center + 0.5 * far)
        low, high = -left / (0.5 * far), right / (0.5 * far)
    return np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)


def _middle(loss: Loss, y: Array) -> tuple[Array, Array]:
    center = np.asarray(loss.centers(y), dtype=np.float64).mean(axis=0)
    return center, np.broadcast_to(loss.width(y), center.shape).astype(np.float64)


def lowest(height: Callable[[Array], Array], start: Array, step: Array) -> Array:
    """The minimum (n,) of a convex function by bracketing and golden section, about 1e-9 steps."""
    left, right = start - step, start + step
    middle, at_middle = start.copy(), height(start)
    for k in range(1, 200):
        fall_left, fall_right = height(left) < at_middle, height(right) < at_middle
        if not np.any(fall_left | fall_right):
            break
        shift = np.where(fall_left, left, np.where(fall_right, right, middle))
        reach = step * 2.0**k
        left = np.where(fall_left, shift - reach, np.where(fall_right, middle, left))
        right = np.where(fall_left, middle, np.where(fall_right, shift + reach, right))
        middle, at_middle = shift, height(shift)
    one, two = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
    at_one, at_two = height(one), height(two)
    for _ in range(80):
        lower = at_one <= at_two
        left, right = np.where(lower, left, one), np.where(lower, two, right)
        fresh = np.where(lower, right - GOLDEN * (right - left), left + GOLDEN * (right - left))
        at_fresh = height(fresh)
        one, two = np.where(lower, fresh, two), np.where(lower, one, fresh)
        at_one, at_two = np.where(lower, at_fresh, at_two), np.where(lower, at_one, at_fresh)
    return np.asarray(0.5 * (left + right))


def conjugate(loss: Loss, y: Array, u: Array) -> Array:
    """g*(y, u); where the loss states neither it nor derivatives, from its values alone."""
    pieces = getattr(loss, "pieces", None)
    if pieces is not None:  # u at the end of its domain may lie beyond it by rounding
        slopes = pieces(y)[1]
        inside = np.clip(u, slopes[0], slopes[-1])
        u = np.where(np.abs(u - inside) <= 1e-14 * np.abs(inside), inside, u)
    stated = type(loss).conjugate is not Loss.conjugate
    if stated or states_derivatives(loss):
        star = loss.conjugate(y, u)
        if np.any(np.isinf(star)):  # a curve may end as well, as Huber's does
            star = np.where(np.isinf(star), loss.conjugate(y, u * (1.0 - 1e-14)), star)
        return star
    center, width = _middle(loss, y)
    low, high = _tails(loss, y)
    inside = np.clip(u, low, high)
    slopes = np.abs(np.where(np.isfinite(inside), inside, 0.0))
    outside = np.abs(u - inside) > 1e-9 * (slopes + 1e-3)
    u = np.where(outside, 0.0, inside)

    def height(f: Array) -> Array:
        return np.asarray(loss.value(y, f) - u * f)

    return np.where(outside, np.inf, -height(lowest(height, center, width)))


def has_kinks(loss: Loss) -> bool:
    """Whether the slope of the loss jumps somewhere within 4 widths of its centre.

    The second difference over h, divided by h, halves with h where the loss is smooth and stays
    where its slope jumps.
    """
    if loss.joint:
        return False
    loss = loss.for_new() if loss.of_rows else loss
    y = loss.example_targets(np.random.default_rng(0), 6)
    center = np.asarray(loss.centers(y), dtype=np.float64)
    width = np.broadcast_to(loss.width(y), y.shape)

    def jump(h: float) -> Any:
        grid = np.arange(-4.0, 4.0, h)
        f = center[..., None] + width[:, None] * grid
        step = (width * h)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            second = loss.value(y[:, None], f + step) + loss.value(y[:, None], f - step)
            second = (second - 2.0 * loss.value(y[:, None], f)) / step
        return np.nanmax(np.abs(second))

    coarse, fine = jump(2e-3), jump(1e-3)
    slope = loss.derivatives(y, center[0] + 2.0 * width)[0]
    scale = float(np.max(np.abs(slope))) + 1.0 / width.max()
    return bool(fine > 0.7 * coarse and fine > 1e-2 * scale)
