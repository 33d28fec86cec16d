"""Quantiles of y = f + noise for f ~ N(m, v): a table in log v, the roots by Newton.

The quantile is m + r(v): one function of the variance for a loss and a level, analytic in log v in
a strip of half width pi / 2. In panels of log(v / width^2), which lie where they lie whatever rows
are asked for, its polynomial through the Chebyshev points has it to about 1e-11.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.numbers import quadrature
from mercer.losses.numbers.special import exp

if TYPE_CHECKING:
    from mercer.losses.real.base import LocationLoss

PANEL, NODES = 2.0, 20  # width of a panel in log v, and its points
_ANGLE = (np.arange(NODES) + 0.5) * np.pi / NODES
_AT = np.cos(_ANGLE)
_SHARE = (-1.0) ** np.arange(NODES) * np.sin(_ANGLE)  # barycentric weights
MOST = 100  # steps
ROUNDING = 4e-16  # of a distribution function


def offsets(loss: LocationLoss, level: float, v: Array) -> Array:
    """Return r (n,) with P(noise + N(0, v) <= r) = level, for variances v (n,) > 0."""
    unit = float(np.mean(loss.width(np.zeros(1))))
    u = (np.log(v) - 2.0 * np.log(unit)) / PANEL
    panels, place = np.unique(np.floor(u), return_inverse=True)
    if len(v) <= NODES * len(panels):  # the roots themselves cost less
        return root(loss, level, v)
    nodes = panels[:, None] + 0.5 + 0.5 * _AT
    found = root(loss, level, unit**2 * np.exp(PANEL * nodes).ravel()).reshape(nodes.shape)
    away = 2.0 * (u - panels[place] - 0.5)[:, None] - _AT
    hit = away == 0.0
    share = np.where(hit.any(axis=1)[:, None], hit, _SHARE / np.where(hit, 1.0, away))
    return np.asarray((share * found[place]).sum(axis=1) / share.sum(axis=1))


def root(loss: LocationLoss, level: float, v: Array) -> Array:
    """Return the same by Newton steps, held between the last points below and above."""

    def parts(y: Array, f: Array) -> tuple[Array, ...]:
        return loss.conditional_cdf(y, f), exp(-loss.value(y, f))

    average = partial(quadrature.average, loss, parts)
    zero, found = np.zeros(len(v)), np.empty(len(v))
    reach = np.sqrt(v) + loss.width(zero)
    x = _guess(loss, level, v, reach)
    low, high = np.full(len(v), -np.inf), np.full(len(v), np.inf)
    rows = np.arange(len(v))
    for k in range(MOST):
        value, slope = quadrature.by_rows(average, x, zero[rows], v[rows])
        value = value - level
        low, high = np.where(value < 0.0, x, low), np.where(value < 0.0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = x - value / slope
            middle = 0.5 * (low + high)
        out = reach[rows] * 2.0 ** min(k, 900)  # where one side is open still
        middle = np.where(np.isinf(low), high - out, np.where(np.isinf(high), low + out, middle))
        moved = np.where((moved > low) & (moved < high), moved, middle)
        exact = np.abs(value) <= ROUNDING
        done = exact | (np.abs(moved - x) <= 1e-13 * (np.abs(x) + reach[rows]))
        x = np.where(exact, x, moved)
        found[rows[done]] = x[done]
        rows, x, low, high = rows[~done], x[~done], low[~done], high[~done]
        if not len(rows):
            break
    found[rows] = x
    return found


def _guess(loss: LocationLoss, level: float, v: Array, reach: Array) -> Array:
    """Return a start: right where one of the two, noise or Gaussian, is all there is."""
    z = float(special.ndtri(level))
    try:
        own = float(loss.noise_quantile(np.asarray(level)))
    except NotImplementedError:  # a loss of one's own
        return np.asarray(z * reach)
    side = np.sqrt(v) * z
    return np.asarray(np.sign(z) * np.hypot(side, own) if own * z > 0.0 else own + side)
