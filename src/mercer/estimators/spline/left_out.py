"""Rows of a spline left out one at a time, exactly, whatever their leverage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Problem, Solution
from mercer.left_out.cavity import Left
from mercer.left_out.figures import LeftOut
from mercer.linalg.line import MarkovFactor, MarkovGram
from mercer.linalg.spline import SplineRows, States, of_others
from mercer.losses.base import Loss
from mercer.process.spline import SplinePosterior

UNSEEN = 1e12  # variance of a left-out row over the noise's: the others say nothing of it
HANGS = 1e-3  # 1 - leverage below which rows left out are found without that difference


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
    residual, variance = left.residual[:, 0], left.variance
    hangs = left.alone & ~(left.P > HANGS * left.W)  # 1 - leverage has lost digits
    if np.any(hangs):
        mean, spread = of_others(states, W, rows.target)
        residual[hangs] = (y[:, 0] - mean[group])[hangs]
        variance[hangs] = spread[group][hangs] + 1.0
    return SplineLeftOut(residual, variance, own)


def leave_one_out(spline: SplinePosterior, loss: Loss) -> LeftOut:
    """Every row from the others, in the user's units; rows of weight zero from all that count.

    NaN where the others say nothing of a row, which alone determines the curve at its place.
    """
    rows, noise, used = spline.rows, spline.noise_variance, spline.rows.weights > 0.0
    found = left_out(rows, spline.states)
    mean, variance, target = np.empty(len(used)), np.empty(len(used)), rows.inside(rows.y)
    mean[used], variance[used] = target[used] - found.residual, found.variance
    # a process that is rough beside the noise, as where it interpolates, says little of any row
    usual = max(1.0, float(np.median(np.abs(found.variance)))) if len(found.variance) else 1.0
    lost = ~((variance > 0.0) & (variance < UNSEEN * usual)) & used
    mean[lost] = variance[lost] = np.nan
    value, spread = spline.states.derivative(rows.x[~used])
    mean[~used], variance[~used] = value, np.asarray(spread) + 1.0
    variance *= noise
    with np.errstate(divide="ignore", invalid="ignore"):
        density = -0.5 * (np.log(2.0 * np.pi * variance) + (target - mean) ** 2 / variance)
    if noise == 0.0:
        density[:] = np.inf  # a polynomial to rounding: every row is foretold
    mean, variance = mean * rows.y_scale + rows.y_shift, variance * rows.y_scale**2
    return LeftOut(rows.weights, mean, variance, density - np.log(rows.y_scale))
