"""Smoothing splines of counts, labels and outliers: Laplace or EP on the O(n) filter.

f minimises sum_i w_i g(y_i, f(x_i)) + lam/2 integral (f^(m))^2 with g = -log p(y given f); lam is
1 / variance of the process. lam and the loss's own parameters maximise the evidence.

If some polynomial p of degree < m is positive only where the loss does not mind f = +infinity and
negative only where it does not mind f = -infinity, then f + t p is better the larger t, and there
is neither a mode nor an evidence. Labels that p separates are the known case; counts that are zero
but for the places where p is zero are another (GPML 6.2 with a null space).
"""

from __future__ import annotations

from dataclasses import replace
from math import factorial
from typing import Any, cast

import numpy as np

from mercer import inference as inferences
from mercer.core.arrays import Array
from mercer.estimators.shared.labels import signed_labels
from mercer.estimators.shared.table import Table, build_table
from mercer.estimators.shared.units import no_units, standardised_problem, target_units
from mercer.estimators.spline import gaussian
from mercer.estimators.spline.gaussian import FittedSpline, Observed
from mercer.inference.base import Inference, Problem
from mercer.inference.diffuse import DiffuseGram, diffuse, ratio
from mercer.inference.mode.prox import has_kinks
from mercer.inference.sites.base import cavity
from mercer.kernels.compose import Scale
from mercer.kernels.operators.splines import Spline
from mercer.left_out.cavity import response_moments
from mercer.left_out.figures import LeftOut
from mercer.linalg.gram import Covariance
from mercer.linalg.line import MarkovFactor
from mercer.linalg.spline import SplineRows, mean_gap, merge_rows
from mercer.losses.base import Loss
from mercer.process.spline import SplinePosterior
from mercer.search import EvidenceCriterion, Optimize, Space

MANY = 5000  # points above which the search climbs from one start
DF = (1.0, 1e4)  # bounds of the degrees of freedom of Student's t
NEAR = 1e-4  # of log evidence: what the polynomial may lack and is still preferred, being simpler
FAR = 600.0  # where a loss is as good as at infinity; e^FAR is still a number
LEVEL = 1e-12  # a slope below this one is none


def resolve_inference(loss: Loss, given: Any, search: str, period: float | None) -> Inference:
    """Return the inference for a loss other than Gaussian noise, or refuse what goes with it."""
    name = type(loss).__name__
    if loss.response == "multiclass":
        raise ValueError(
            f"{name} has one curve for each class, and a smoothing spline is one; "
            "use GPClassifier, or one spline for each class"
        )
    if isinstance(given, str) and given == "auto":
        given = "ep" if has_kinks(loss) else "laplace"
    chosen = inferences.by_name(given, loss)
    works = chosen.works_in_linear_time and chosen.has_evidence
    if not (works and {"derivatives", "tilted"} & set(chosen.needs)):
        raise ValueError(
            f"a smoothing spline knows Laplace and EP inference, not {type(chosen).__name__}; use "
            "inference='laplace' or 'ep', or GPRegressor for others"
        )
    chosen.check(loss)
    if not loss.convex and "tilted" in chosen.needs:
        raise ValueError(
            f"{name} is not convex: EP would need sites of negative precision, "
            "which the O(n) filter does not have; use inference='laplace'"
        )
    if not loss.convex and not hasattr(loss, "expected_curvature"):
        raise ValueError(
            f"{name} is not convex, and Laplace needs its expected curvature here "
            "(a method expected_curvature() of the loss); use GPRegressor or GPClassifier"
        )
    if period is not None:
        raise ValueError(
            f"a periodic spline has Gaussian noise, and the loss is {name}; use GPRegressor "
            "or GPClassifier with the kernel PeriodicSpline(period).fix('period')"
        )
    if search != "evidence":
        raise ValueError(
            f"search={search!r} is for Gaussian noise, and the loss is {name}; use "
            "search='evidence', or give lam and compare left_out_.log_density"
        )
    return chosen


def check_exists(loss: Loss, x: Array, y: Array, order: int) -> None:
    """Refuse observations y (n,) at x (n,), ascending, that leave the polynomials without bound."""
    if not loss.convex:
        return  # a loss that grows like a logarithm grows; others are refused before
    centers = np.asarray(loss.centers(y))
    with np.errstate(over="ignore"):
        rise = loss.derivatives(y, centers.max(axis=0) + FAR)[0] <= LEVEL
        fall = loss.derivatives(y, centers.min(axis=0) - FAR)[0] >= -LEVEL
    first = np.flatnonzero(np.append(True, x[1:] > x[:-1]))
    up, down = (np.logical_and.reduceat(side, first) for side in (rise, fall))
    if fewest_roots(up, down) >= order:
        return
    why = {
        "binary": f"a polynomial of degree {order - 1} separates the labels",
        "count": "too few places, or places on one side only, have counts above zero",
    }
    reason = why.get(loss.response, "a polynomial decreases the loss without bound")
    raise ValueError(
        f"{reason}: the curve of order {order}, which may add any polynomial of degree "
        f"{order - 1}, has no optimum; choose a smaller order, give more rows, or put a prior on "
        "the polynomial: GPClassifier or GPRegressor with the kernel Spline() + Constant() + "
        "Linear()"
    )


