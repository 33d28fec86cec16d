"""Leave-one-out of a smoothing spline: each row predicted from all others, beta re-estimated.

Exact for Gaussian noise, from the cavity of each row for other losses; nothing is refitted. NaN
where the others say nothing of a row, which alone determines the curve at its place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.table import Table, build_table
from mercer.inference.base import Problem, Solution
from mercer.inference.sites.base import cavity
from mercer.left_out.cavity import Left
from mercer.left_out.figures import LeftOut
from mercer.linalg.spline.gram import MarkovFactor, MarkovGram
from mercer.linalg.spline.states import SplineRows, States
from mercer.losses.base import Loss
from mercer.process.spline import SplinePosterior

# variance of a left-out row over the noise's, beyond which 1 - leverage has no digit left
UNSEEN = 1e12


class SplineLeftOut(NamedTuple):
    """The rows of positive weight left out, for noise of variance one; standardised, (N,) each."""

    residual: Array  # y - leave-one-out mean
    variance: Array  # of the left-out observation, over the noise's
    weights: Array

    def scale(self) -> float:
        """Return the noise variance that maximises the sum of the log densities."""
        return float(self.weights @ (self.residual**2 / self.variance) / self.weights.sum())

    def profile(self) -> float:
        """Sum of the log densities at that noise, up to a constant; NaN where one is undefined."""
        if not np.all(self.variance > 0.0):
            return np.nan
        with np.errstate(divide="ignore"):
            logs = float(self.weights @ np.log(self.variance))
            return float(-0.5 * (self.weights.sum() * np.log(self.scale()) + logs))


def left_out(rows: SplineRows, states: States) -> SplineLeftOut:
    """Leave every row of positive weight out once, by GPML (5.12) in the form of ``Left``."""
    keep = np.flatnonzero(rows.weights > 0.0)
    group, own = np.searchsorted(rows.points, rows.x[keep]), rows.weights[keep]
    gram = MarkovGram(rows.points[:, None], states.order)
    W, z = rows.total, rows.target[:, None]
    y = rows.inside(rows.y[keep])[:, None]
    problem = Problem(gram.points, z, W, np.zeros_like(z), None, group, y, own)
    alpha = W[:, None] * (z - states.mean[:, :1])
    solution = Solution(alpha, W, z, MarkovFactor(gram, W, states), None, W)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = Left(problem, solution, np.ones(len(W)))
    return SplineLeftOut(left.residual[:, 0], left.variance, own)


def leave_one_out(spline: SplinePosterior, loss: Loss) -> LeftOut:
    """Every row from the others, in the user's units; rows of weight zero from all that count.

    ``loss`` is in the units of the fit.
    """
    return _from_noise(spline) if loss.offers("quadratic") else _from_cavities(spline, loss)


def _from_noise(spline: SplinePosterior) -> LeftOut:
    rows, noise, used = spline.rows, spline.noise_variance, spline.rows.weights > 0.0
    found = left_out(rows, spline.states)
    mean, variance = np.empty(len(rows.x)), np.empty(len(rows.x))
    target = rows.inside(rows.y)
    mean[used], variance[used] = target[used] - found.residual, found.variance
    lost = ~((variance > 0.0) & (variance < UNSEEN)) & used
    mean[lost] = variance[lost] = np.nan
    value, spread = spline.states.derivative(rows.x[~used])
    mean[~used], variance[~used] = value, np.asarray(spread) + 1.0
    variance *= noise
    with np.errstate(divide="ignore", invalid="ignore"):
        density = -0.5 * (np.log(2.0 * np.pi * variance) + (target - mean) ** 2 / variance)
    if noise == 0.0:
        density[:] = np.inf  # a polynomial to rounding: every row is foretold
    return LeftOut(
        rows.weights,
        mean * rows.y_scale + rows.y_shift,
        variance * rows.y_scale**2,
        density - np.log(rows.y_scale),
    )


def line_table(x: Array, y: Array, weights: Array) -> Table:
    """Rows sorted along the line, those equal in x and y merged into one of their weight."""
    return build_table(x[:, None], y[:, None], weights, False, True, 0, alike=True)


def _from_cavities(spline: SplinePosterior, loss: Loss) -> LeftOut:
    """Without its share of the site at its point, row i has a latent value N(m, v)."""
    rows, states, unused = spline.rows, spline.states, spline.rows.weights == 0.0
    table = line_table(rows.x, rows.y, rows.weights)
    g, share = table.group, np.minimum(table.weights[table.keep], 1.0)
    f, var, W = states.mean[:, 0], states.cov[:, 0], rows.total
    a = W * (rows.target - f)
    m, v = np.empty(len(rows.x)), np.empty(len(rows.x))
    with np.errstate(divide="ignore", invalid="ignore"):
        m[table.keep], v[table.keep] = cavity(f[g], var[g], a[g], W[g], share / table.total[g])
    X = rows.x[unused][:, None]
    m[unused], v[unused] = spline.mean(X)[:, 0], spline.var(X)
    known = np.isfinite(m) & np.isfinite(v) & (v > 0.0)
    mean, variance, density = (np.full(len(m), np.nan) for _ in range(3))
    mean[known], variance[known] = response_moments(loss, m[known], v[known])
    density[known] = loss.log_predictive(rows.y[known], m[known], v[known])
    return LeftOut(rows.weights, mean, variance, density)


def response_moments(loss: Loss, m: Array, v: Array) -> tuple[Array, Array]:
    """Mean and variance of a new y for latent values N(m, v); of labels those of 0 or 1."""
    found = loss.predict(m, v)
    if loss.response == "binary":
        return found, found * (1.0 - found)
    return found[0], found[1]
