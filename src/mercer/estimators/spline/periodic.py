"""Periodic smoothing splines: the kernel of Bernoulli polynomials and a free level; dense."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array, location_scale
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.machine import of_all_rows
from mercer.estimators.shared.table import build_table
from mercer.estimators.shared.units import Units, standardised_problem
from mercer.estimators.spline.gaussian import FittedSpline
from mercer.estimators.thin_plate.forms import ARRAYS, AllContrasts, choose
from mercer.kernels.splines import PeriodicSpline
from mercer.left_out.cavity import gaussian_figures
from mercer.linalg.spline import check_scale
from mercer.losses.real.gaussian import Gaussian


def periodic_curve(
    x: Array, y: Array, weights: Array, order: int, lam: float | None, search: str, period: float
) -> FittedSpline:
    """Gaussian noise about a curve that repeats: the penalty is over one period, the level free."""
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
    points, basis = units.standardised(table.points), PolynomialBasis(0)
    problem = standardised_problem(table, units, points, basis(points))
    unit = PeriodicSpline(1.0, order)
    form = AllContrasts(problem, basis, unit, unit.penalty_variance())
    chosen = choose(form, lam, search, period ** (2 * order - 1))
    solution, posterior = form.solve(chosen.variance, chosen.lam)
    loss = Gaussian(noise=chosen.variance * chosen.lam)
    total = float(problem.row_weights.sum())
    value = form.evidence(solution, chosen.variance, chosen.lam)
    left, report = gaussian_figures(problem, loss, solution), chosen.report
    amplitude = chosen.variance * form.size * float(scale[0]) ** 2
    return FittedSpline(
        posterior,
        loss,
        units,
        amplitude * PeriodicSpline(period, order),
        basis,
        float(report["lam"]),
        float(report["degrees_of_freedom"]),
        units.evidence_in_user_units(value, total, basis, 1),
        report["search"],
        ("Exact", solution.report),
        "contrasts",
        (len(problem.rows), len(points), total),
        {"period": period} | {k: v for k, v in report.items() if k == "least_noise"},
        of_all_rows(left, table, units, loss, posterior),
    )
