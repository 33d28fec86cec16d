"""Periodic smoothing splines: the kernel of Bernoulli polynomials and a free level; dense."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array, location_scale
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.table import build_table
from mercer.estimators.shared.units import Units, standardised_problem
from mercer.estimators.spline.strategy import FittedSpline, SplineStrategy
from mercer.estimators.thin_plate.forms import AllContrasts, Form, choose
from mercer.inference.base import Problem
from mercer.kernels.splines.cycle import PeriodicSpline
from mercer.left_out.cavity import gaussian_figures, predicted
from mercer.linalg.contrasts.contrasts import Contrasts
from mercer.linalg.spline.rows import check_scale
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Prior

ARRAYS = 7  # n x n: G, its contrasts, eigenvectors, their workspace, the operator


class PeriodicContrasts(AllContrasts):
    """All contrasts of periodic functions of period one: O(n^3) once, then O(n) for every lam."""

    def __init__(self, problem: Problem, basis: PolynomialBasis, order: int) -> None:
        Form.__init__(self, problem, basis, order)
        assert problem.basis is not None
        self.kernel = PeriodicSpline(1.0, order)
        self.G = self.kernel.penalty_variance() * self.kernel(problem.points)
        self.contrasts = Contrasts(self.G, problem.basis, problem.weights)

    def _prior(self, variance: float) -> Prior:
        amplitude = variance * self.kernel.penalty_variance()
        return Prior(amplitude * self.kernel, self.problem.y.shape[1])


@dataclass(frozen=True)
class PeriodicCurve(SplineStrategy):
    """Gaussian noise about a curve that repeats: the penalty is over one period, the level free.

    Attributes
    ----------
    order, lam, search : see :class:`SplineStrategy`.
    period : in the user's units.
    """

    period: float

    def fit(self, x: Array, y: Array, weights: Array) -> FittedSpline:
        order, period = self.order, self.period
        phase = np.mod(x, period)
        table = build_table(phase[:, None], y[:, None], weights, False, True, ARRAYS)
        if len(table.points) < 3 or not table.total.sum() > 1.0:
            raise ValueError(
                f"Found {len(x)} sample(s) with {len(table.points)} distinct place(s) in the "
                "period: a periodic spline needs 3; give more rows, or another period"
            )
        shift, scale = location_scale(table.mean, table.total, table.spread)
        check_scale(float(scale[0]))
        units = Units(np.zeros(1), np.array([period]), shift, scale)
        basis = PolynomialBasis(0)
        points = units.standardised(table.points)
        problem = standardised_problem(table, units, points, basis(points))
        form = PeriodicContrasts(problem, basis, order)
        chosen = choose(form, self.lam, self.search, period ** (2 * order - 1))
        solution, posterior = form.solve(chosen.variance, chosen.lam)
        loss = Gaussian(noise=chosen.variance * chosen.lam)
        value = form.evidence(solution, chosen.variance, chosen.lam)
        total = float(problem.row_weights.sum())
        left, others = gaussian_figures(problem, loss, solution), None
        if np.any(unused := table.weights == 0):
            inside = units.standardised(table.X[unused])
            others = predicted(loss, posterior, inside, units.y_standardised(table.Y[unused]))
        left = left.among(table.keep, others, table.weights)
        amplitude = chosen.variance * form.kernel.penalty_variance() * float(scale[0]) ** 2
        return FittedSpline(
            posterior=posterior,
            loss=loss,
            stated_loss=loss.in_units(float(scale[0])),
            units=units,
            kernel=amplitude * PeriodicSpline(period, order),
            basis=basis,
            lam=float(chosen.report["lam"]),
            edf=float(chosen.report["degrees_of_freedom"]),
            log_evidence=units.evidence_in_user_units(value, total, basis, 1),
            search=chosen.report["search"],
            inference=("Exact", solution.report),
            gram="contrasts",
            counts=(len(problem.rows), len(points), total),
            extra={"period": period}
            | {k: v for k, v in chosen.report.items() if k == "least_noise"},
            left_out=units.left_out_in_user_units(left, table.flat),
        )
