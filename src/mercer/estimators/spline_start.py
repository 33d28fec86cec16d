"""Where the search for the smoothing of counts, labels and outliers begins, and how far it goes."""

from __future__ import annotations

from math import factorial

import numpy as np

from mercer.estimators.spline_rows import SplineRows, merge_rows
from mercer.estimators.spline_smoothing import Curves, choose
from mercer.losses.base import Loss
from mercer.search import Problem


class Start:
    """Where the search begins, and how far it may go: in the user's units.

    A Gaussian spline of the centres of the losses (the logarithm of a count, the target itself)
    says how rough the curve is; labels have no such centre.

    Attributes
    ----------
    order : m.
    noise : variance of the centres about that spline.
    pilot : variance of its process, or None where it is a polynomial.
    wide : variance with which the curve leaves a polynomial by about one over all points.
    bounds : lowest and highest variance of the search.
    """

    def __init__(self, plain: SplineRows, problem: Problem, order: int, loss: Loss) -> None:
        y = problem.y[:, 0]
        center = np.asarray(loss.centers(y)).mean(axis=0)
        self.order, power = order, 2 * order - 1
        reach = float(plain.points[-1] - plain.points[0])
        real = loss.response == "real"
        spread = float(np.var(center)) if real else 1.0
        self.noise = 0.1 * spread or 1.0
        # a deviation of one from the polynomial at the far end
        self.wide = max(spread, 1e-300) * power * factorial(order - 1) ** 2 / reach**power
        self.pilot: float | None = None
        if np.ptp(center) > 0.0:
            rows = merge_rows(problem.points[:, 0], center, problem.weights)
            chosen = choose(rows, order, None, "evidence")
            if chosen.noise > 0.0 and np.isfinite(chosen.log_lam):
                self.noise = chosen.noise * rows.y_scale**2
                log_lam = chosen.log_lam + power * np.log(rows.unit)
                self.pilot = float(self.noise * np.exp(-log_lam))
        weight = 1.0 / self.noise
        if not real:
            weight = float(np.mean(np.abs(loss.derivatives(y, center)[1]))) or 1.0
        low, high = Curves(plain, order).range()
        unit = weight * plain.unit**power
        self.bounds = float(np.exp(-high) / unit), float(np.exp(-low) / unit)

    def scaled(self, loss: Loss) -> Loss:
        """Return a loss given by name, its width at the scale of the noise."""
        if loss.response == "real" and "scale" in loss.domains:
            loss.set_params(scale=float(np.sqrt(self.noise)))
        elif loss.response == "real" and "noise" in loss.domains:
            loss.set_params(noise=float(self.noise))
        return loss
