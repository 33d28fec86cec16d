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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._native import markov
from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.units import Units
from mercer.estimators.spline.checks import LOWEST, check_line
from mercer.estimators.spline.left_out import left_out
from mercer.estimators.spline.strategy import FittedSpline, SplineStrategy
from mercer.inference.base import Report
from mercer.kernels.compose import Scale
from mercer.kernels.splines.line import Spline
from mercer.linalg.spline import tables
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.linalg.spline.states import States, gaps_of, smooth
from mercer.losses.real.gaussian import Gaussian
from mercer.process.spline import SplinePosterior
from mercer.search.one_parameter import highest

LOG_2PI = float(np.log(2.0 * np.pi))
UNRESOLVED = 1e-4  # share of the degrees of freedom by which two ways to them may differ


@dataclass(frozen=True)
class SplineSmoothing:
    """The smoothing that was chosen.

    Attributes
    ----------
    log_lam : in units of the mean gap; may be infinite.
    states : the posterior, for noise of variance one.
    noise : s2, in units of the standardised targets; zero if the targets are a polynomial.
    report : of the search, or None.
    """

    log_lam: float
    states: States
    noise: float
    report: dict[str, Any] | None


class Curves:
    """The criteria as functions of log lam (k,), in units of the mean gap, to be maximised."""

    def __init__(self, rows: SplineRows, order: int) -> None:
        self.rows, self.order = rows, order
        self.gaps = rows.gaps()
        self._rest: float | None = None  # rss of the polynomial

    def _sweep(self, log_lam: Array, slopes: bool) -> tuple[Array, Array, Array]:
        k = len(log_lam)
        logdet, rss, slope = np.empty(k), np.empty(k), np.empty((2, k))
        markov.sweep(
            tables.unit_cholesky(self.order),
            self.gaps,
            self.rows.total,
            self.rows.target,
            np.exp(-0.5 * log_lam),
            logdet,
            rss,
            slope if slopes else None,
        )
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

    def freedom(self, log_lam: float) -> float:
        """Effective degrees of freedom from the slope of the evidence: no leverage is formed."""
        return self.order + 2.0 * float(self._sweep(np.array([log_lam]), True)[2][0, 0])

    def loo(self, log_lam: Array) -> Array:
        """Sum of the leave-one-out log densities at their best scale, up to a constant."""
        return np.array([left_out(self.rows, self.states(u)).profile() for u in log_lam])

    def criterion(self, search: str) -> Callable[[Array], Array]:
        """Return the criterion by name; infinite at its limit if the targets are a polynomial."""
        curve = getattr(self, search)

        def limited(log_lam: Array) -> Array:
            values, limit = curve(log_lam), np.isinf(log_lam)
            exact = np.any(limit) and self.is_polynomial()
            return np.where(limit, np.inf, values) if exact else np.asarray(values)

        return limited

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
        rows = self.rows
        variance = float(np.exp(-log_lam))
        return smooth(rows.points, rows.total, rows.target, self.order, variance, rows.unit)


