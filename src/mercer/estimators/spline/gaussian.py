"""How smooth: lam of a smoothing spline by evidence, generalised or plain cross-validation.

Inside, the noise has variance one and the process 1 / lam (in units of the mean gap), the scale s2
of both being known in closed form. With 2 L = log |I + K W| + log |A|, q = y'P y plus the sum of
squares within merged rows, N the number of observations:

    evidence   E = -(N-m)/2 (log 2 pi s2 + 1) - L,           s2 = q / (N-m)     GPML (2.45)
    gcv        -log (N wrss / (N - edf)^2),                  s2 = wrss / (N - edf)
    loo        sum of leave-one-out log densities,           s2 their own best

and edf = m + d 2L/dlog(1/lam), wrss = q + d q/dlog(1/lam), carried along by the filter itself.
Theory (P7), (P8).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mercer import inference as inferences
from mercer._native import markov
from mercer.core.arrays import Array, location_scale
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.machine import of_all_rows
from mercer.estimators.shared.table import build_table
from mercer.estimators.shared.units import Units, standardised_problem
from mercer.estimators.spline.left_out import leave_one_out as leave_one_out
from mercer.estimators.spline.left_out import left_out
from mercer.estimators.spline.thin_plate import forms
from mercer.inference.base import Report
from mercer.kernels.base import Kernel
from mercer.kernels.compose import Scale
from mercer.kernels.operators.splines import PeriodicSpline, Spline
from mercer.left_out.cavity import LOG_2PI, gaussian_figures
from mercer.left_out.figures import LeftOut
from mercer.linalg.spline import (
    SplineRows,
    States,
    check_scale,
    gaps_of,
    merge_rows,
    smooth,
    unit_cholesky,
)
from mercer.losses.base import Loss
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Process
from mercer.process.spline import SplinePosterior
from mercer.search.one_parameter import GCV_BANDS, highest

LOWEST = -300.0  # of log lam over the mean gap's power: the filter squares exp(150)
Observed = tuple[Array, Array, Array]  # x, y, weights (N,)
UNSEEN = 1e-19  # of the power of the narrowest gap: a lam that no digit tells from zero
UNRESOLVED = 1e-4  # share of the degrees of freedom by which two ways to them may differ


@dataclass(frozen=True)
class FittedSpline:
    """A fitted curve, whatever the noise; for the meaning in the user's units see the estimator."""

    posterior: Process  # in the units of the fit
    loss: Loss  # in the units of the fit
    units: Units
    kernel: Kernel  # in the user's units
    basis: PolynomialBasis  # the polynomials without a penalty
    lam: float  # in the user's units; may be infinite
    edf: float
    log_evidence: float  # in the user's units
    search: dict[str, Any] | None  # None if lam was given
    inference: tuple[str, Report]
    gram: str
    counts: tuple[int, int, float]  # rows used, distinct inputs, total weight
    extra: dict[str, Any]  # further entries of the report
    left_out: LeftOut | None = None  # None: computed when it is asked for


def on_line(
    posterior: SplinePosterior,
    loss: Loss,
    lam: float,
    log_evidence: float,
    search: dict[str, Any] | None,
    inference: tuple[str, Report],
) -> FittedSpline:
    """Return a curve that was found by the filter."""
    rows, m = posterior.rows, posterior.states.order
    variance = rows.y_scale**2 * posterior.noise_variance
    count = rows.count if loss.offers("quadratic") else float(rows.weights.sum())
    distinct = 1 + int(np.count_nonzero(np.diff(rows.points)))
    return FittedSpline(
        posterior,
        loss,
        Units(np.zeros(1), np.ones(1), np.array([rows.y_shift]), np.array([rows.y_scale])),
        Scale(Spline(m, float(rows.points[0])), variance / lam),
        PolynomialBasis(m - 1),
        lam,
        float(rows.total @ posterior.states.cov[:, 0]),
        log_evidence,
        search,
        inference,
        "markov",
        (int(np.count_nonzero(rows.weights)), distinct, count),
        {"polynomial": not np.isfinite(lam), "mean_gap": rows.unit},
    )


def check_noise(
    loss: Loss, named: bool, inference: Any, who: str = "smoothing", kernel: str = "Spline()"
) -> None:
    """Refuse an approximation, and noise that is known, to a spline; ``kernel`` would take it."""
    auto = isinstance(inference, str) and inference == "auto"
    if not auto and "quadratic" not in inferences.by_name(inference, loss).needs:
        raise ValueError(
            f"Gaussian noise needs no approximation: give inference='auto', not {inference!r}"
        )
    mark = loss.mark("noise")
    if not named and (np.ndim(getattr(loss, "noise", 0.0)) or mark.fixed or mark.bounds):
        raise ValueError(
            f"a {who} spline finds the noise together with lam; for noise that is known give "
            f"sample_weight = 1 / noise for each row, or use GPRegressor with the kernel {kernel} "
            "and a basis"
        )