def fewest_roots(rise: Array, fall: Array) -> int:
    """Fewest roots of a polynomial that is > 0 only where ``rise`` and < 0 only where ``fall``.

    Both (n,), at ascending points; it may be zero anywhere. Roots count with their multiplicity:
    labels + + - - + need two.
    """
    kind = rise.astype(np.int64) + 2 * fall
    # two of a run say what a hundred do; places of zero count
    keep = np.ones(len(kind), dtype=bool)
    keep[2:] = (kind[2:] != kind[1:-1]) | (kind[2:] != kind[:-2]) | (kind[2:] == 0)
    cost = [0, 0]  # with the polynomial positive, negative from here on
    for up, down in zip(rise[keep], fall[keep], strict=True):
        before = [min(cost[s], cost[1 - s] + 1) for s in (0, 1)]
        cost = [
            min(before[s] if free else before[s] + 2, before[1 - s] + 1)
            for s, free in ((0, up), (1, down))
        ]
        if min(cost) > 16:
            break
    return int(min(cost))


def curve(
    given: Observed, order: int, lam: float | None, loss: Loss, inference: Inference, named: bool
) -> FittedSpline:
    """Return the curve for any likelihood; the width of a ``named`` loss is set by the data."""
    x, y, weights = given
    y = loss.check_targets(signed_labels(y) if loss.response == "binary" else y)
    table = _table(x, y, weights)
    shift, scale = target_units(loss, table)
    # the polynomials have the level, and the search begins at its own width: a real target is
    # moved only where that costs digits, and divided by a power of two, which costs none
    real = loss.response == "real"
    shift = np.where(real & (np.abs(shift) > 4.0 * scale), shift, 0.0)
    ordinary = not real or 2.0**-10 <= float(scale[0]) <= 2.0**10
    scale = np.ones(1) if ordinary else np.exp2(np.round(np.log2(scale)))
    units = replace(no_units(1, 1), y_shift=shift, y_scale=scale)
    size = float(scale[0])
    if lam is not None:
        lam *= size**2
    points = table.points[:, 0]
    line = points[np.append(True, np.diff(points) > 0.0)]
    gaussian.check_line(line, mean_gap(line), float(table.total.sum()), len(x), order, lam)
    problem = standardised_problem(table, units, table.points, None)
    check_exists(loss, points, problem.y[:, 0], order)
    gram, method = DiffuseGram(table.points, order), diffuse(inference)
    found = CurveSearch(problem, gram, line, method, loss)
    width = {"scale": float(np.sqrt(found.noise)), "noise": float(found.noise)}
    name = next((name for name in width if name in loss.domains), None)
    if named and loss.response == "real" and name is not None:
        loss.set_params(**{name: width[name]})
    elif not named and size != 1.0:
        loss = loss.in_units(1.0 / size)
    (_, variance, loss), search = found.run(lam, loss)
    gram = gram.with_variance(variance)
    solution = method.solve(gram, problem.y, loss, weights=problem.weights)
    inference.warn(solution.report)
    if lam is None:
        lam = 1.0 / variance if variance > 0.0 else np.inf
    # the Gaussian sites, of precision W and mean z, are what the curve passes through
    W, z = solution.W, solution.z[:, 0] + ratio(solution.alpha[:, 0], solution.W)
    rows = SplineRows(x, y, weights, points, z, W, 0.0, float(shift[0]), size, gram.unit)
    posterior = SplinePosterior(rows, cast(MarkovFactor, solution.factor).states(), 1.0)
    value = method.evidence(gram, problem.y, loss, solution).value
    value = units.evidence_in_user_units(value, float(weights.sum()), None, order)
    ended = (type(inference).__name__, solution.report)
    fitted = gaussian.on_line(posterior, loss, lam, value, search, ended)
    return replace(fitted, lam=lam / size**2)  # 1 / lam is a variance, in squared units of y


Best = tuple[float, float, Loss]  # log evidence, variance of the process, zero included, and loss


