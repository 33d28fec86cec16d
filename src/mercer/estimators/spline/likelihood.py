"""Smoothing splines of counts, labels and outliers: Laplace or EP on the O(n) filter.

f minimises sum_i w_i g(y_i, f(x_i)) + lam/2 integral (f^(m))^2 with g = -log p(y given f); lam is
1 / variance of the process. lam and the loss's own parameters maximise the evidence.

Leave-one-out of a spline with any likelihood, from the cavity of each row; nothing refitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.summary import warn_inference
from mercer.estimators.shared.table import Table, build_table
from mercer.estimators.spline.checks import check_exists, check_rows
from mercer.estimators.spline.search import CurveSearch, SplineStart
from mercer.inference.base import Inference, Solution
from mercer.inference.diffuse import DiffuseGram, diffuse, ratio
from mercer.inference.sites.base import cavity
from mercer.left_out.figures import LeftOut
from mercer.linalg.spline.gram import MarkovFactor
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.linalg.spline.states import States
from mercer.losses.base import Loss
from mercer.process.spline import SplinePosterior
from mercer.search import Problem


@dataclass(frozen=True)
class FittedCurve:
    """A fitted curve.

    Attributes
    ----------
    rows : the rows as given; ``points`` may repeat, ``target`` and ``total`` are mean z and
        precision W of the Gaussian sites.
    states : the posterior.
    loss : with the parameters that were found.
    lam : 1 / variance, in the user's units; may be infinite.
    log_evidence : with a flat unit density on the coefficients of x^j / j!.
    report : of search and inference.
    """

    rows: SplineRows
    states: States
    loss: Loss
    lam: float
    log_evidence: float
    report: dict[str, Any]

    @property
    def edf(self) -> float:
        """Effective degrees of freedom, sum of W_i v_i."""
        return float(self.rows.total @ self.states.cov[:, 0])


def line_table(x: Array, y: Array, weights: Array) -> Table:
    """Rows sorted along the line, those equal in x and y merged into one of their weight."""
    return build_table(x[:, None], y[:, None], weights, False, True, 0, alike=True)


def fit_curve(
    x: Array,
    y: Array,
    weights: Array,
    order: int,
    lam: float | None,
    loss: Loss,
    named: bool,
    inference: Inference,
) -> FittedCurve:
    """Return the curve of order m through targets y (N,), which the loss has checked."""
    plain = merge_rows(x, y, weights)
    check_rows(plain, order, lam)
    table = line_table(x, y, weights)
    check_exists(loss, table.points[:, 0], table.mean[:, 0], order)
    problem = Problem(
        table.points,
        table.mean,
        table.total,
        np.zeros_like(table.mean),
        None,
        table.group,
        table.Y[table.keep],
        table.weights[table.keep],
    )
    start = SplineStart(plain, problem, order, loss)
    if named:
        loss = start.scaled(loss)
    gram = DiffuseGram(table.points, order)
    method = diffuse(inference)
    best, search = CurveSearch(start, problem, gram, method).run(lam, loss)
    variance, found = best.variance, best.loss
    gram = gram.with_variance(variance)
    solution = method.solve(gram, problem.y, found, weights=problem.weights)
    value = method.evidence(gram, problem.y, found, solution).value
    warn_inference(inference, solution.report)
    report = {
        "search": search,
        "inference": {"name": type(inference).__name__, **solution.report.plain()},
    }
    smoothing = lam if lam is not None else (1.0 / variance if variance > 0.0 else np.inf)
    rows = _site_rows(plain, table, gram, solution)
    states = cast(MarkovFactor, solution.factor).states()
    return FittedCurve(rows, states, found, smoothing, value, report)


def _site_rows(
    plain: SplineRows, table: Table, gram: DiffuseGram, solution: Solution
) -> SplineRows:
    f, a, W = solution.z[:, 0], solution.alpha[:, 0], solution.W
    x, z = table.points[:, 0], f + ratio(a, W)
    return SplineRows(plain.x, plain.y, plain.weights, x, z, W, 0.0, 0.0, 1.0, gram.unit)


def leave_one_out_sites(spline: SplinePosterior, loss: Loss) -> LeftOut:
    """Mean, variance and log density (N,) of every row from the others; of labels P(1).

    Without its share of the site at its point, row i has a latent value N(m, v). NaN where the
    others leave the curve undetermined there; rows of weight zero are predicted from all.
    """
    rows, states = spline.rows, spline.states
    table = line_table(rows.x, rows.y, rows.weights)
    g, share = table.group, np.minimum(table.weights[table.keep], 1.0)
    share = share / table.total[g]
    f, var, W = states.mean[:, 0], states.cov[:, 0], rows.total
    a = W * (rows.target - f)
    m, v = np.empty(len(rows.x)), np.empty(len(rows.x))
    with np.errstate(divide="ignore", invalid="ignore"):
        m[table.keep], v[table.keep] = cavity(f[g], var[g], a[g], W[g], share)
    unused = rows.weights == 0.0
    if np.any(unused):
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
