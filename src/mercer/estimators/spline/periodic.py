"""Periodic smoothing splines: the kernel of Bernoulli polynomials and a free level; dense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.core.rows import location_scale
from mercer.estimators.shared.table import build_table
from mercer.estimators.shared.units import Units, problem_inside
from mercer.estimators.thin_plate.forms import AllContrasts, Form, choose
from mercer.kernels.base import Kernel
from mercer.kernels.splines.cycle import PeriodicSpline
from mercer.left_out.cavity import predicted
from mercer.left_out.figures import LeftOut
from mercer.left_out.gaussian import gaussian_figures
from mercer.linalg.contrasts.contrasts import Contrasts
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Posterior, Prior
from mercer.search import Problem

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
class Cycle:
    """A fitted periodic spline; attributes as those of the estimator."""

    posterior: Posterior
    loss: Gaussian
    units: Units
    kernel: Kernel
    basis: PolynomialBasis
    lam: float
    log_evidence: float
    left_out: LeftOut
    report: dict[str, Any]


def check_period(period: Any, search: Any, loss: Any) -> float:
    """Return the period > 0, or refuse what a periodic spline cannot do."""
    fine = isinstance(period, (int, float, np.integer, np.floating)) and period > 0.0
    if not fine or not np.isfinite(period) or isinstance(period, bool):
        raise ValueError(f"period must be a positive number or None, got {period!r}")
    if search == "loo":
        raise ValueError("a periodic spline has search='evidence' or 'gcv', not 'loo'")
    if loss is not None:
        raise ValueError(
            f"a periodic spline has Gaussian noise, and the loss is {type(loss).__name__}; use "
            "GPRegressor or GPClassifier with the kernel PeriodicSpline(period).fix('period')"
        )
    return float(period)


def fit_cycle(
    x: Array, y: Array, weights: Array, order: int, lam: float | None, search: str, period: float
) -> Cycle:
    """Return the periodic spline of order m: sum w (y - f)^2 + lam * integral over one period."""
    phase = np.mod(x, period)
    table = build_table(phase[:, None], y[:, None], weights, False, True, ARRAYS)
    if len(table.points) < 3 or not table.total.sum() > 1.0:
        raise ValueError(
            f"Found {len(x)} sample(s) with {len(table.points)} distinct place(s) in the period: a "
            "periodic spline needs 3; give more rows, or another period"
        )
    shift, scale = location_scale(table.mean, table.total, table.spread)
    if not 1e-140 < scale[0] < 1e140:
        raise ValueError(
            f"the targets have deviation {scale[0]:.3g}: their squares leave the range of "
            "floating-point numbers; give y in other units"
        )
    units = Units(np.zeros(1), np.array([period]), shift, scale)
    basis = PolynomialBasis(0)
    points = units.inside(table.points)
    problem = problem_inside(table, units, points, basis(points))
    form = PeriodicContrasts(problem, basis, order)
    chosen = choose(form, lam, search, period ** (2 * order - 1))
    solution, posterior = form.solve(chosen.variance, chosen.lam)
    loss = Gaussian(noise=chosen.variance * chosen.lam)
    value = form.evidence(solution, chosen.variance, chosen.lam)
    total = float(problem.row_weights.sum())
    figures, others = gaussian_figures(problem, loss, solution), None
    if np.any(unused := table.weights == 0):
        inside = units.inside(table.X[unused])
        others = predicted(loss, posterior, inside, units.y_inside(table.Y[unused]))
    left = units.left_out_outside(figures.among(table.keep, others, table.weights), table.flat)
    amplitude = chosen.variance * form.kernel.penalty_variance() * float(units.y_scale[0]) ** 2
    outside = units.loss_outside(loss)
    assert isinstance(outside, Gaussian)
    found = float(chosen.report["lam"])
    report = {
        **chosen.report,
        "standardize": {"on": True, **_listed(units)},
        "rows": {"used": len(problem.rows), "distinct": len(points), "weight": total},
        "inference": {"name": "Exact", **solution.report.plain()},
        "gram": "contrasts",
        "order": order,
        "lam": found if np.isfinite(found) else "infinite",
        "period": period,
    }
    return Cycle(
        posterior,
        loss,
        units,
        amplitude * PeriodicSpline(period, order),
        basis,
        found,
        units.evidence_outside(value, total, basis, 1),
        left,
        report,
    )


def _listed(units: Units) -> dict[str, list[float]]:
    names = ("x_shift", "x_scale", "y_shift", "y_scale")
    return {name: getattr(units, name).tolist() for name in names}
