"""Gaussian averages of any one-latent loss, and their derivatives, by split Gauss-Legendre rules.

Gauss-Hermite fails for kinks and for latent deviations beyond the loss's own width. Here the line
is cut into panels at the kinks, at multiples of the latent standard deviation and of the loss's
width, and each panel gets 12 nodes: to 1e-9 for latent variances from 1e-4 to 1e4.

A Newton step on the variational Gaussian also needs the third and fourth derivatives of E[g] in m
(the second is twice the first in v, the heat equation). Theory (A3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.losses.numbers.special import LOG_2PI, exp, normal_pdf

if TYPE_CHECKING:
    from mercer.losses.base import Loss

NODES, WEIGHTS = (np.asarray(a) for a in np.polynomial.legendre.leggauss(12))
REACH = 8.6  # the Gaussian mass beyond is 1e-17
STEPS = np.array([-REACH, -5.5, -3.2, -1.5, 0.0, 1.5, 3.2, 5.5, REACH])
BLOCK = 64  # rows worked on at a time: their nodes fit the cache, twice as fast as 2048
Triple = tuple[Array, Array, Array]


def by_rows(
    work: Callable[[Array, Array, Array], tuple[Array, ...]], y: Array, m: Array, v: Array
) -> tuple[Array, ...]:
    """Broadcast y, m, v, call ``work`` on blocks of rows (n,) and give the results their shape."""
    y, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (y, m, v)))
    check_variance(v)
    flat = [a.reshape(-1) for a in (y, m, v)]
    parts = [
        work(*(a[start : start + BLOCK] for a in flat))
        for start in range(0, max(flat[0].size, 1), BLOCK)
    ]
    return tuple(np.concatenate(column).reshape(y.shape) for column in zip(*parts, strict=True))


def check_variance(v: Array) -> None:
    """Refuse a latent variance that is not positive."""
    if np.any(~(v > 0.0)):
        raise ValueError("the latent variance v must be positive")


def average(
    loss: Loss, functions: Callable[[Array, Array], tuple[Array, ...]], y: Array, m: Array, v: Array
) -> tuple[Array, ...]:
    """E[h(y, f)] under f ~ N(m, v) for each h of ``functions(y, f)``; all arguments (n,)."""
    s = np.sqrt(v)
    r, w = _nodes(-REACH * s, REACH * s, s[:, None] * STEPS, *_loss_points(loss, y, m))
    w = w * exp(-0.5 * np.square(r / s[:, None])) / (s * np.sqrt(2 * np.pi))[:, None]
    return tuple(_sum(w, h) for h in functions(y[:, None], m[:, None] + r))


def expected(loss: Loss, y: Array, m: Array, v: Array) -> Triple:
    """E[g], dE/dm and dE/dv, in the form with the smaller rounding error for each row.

    Either the loss is differentiated: dE/dm = E[g'], dE/dv = E[g'']/2, kinks as delta functions
    of g''; or the Gaussian (Stein): E[g (f-m)]/v and E[g ((f-m)^2/v - 1)]/(2v). A loss without
    its own derivatives always takes the second, whose errors grow like 1/v for small v.
    """
    own, start = _own_derivatives(loss), loss.value(y, m)

    def parts(yy: Array, f: Array) -> tuple[Array, ...]:
        g, r = loss.value(yy, f) - start[:, None], f - m[:, None]
        stein = (g, g * r, g * (np.square(r) / v[:, None] - 1.0))
        if not own:
            return stein
        d1, d2, _ = loss.derivatives(yy, f)
        return *stein, np.abs(g), d1, d2, np.abs(d2)

    mean, dm, dv, *rest = average(loss, parts, y, m, v)
    dm, dv = dm / v, dv / (2.0 * v)
    if own:
        size, first, second, bends = rest
        for kink, jump in _jumps(loss, y):
            delta = jump * exp(-np.square(kink - m) / (2 * v)) / np.sqrt(2 * np.pi * v)
            second, bends = second + delta, bends + np.abs(delta)
        better = bends * v <= size
        dm, dv = np.where(better, first, dm), np.where(better, 0.5 * second, dv)
    return start + mean, dm, dv


def tilted(loss: Loss, y: Array, m: Array, v: Array, power: Array | None = None) -> Triple:
    """Return log Z of exp(-g(y, f)) N(f | m, v) and its first two derivatives in m.

    With ``power`` (n,) > 0 g is power g(y, f). The window covers N(m, v) and the mode of the tilted
    density, which may be many standard deviations away. With T the tilted average,

        L' = -T[g'] = T[f - m]/v,    L'' = Var_T[g'] - T[g''] - jumps = (Var_T[f] - v)/v^2;

    each row takes the form with the smaller rounding error, the first for small v (a loss without
    its own derivatives, or one that is a step, always takes the second).
    """
    s, p = np.sqrt(v), np.ones_like(v) if power is None else power
    mode, width = _mode(loss, y, m, v, p)
    away = mode - m
    low, high = np.minimum(away, 0.0) - REACH * s, np.maximum(away, 0.0) + REACH * s
    # panels of growing width from the mode's own width to that of the Gaussian
    growth = (s / width)[:, None] ** np.linspace(0.25, 1.0, 4)
    fixed = np.broadcast_to(STEPS, (len(y), len(STEPS)))
    steps = np.hstack([fixed, REACH * growth, -REACH * growth])
    around = away[:, None] + width[:, None] * steps
    r, w = _nodes(low, high, s[:, None] * STEPS, around, *_loss_points(loss, y, m))
    f = m[:, None] + r
    log_density = -p[:, None] * loss.value(y[:, None], f) - np.square(r) / (2.0 * v[:, None])
    top = np.max(log_density, axis=1, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    w = w * exp(log_density - top[:, None])
    total = w.sum(axis=1)
    safe = np.where(total > 0.0, total, 1.0)
    w = w / safe[:, None]
    with np.errstate(divide="ignore"):
        log_z = np.log(total) + top - 0.5 * (LOG_2PI + np.log(v))
    shift = _sum(w, r)
    spread = _sum(w, np.square(r - shift[:, None]))
    with np.errstate(divide="ignore", invalid="ignore"):  # v^2 = 0: the other form is taken
        first, second = shift / v, (spread - v) / v**2
    if _own_derivatives(loss):
        both = loss.derivatives(y[:, None], f)[:2]
        d1, d2 = (np.where(w > 0.0, p[:, None] * d, 0.0) for d in both)
        mean1, mean2 = _sum(w, d1), _sum(w, d2)
        size = np.abs(mean2) + np.square(mean1)
        other = _sum(w, np.square(d1 - mean1[:, None])) - mean2
        for kink, jump in _jumps(loss, y):
            height = -p * loss.value(y, kink) - np.square(kink - m) / (2.0 * v) - top
            other = other - p * jump * exp(height) / safe
            size = size + p * np.abs(jump) * exp(height) / safe
        exact = (size * v < 1.0) & ~_is_step(loss, y)
        first, second = np.where(exact, -mean1, first), np.where(exact, other, second)
    return log_z, first, second


# ---------------------------------------------------------------------- panels
# Places are measured from m: where v is far below the rounding error of m, f itself has no digits
# left to tell one node from the next.
def _loss_points(loss: Loss, y: Array, m: Array) -> Iterator[Array]:
    """Kinks, and multiples of the loss's width about its centres, each (n, k), less m."""
    yield np.asarray(loss.kinks(y), dtype=np.float64).T - m[:, None]
    width = np.broadcast_to(loss.width(y), y.shape)[:, None]
    reach = np.asarray(loss.reach)
    steps = np.concatenate([-reach[::-1], [0.0], reach])
    for center in np.asarray(loss.centers(y), dtype=np.float64):
        yield (center - m)[:, None] + width * steps


def _nodes(low: Array, high: Array, *points: Array) -> tuple[Array, Array]:
    """Nodes and weights (n, panels * 12) from low to high, cut into panels at the points (n, k)."""
    cuts = np.hstack([low[:, None], high[:, None], *points])
    breaks = np.sort(np.clip(cuts, low[:, None], high[:, None]), axis=1)
    left, right = breaks[:, :-1], breaks[:, 1:]
    used = np.any(right > left, axis=0)  # panels that are empty in every row are left out
    left, right = left[:, used, None], right[:, used, None]
    half = 0.5 * (right - left)
    r = 0.5 * (left + right) + half * NODES
    return r.reshape(len(breaks), -1), (half * WEIGHTS).reshape(len(breaks), -1)


def _sum(w: Array, h: Array) -> Array:
    """sum_q w_q h_q by rows, where a weight of zero silences an infinite h."""
    return np.asarray(np.einsum("nq,nq->n", w, np.where(w > 0.0, h, 0.0)))


def _own_derivatives(loss: Loss) -> bool:
    from mercer.losses.base import Loss

    return type(loss).derivatives is not Loss.derivatives


def _sides(loss: Loss, y: Array) -> Iterator[tuple[Array, Array]]:
    """Each kink (n,), and a step (n,) that leads to its two sides."""
    width = np.broadcast_to(loss.width(y), y.shape)
    for kink in np.asarray(loss.kinks(y), dtype=np.float64):
        yield kink, 1e-10 * width + 1e-14 * np.abs(kink)


def _jumps(loss: Loss, y: Array) -> Iterator[tuple[Array, Array]]:
    """Each kink (n,) with the jump of g' there."""
    for kink, step in _sides(loss, y):
        right, left = loss.derivatives(y, kink + step), loss.derivatives(y, kink - step)
        yield kink, right[0] - left[0] - step * (right[1] + left[1])


def _is_step(loss: Loss, y: Array) -> NDArray[np.bool_]:
    """Whether g itself jumps at a kink, (n,): then its derivatives are not enough."""
    steps = np.zeros(y.shape, dtype=bool)
    for kink, step in _sides(loss, y):
        steps |= np.abs(loss.value(y, kink + step) - loss.value(y, kink - step)) > 1e-6
    return steps


def _mode(loss: Loss, y: Array, m: Array, v: Array, p: Array) -> tuple[Array, Array]:
    """A root of p g'(f) + (f - m)/v (the mode, if g is convex) and the density's width there.

    For convex g it lies between m and m - v p g'(m). It only places panels: a few digits suffice.
    """
    s = np.sqrt(v)
    d1 = p * loss.derivatives(y, m)[0]
    pull = np.clip(-v * np.nan_to_num(d1, nan=0.0, posinf=1e200, neginf=-1e200), -1e8, 1e8)
    low, high = np.minimum(m, m + pull), np.maximum(m, m + pull)
    f = 0.5 * (low + high)
    for _ in range(60):
        d1, d2 = (p * d for d in loss.derivatives(y, f)[:2])
        slope = d1 + (f - m) / v
        low, high = np.where(slope < 0.0, f, low), np.where(slope < 0.0, high, f)
        with np.errstate(over="ignore", invalid="ignore"):
            newton = f - slope / (np.maximum(d2, 0.0) + 1.0 / v)
        inside = (newton > low) & (newton < high)
        moved = np.where(inside, newton, 0.5 * (low + high))
        done = np.abs(moved - f) <= 1e-3 * s / np.sqrt(1.0 + v * np.clip(d2, 0.0, 1e300))
        f = moved
        if np.all(done):
            break
    d2 = np.clip(np.nan_to_num(p * loss.derivatives(y, f)[1]), 0.0, 1e200)
    width = 1.0 / np.sqrt(d2 + 1.0 / v)
    if len(loss.kinks(y)):
        width = np.minimum(width, loss.width(y))
    return f, width


def higher(loss: Loss, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """T3 = d3 E[g]/dm3 and T4 = d4 E[g]/dm4 by quadrature, all arguments (n,).

    The Gaussian is differentiated twice more than the loss (Stein), with r = f - m:

        T3 = E[g'' r]/v,    T4 = E[g'' (r^2/v - 1)]/v,    a slope jump J at kappa as J delta in g''.

    A loss without its own derivatives is averaged itself, T3 = E[g He3(r/s)]/s^3 and
    T4 = E[g He4(r/s)]/s^4 (Hermite polynomials), whose rounding errors grow like s^-4.
    """
    s = np.sqrt(v)
    if not _own_derivatives(loss):
        start = loss.value(y, m)

        def whole(yy: Array, f: Array) -> tuple[Array, ...]:
            g, z = loss.value(yy, f) - start[:, None], (f - m[:, None]) / s[:, None]
            return g * z * (z**2 - 3.0), g * (z**4 - 6.0 * z**2 + 3.0)

        third, fourth = average(loss, whole, y, m, v)
        return third / s**3, fourth / v**2
    level = loss.derivatives(y, m)[1]  # constants average to nothing: less to cancel

    def parts(yy: Array, f: Array) -> tuple[Array, ...]:
        bend, z = loss.derivatives(yy, f)[1] - level[:, None], (f - m[:, None]) / s[:, None]
        return bend * z, bend * (z**2 - 1.0)

    third, fourth = average(loss, parts, y, m, v)
    third, fourth = third / s, fourth / v
    for kink, jump in _jumps(loss, y):
        d3, d4 = delta(kink, m, v)
        third, fourth = third + jump * d3, fourth + jump * d4
    return third, fourth


def delta(kink: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """First and second derivative in m of N(kink | m, v): what a unit jump of slope adds."""
    s = np.sqrt(v)
    z = (kink - m) / s
    density = normal_pdf(z)
    return z * density / v, (np.square(z) - 1.0) * density / (v * s)


def step(edge: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """First and second derivative in m of P(f > edge): what a unit jump of g'' adds."""
    s = np.sqrt(v)
    z = (edge - m) / s
    density = normal_pdf(z) / s
    return density, z * density / s