def curve(given: Observed, order: int, lam: float | None, search: str) -> FittedSpline:
    """Return the curve for Gaussian noise: exact, in O(n) for every lam."""
    rows = merge_rows(*given)
    if lam == 0.0:
        inside = interpolating(rows, order)
        found = curve(given, order, inside, search)
        return replace(found, lam=0.0, extra=found.extra | {"interpolates_with_lam": inside})
    check_line(rows.points, rows.unit, rows.count, len(rows.x), order, lam)
    power, log_lam = 2 * order - 1, None
    if lam is not None:
        log_lam = float(np.log(lam)) - power * float(np.log(rows.unit))
    chosen = choose(rows, order, log_lam, search)
    if lam is None:
        with np.errstate(over="ignore"):
            lam = float(np.exp(chosen.log_lam + power * np.log(rows.unit)))
    # log evidence in the user's units, with a flat unit density on the coefficients of
    # (x - x0)^j / j!, j < m
    value, noise, states, free = np.inf, chosen.noise, chosen.states, rows.count - order
    if noise > 0.0:
        value = -0.5 * free * (LOG_2PI + np.log(noise)) - 0.5 * (states.rss + rows.within) / noise
        value -= states.logdet + free * np.log(rows.y_scale)
        value -= 0.5 * order * (order - 1) * np.log(rows.unit)
    posterior, exact = SplinePosterior(rows, states, noise), Report(details={"jitter": 0.0})
    loss, report = Gaussian(noise=noise), chosen.report
    return on_line(posterior, loss, lam, float(value), report, ("Exact", exact))


def interpolating(rows: SplineRows, order: int) -> float:
    """Return a lam, in the user's units, that no digit of the curve tells from zero; (6.24).

    Over the narrowest gap h the process moves by h^(2m-1) / lam, far more than a noise of one.
    """
    if rows.within > 0.0:
        raise ValueError(
            "lam=0 asks for a curve through all observations, and some have the same x and "
            "different y; give lam > 0, or None to search for it"
        )
    narrow = float(np.diff(rows.points).min(initial=np.inf))
    return float(UNSEEN * min(narrow, rows.unit) ** (2 * order - 1))


def periodic_curve(
    given: Observed, order: int, lam: float | None, search: str, period: float
) -> FittedSpline:
    """Gaussian noise about a curve that repeats: the penalty is over one period, the level free."""
    x, y, weights = given
    phase = np.mod(x, period)
    table = build_table(phase[:, None], y[:, None], weights, False, True, forms.ARRAYS)
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
    form = forms.AllContrasts(problem, basis, unit, unit.penalty_variance())
    chosen = forms.choose(form, lam, search, period ** (2 * order - 1))
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


class SplineSmoothing(NamedTuple):
    """The smoothing that was chosen."""

    log_lam: float  # in units of the mean gap; may be infinite
    states: States  # the posterior, for noise of variance one
    noise: float  # s2, of the standardised targets; zero if they are a polynomial
    report: dict[str, Any] | None  # of the search