class CurveSearch:
    """A climb of the evidence in few dimensions, by its gradient; all in the units of the fit.

    A Gaussian spline of the centres of the losses (the logarithm of a count, the target itself)
    says how rough the curve is, and where to begin; labels have no such centre. ``line`` are the
    distinct inputs, ascending.

    Attributes
    ----------
    noise : variance of the centres about that spline.
    wide : variance with which the curve leaves a polynomial by about one over all points.
    first : variance of that spline's process, or ``wide`` where it is a polynomial.
    bounds : lowest and highest variance of the search.
    """

    def __init__(
        self, problem: Problem, gram: DiffuseGram, line: Array, inference: Inference, loss: Loss
    ) -> None:
        self.problem, self.gram, self.inference = problem, gram, inference
        y, order, power = problem.y[:, 0], gram.order, 2 * gram.order - 1
        center = np.asarray(loss.centers(y)).mean(axis=0)
        real = loss.response == "real"
        spread = float(np.var(center)) if real else 1.0
        self.noise = 0.1 * spread or 1.0
        # a deviation of one from the polynomial at the far end
        reach = float(line[-1] - line[0])
        self.wide = max(spread, 1e-300) * power * factorial(order - 1) ** 2 / reach**power
        self.first = self.wide
        if np.ptp(center) > 0.0:
            rows = merge_rows(problem.points[:, 0], center, problem.weights)
            chosen = gaussian.choose(rows, order, None, "evidence")
            if chosen.noise > 0.0 and np.isfinite(chosen.log_lam):
                self.noise = chosen.noise * rows.y_scale**2
                log_lam = chosen.log_lam + power * np.log(rows.unit)
                self.first = float(self.noise * np.exp(-log_lam))
        weight = 1.0 / self.noise
        if not real:
            weight = float(np.mean(np.abs(loss.derivatives(y, center)[1]))) or 1.0
        unit = mean_gap(line)
        low, high = gaussian.log_lam_range(line, unit, order)
        size = weight * unit**power
        self.bounds = float(np.exp(-high) / size), float(np.exp(-low) / size)

    def run(self, lam: float | None, loss: Loss) -> tuple[Best, dict[str, Any] | None]:
        """Return the best for a given lam = 1 / variance, or for all, and the report.

        Where the evidence is as high without any variance, that is the answer.
        """
        if lam is not None:
            return self._climb(1.0 / lam, loss)
        best, report = self._climb(None, loss)
        assert report is not None
        value, variance, loss = best
        gram, p = self.gram.with_variance(0.0), self.problem
        solution = self.inference.solve(gram, p.y, loss, weights=p.weights)
        if self.inference.evidence(gram, p.y, loss, solution).value >= value - NEAR:
            best, again = self._climb(0.0, loss)
            report["at_bounds"] = ["lam (largest)", *_of_loss(again or report, best[2])]
            report["evaluations"] += 1 if again is None else again["evaluations"]
        elif variance >= self.bounds[1] * (1.0 - 1e-5):
            report["at_bounds"] = ["lam (smallest)", *_of_loss(report, loss)]
        return best, report

    def _climb(self, variance: float | None, loss: Loss) -> tuple[Best, dict[str, Any] | None]:
        """Return the best loss for a variance, or the best of both; no report without a search."""
        kernel = Scale(Spline(self.gram.order, float(self.gram.x[0])), self.first)
        if variance is not None:
            kernel = kernel.fix("variance")
        limits = {"kernel__variance": self.bounds, "loss__df": DF}
        space = Space({"kernel": kernel, "loss": loss}, limits)
        if not len(space):
            assert variance is not None
            return (np.nan, variance, loss), None
        if variance is None:
            other = space.start.copy()
            other[0] = np.clip(np.log(self.wide), *space.bounds[0])
            if abs(other[0] - space.start[0]) > 1.0:
                space.suggested.append(other)

        def with_variance(kernel: Covariance, points: Array, *, scratch: bool) -> DiffuseGram:
            found = float(cast(Scale, kernel).variance) if variance is None else variance
            return self.gram.with_variance(found)

        searching = self.inference.searching()
        criterion = EvidenceCriterion(space, self.problem, searching, with_variance)
        search = Optimize(restarts=int(len(self.problem.points) <= MANY))
        result = search.run(criterion, space, np.random.default_rng(0))[0]
        parts = space.parts_at(result.u)
        found = float(cast(Any, parts["kernel"]).variance) if variance is None else variance
        return (result.value, found, cast(Loss, parts["loss"])), dict(result.report)


def _of_loss(report: dict[str, Any], loss: Loss) -> list[str]:
    """Return the parameters of the loss at a bound; that of the kernel is reported as lam."""
    own = {f"loss__{path}" for path, _, _ in loss.differentiable()}
    return [name for name in report["at_bounds"] if name in own]


def _table(x: Array, y: Array, weights: Array) -> Table:
    """Rows sorted along the line, those equal in x and y merged into one of their weight."""
    return build_table(x[:, None], y[:, None], weights, False, True, 0, alike=True)


def leave_one_out(spline: SplinePosterior, loss: Loss) -> LeftOut:
    """Every row from the others; rows of weight zero from all that count.

    Without its share of the site at its point, row i has a latent value N(m, v). NaN where the
    others leave the curve undetermined there.
    """
    rows, states, unused = spline.rows, spline.states, spline.rows.weights == 0.0
    y = rows.inside(rows.y)
    table = _table(rows.x, rows.y, rows.weights)
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
    density[known] = loss.log_predictive(y[known], m[known], v[known])
    scale = rows.y_scale
    mean, variance = mean * scale + rows.y_shift, variance * scale**2
    return LeftOut(rows.weights, mean, variance, density - np.log(scale))