def log_lam_range(points: Array, unit: float, order: int) -> tuple[float, float]:
    """Return log lam at which neighbours decouple, and at which a polynomial alone is left.

    Of distinct points (n,), ascending, in units of their mean gap ``unit``. The gap that counts is
    one that nine in ten exceed: a few long gaps do not hide the scale of all others. The largest is
    1e3 n (n gaps)^(2m-1).
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
        log_lam, report = highest(
            curves.criterion(search), *log_lam_range(rows.points, rows.unit, order)
        )
        report["at_bounds"] = [f"lam ({end})" for end in report["at_bounds"]]
        report["criterion"] = search
    states = curves.states(log_lam)
    check_resolved(rows, states, curves.freedom(log_lam) if order > 2 else None)
    if curves.is_polynomial():
        noise = 0.0
    elif report is not None and search == "gcv":
        noise = wrss(rows, states) / (rows.count - edf(rows, states))
    elif report is not None and search == "loo":
        noise = left_out(rows, states).scale()
    else:
        noise = (states.rss + rows.within) / (rows.count - order)
    return SplineSmoothing(log_lam, states, float(noise), report)


def check_resolved(rows: SplineRows, states: States, freedom: float | None = None) -> None:
    """Refuse states that rounding has spoiled.

    Information on the k-th derivative over a gap h is as h^k to that on the value. The filter
    keeps both apart, until their squares leave the range of floating-point numbers: then a leverage
    w_i v_i exceeds one. The smoother loses digits before (order 3 and above, a smooth curve over
    gaps a millionfold apart): then the leverages do not sum to the ``freedom`` of the filter.
    """
    leverage = rows.total * states.cov[:, 0]
    fine = bool(np.all(leverage <= 1.0 + 1e-6))  # NaN is not
    if fine and freedom is not None:
        fine = abs(float(leverage.sum()) - freedom) <= UNRESOLVED * freedom
    if not fine:
        gaps = rows.gaps()
        raise ValueError(
            f"the gaps between inputs differ by a factor of {gaps.max() / gaps.min():.1g}, more "
            "than floating-point numbers resolve; fit the parts on both sides of the long gaps "
            "separately, or choose a smaller order"
        )


def edf(rows: SplineRows, states: States) -> float:
    """Trace of the smoother, sum of w_i v_i."""
    return float(rows.total @ states.cov[:, 0])


def wrss(rows: SplineRows, states: States) -> float:
    """Weighted sum of squared residuals of all observations, standardised."""
    return float(rows.total @ (rows.target - states.mean[:, 0]) ** 2) + rows.within


def log_evidence(rows: SplineRows, smoothing: SplineSmoothing, order: int) -> float:
    """Log evidence of the observations, in the user's units; infinite without noise.

    With a flat unit density on the coefficients of (x - x0)^j / j!, j < m.
    """
    states, noise, free = smoothing.states, smoothing.noise, rows.count - order
    if noise == 0.0:
        return np.inf
    value = -0.5 * free * (LOG_2PI + np.log(noise)) - 0.5 * (states.rss + rows.within) / noise
    value -= states.logdet + free * np.log(rows.y_scale)
    return float(value - 0.5 * order * (order - 1) * np.log(rows.unit))


@dataclass(frozen=True)
class GaussianCurve(SplineStrategy):
    """Gaussian noise: exact, in O(n) for every lam."""

    def fit(self, x: Array, y: Array, weights: Array) -> FittedSpline:
        m, power = self.order, 2 * self.order - 1
        rows = merge_rows(x, y, weights)
        check_line(rows.points, rows.unit, rows.count, len(x), m, self.lam)
        log_lam = None
        if self.lam is not None:
            log_lam = float(np.log(self.lam)) - power * float(np.log(rows.unit))
        chosen = choose(rows, m, log_lam, self.search)
        with np.errstate(over="ignore"):
            lam = float(np.exp(chosen.log_lam + power * np.log(rows.unit)))
        lam = lam if self.lam is None else self.lam
        variance = rows.y_scale**2 * chosen.noise
        return FittedSpline(
            posterior=SplinePosterior(rows, chosen.states, chosen.noise),
            loss=Gaussian(noise=chosen.noise),
            stated_loss=Gaussian(noise=variance),
            units=Units(
                np.zeros(1), np.ones(1), np.array([rows.y_shift]), np.array([rows.y_scale])
            ),
            kernel=Scale(Spline(m, float(rows.points[0])), variance / lam),
            basis=PolynomialBasis(m - 1),
            lam=lam,
            edf=edf(rows, chosen.states),
            log_evidence=log_evidence(rows, chosen, m),
            search=chosen.report,
            inference=("Exact", Report(details={"jitter": 0.0})),
            gram="markov",
            counts=(int(np.count_nonzero(weights)), len(rows.points), rows.count),
            extra={"polynomial": not np.isfinite(lam), "mean_gap": rows.unit},
        )