class Curves:
    """The criteria as functions of log lam (k,), in units of the mean gap, to be maximised."""

    def __init__(self, rows: SplineRows, order: int) -> None:
        self.rows, self.order, self.gaps = rows, order, gaps_of(rows.points, rows.unit)
        self._rest: float | None = None  # rss of the polynomial

    def _sweep(self, log_lam: Array, slopes: bool) -> tuple[Array, Array, Array]:
        k, rows = len(log_lam), self.rows
        logdet, rss, slope = np.empty(k), np.empty(k), np.empty((2, k))
        deviation = np.exp(-0.5 * log_lam)
        model = (unit_cholesky(self.order), self.gaps, rows.total, rows.target, deviation)
        markov.sweep(*model, logdet, rss, slope if slopes else None)
        limit = np.isinf(log_lam)
        if np.any(limit):
            self._rest = float(rss[limit][0])
        return logdet, rss, slope

    def evidence(self, log_lam: Array) -> Array:
        """Log evidence at the best scale, up to a constant."""
        logdet, rss, _ = self._sweep(log_lam, False)
        with np.errstate(divide="ignore"):
            scale = np.log(rss + self.rows.within)
        return np.asarray(-0.5 * (self.rows.count - self.order) * scale - logdet)

    def gcv(self, log_lam: Array) -> Array:
        """Return -log of the score of generalised cross-validation."""
        _, rss, slope = self._sweep(log_lam, True)
        wrss = rss + slope[1] + self.rows.within
        left = self.rows.count - self.order - 2.0 * slope[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(left > 0.0, 2.0 * np.log(left) - np.log(wrss), np.nan)

    def loo(self, log_lam: Array) -> Array:
        """Sum of the leave-one-out log densities at their best scale, up to a constant."""
        return np.array([left_out(self.rows, self.states(u)).profile() for u in log_lam])

    def limited(self, search: str, log_lam: Array) -> Array:
        """Return a criterion, infinite at its limit if the targets are a polynomial."""
        values, limit = getattr(self, search)(log_lam), np.isinf(log_lam)
        exact = np.any(limit) and self.is_polynomial()
        return np.where(limit, np.inf, values) if exact else np.asarray(values)

    def is_polynomial(self) -> bool:
        """Whether the targets are a polynomial of degree m - 1 to rounding: none is smoother."""
        if self._rest is None:
            self._sweep(np.array([np.inf]), False)
        assert self._rest is not None
        rows = self.rows
        rounding = 16.0 * np.finfo(float).eps * (1.0 + abs(rows.y_shift) / rows.y_scale)
        return bool(self._rest + rows.within <= rows.count * rounding**2)

    def states(self, log_lam: float) -> States:
        """Return the posterior, for noise of variance one."""
        rows, variance = self.rows, float(np.exp(-log_lam))
        return smooth(rows.points, rows.total, rows.target, self.order, variance, rows.unit)

    def check_resolved(self, leverage: Array, log_lam: float) -> None:
        """Refuse states that rounding has spoiled.

        Information on the k-th derivative over a gap h is as h^k to that on the value. The filter
        keeps both apart, until their squares leave the range of floating-point numbers: then a
        leverage w_i v_i exceeds one. The smoother loses digits before (order 3 and above, a smooth
        curve over gaps a millionfold apart): then the leverages do not sum to the degrees of
        freedom by the slope of the evidence, for which no leverage is formed.
        """
        fine = bool(np.all(leverage <= 1.0 + 1e-6))  # NaN is not
        if fine and self.order > 2:
            slope = self._sweep(np.array([log_lam]), True)[2]
            freedom = self.order + 2.0 * float(slope[0, 0])
            fine = abs(float(leverage.sum()) - freedom) <= UNRESOLVED * freedom
        if not fine:
            factor = self.gaps.max() / self.gaps.min()
            raise ValueError(
                f"the gaps between inputs differ by a factor of {factor:.1g}, more than "
                "floating-point numbers resolve; fit the parts on both sides of the long gaps "
                "separately, or choose a smaller order"
            )


def log_lam_range(points: Array, unit: float, order: int) -> tuple[float, float]:
    """Return log lam at which neighbours decouple, and at which a polynomial alone is left.

    Of distinct points (n,), ascending, in units of their mean gap ``unit``: from the gap that nine
    in ten exceed, as a few long ones do not hide the scale of all others, to 1e3 n (n gaps)^(2m-1).
    """
    n, power, narrow = len(points), 2 * order - 1, 1.0
    if n > 1:
        at = (n - 1) // 10
        narrow = min(1.0, float(np.partition(gaps_of(points, unit), at)[at]))
    low = np.log(1e-4) + power * np.log(narrow)
    return float(max(low, LOWEST)), float(np.log(1e3 * n) + power * np.log(n))


def choose(rows: SplineRows, order: int, log_lam: float | None, search: str) -> SplineSmoothing:
    """Return the best smoothing by ``search``, or that of a given log lam."""
    curves = Curves(rows, order)
    report: dict[str, Any] | None = None
    if log_lam is None:
        ends = log_lam_range(rows.points, rows.unit, order)
        log_lam, report = highest(partial(curves.limited, search), *ends)
        report["at_bounds"] = [f"lam ({end})" for end in report["at_bounds"]]
        report["criterion"] = search
        if search == "gcv":
            report["bands"] = GCV_BANDS
    states = curves.states(log_lam)
    curves.check_resolved(rows.total * states.cov[:, 0], log_lam)
    if curves.is_polynomial():
        noise = 0.0
    elif report is not None and search == "gcv":
        wrss = float(rows.total @ (rows.target - states.mean[:, 0]) ** 2) + rows.within
        noise = wrss / (rows.count - float(rows.total @ states.cov[:, 0]))
    elif report is not None and search == "loo":
        noise = left_out(rows, states).scale()
    else:
        noise = (states.rss + rows.within) / (rows.count - order)
    return SplineSmoothing(log_lam, states, float(noise), report)


def check_line(
    points: Array, gap: float, count: float, given: int, m: int, lam: float | None
) -> None:
    """Refuse too few distinct points of total weight ``count``, and numbers out of range."""
    n, power = len(points), 2 * m - 1
    if n < m:
        raise ValueError(
            f"Found {given} sample(s) with {n} distinct input(s): a spline of order {m} "
            f"needs {m}; choose a smaller order or give more rows"
        )
    if not count > m:
        raise ValueError(
            f"Found {given} sample(s) of total weight {count:g} for {m} polynomial "
            "coefficients: nothing is left to learn the noise from; give more rows or a smaller "
            "order (weights count rows: give precisions a mean of one)"
        )
    unit = power * float(np.log(gap))
    if abs(unit) > 690.0:
        raise ValueError(
            f"the mean gap of the inputs is {gap:.3g}: its power {power}, the unit of "
            "lam, leaves the range of floating-point numbers; give x in other units"
        )
    if lam is not None and np.log(lam) - unit < LOWEST:
        raise ValueError(
            f"lam={lam:.3g} is less than exp({LOWEST:g}) times the power {power} of the mean "
            f"gap {gap:.3g}: too small to be told from zero; give a larger lam"
        )
