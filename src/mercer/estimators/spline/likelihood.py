"""Smoothing splines of counts, labels and outliers: Laplace or EP on the O(n) filter.

f minimises sum_i w_i g(y_i, f(x_i)) + lam/2 integral (f^(m))^2 with g = -log p(y given f); lam is
1 / variance of the process. lam and the loss's own parameters maximise the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.units import no_units
from mercer.estimators.spline.checks import check_exists, check_line, labels
from mercer.estimators.spline.gaussian import choose, log_lam_range
from mercer.estimators.spline.left_out import line_table
from mercer.estimators.spline.strategy import FittedSpline, SplineStrategy
from mercer.inference.base import Inference, Problem
from mercer.inference.diffuse import DiffuseGram, diffuse, ratio
from mercer.kernels.compose import Scale
from mercer.kernels.splines.line import Spline
from mercer.linalg.gram import Covariance
from mercer.linalg.spline.gram import MarkovFactor
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.linalg.spline.states import mean_gap
from mercer.losses.base import Loss
from mercer.process.spline import SplinePosterior
from mercer.search import EvidenceCriterion, Optimize, Space

MANY = 5000  # points above which the search climbs from one start
DF = (1.0, 1e4)  # bounds of the degrees of freedom of Student's t
NEAR = 1e-4  # of log evidence: what the polynomial may lack and is still preferred, being simpler


@dataclass(frozen=True)
class LikelihoodCurve(SplineStrategy):
    """Any other likelihood.

    Attributes
    ----------
    order, lam, search : see :class:`SplineStrategy`; the evidence is the only criterion.
    loss, inference : what is observed, and how the posterior is found.
    named : whether the loss was given by name, so that its width is set at the scale of the data.
    """

    loss: Loss
    inference: Inference
    named: bool

    def fit(self, x: Array, y: Array, weights: Array) -> FittedSpline:
        m, loss = self.order, self.loss
        if self.search != "evidence":
            raise ValueError(
                f"search={self.search!r} is for Gaussian noise, and the loss is "
                f"{type(loss).__name__}; use search='evidence', or give lam and compare "
                "left_out_.log_density"
            )
        y = loss.check_targets(labels(y) if loss.response == "binary" else y)
        table = line_table(x, y, weights)
        points, total = table.points[:, 0], float(table.total.sum())
        line = points[np.append(True, np.diff(points) > 0.0)]
        unit = mean_gap(line)
        check_line(line, unit, total, len(x), m, self.lam)
        check_exists(loss, points, table.mean[:, 0], m)
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
        start = SplineStart(line, unit, problem, m, loss)
        method, gram = diffuse(self.inference), DiffuseGram(table.points, m)
        begun = start.scaled(loss) if self.named else loss
        best, search = CurveSearch(start, problem, gram, method).run(self.lam, begun)
        gram = gram.with_variance(best.variance)
        solution = method.solve(gram, problem.y, best.loss, weights=problem.weights)
        self.inference.warn(solution.report)
        lam = self.lam
        if lam is None:
            lam = 1.0 / best.variance if best.variance > 0.0 else np.inf
        states = cast(MarkovFactor, solution.factor).states()
        # the Gaussian sites, of precision W and mean z, are what the curve passes through
        W, z = solution.W, solution.z[:, 0] + ratio(solution.alpha[:, 0], solution.W)
        rows = SplineRows(x, y, weights, points, z, W, 0.0, 0.0, 1.0, gram.unit)
        return FittedSpline(
            posterior=SplinePosterior(rows, states, 1.0),
            loss=best.loss,
            stated_loss=best.loss,
            units=no_units(1, 1),
            kernel=Scale(Spline(m, float(points[0])), 1.0 / lam),
            basis=PolynomialBasis(m - 1),
            lam=lam,
            edf=float(W @ states.cov[:, 0]),
            log_evidence=method.evidence(gram, problem.y, best.loss, solution).value,
            search=search,
            inference=(type(self.inference).__name__, solution.report),
            gram="markov",
            counts=(int(np.count_nonzero(weights)), len(line), float(weights.sum())),
            extra={"polynomial": not np.isfinite(lam), "mean_gap": gram.unit},
        )


class SplineStart:
    """Where the search begins, and how far it may go: in the user's units.

    A Gaussian spline of the centres of the losses (the logarithm of a count, the target itself)
    says how rough the curve is; labels have no such centre. ``line`` (n,) are the distinct inputs,
    ``unit`` is their mean gap.

    Attributes
    ----------
    order : m.
    noise : variance of the centres about that spline.
    pilot : variance of its process, or None where it is a polynomial.
    wide : variance with which the curve leaves a polynomial by about one over all points.
    bounds : lowest and highest variance of the search.
    """

    def __init__(self, line: Array, unit: float, problem: Problem, order: int, loss: Loss) -> None:
        y = problem.y[:, 0]
        center = np.asarray(loss.centers(y)).mean(axis=0)
        self.order, power = order, 2 * order - 1
        reach = float(line[-1] - line[0])
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
        low, high = log_lam_range(line, unit, order)
        scale = weight * unit**power
        self.bounds = float(np.exp(-high) / scale), float(np.exp(-low) / scale)

    def scaled(self, loss: Loss) -> Loss:
        """Return a loss given by name, its width at the scale of the noise."""
        if loss.response == "real" and "scale" in loss.domains:
            loss.set_params(scale=float(np.sqrt(self.noise)))
        elif loss.response == "real" and "noise" in loss.domains:
            loss.set_params(noise=float(self.noise))
        return loss


@dataclass(frozen=True)
class Best:
    """The log evidence, the variance of the process, zero included, and the loss."""

    value: float
    variance: float
    loss: Loss


class CurveSearch:
    """A climb of the evidence in few dimensions, by its gradient.

    Parameters
    ----------
    start : where it begins.
    problem : the rows, along the line.
    gram : their points.
    inference : Laplace or EP.
    """

    def __init__(
        self, start: SplineStart, problem: Problem, gram: DiffuseGram, inference: Inference
    ) -> None:
        self.start, self.problem, self.gram, self.inference = start, problem, gram, inference

    def run(self, lam: float | None, loss: Loss) -> tuple[Best, dict[str, Any] | None]:
        """Return the best for a given lam = 1 / variance, or for all, and the report.

        Where the evidence is as high without any variance, that is the answer.
        """
        if lam is not None:
            return self._climb(1.0 / lam, loss)
        best, report = self._climb(None, loss)
        assert report is not None
        limit = self._value(0.0, best.loss)
        if limit >= best.value - NEAR:
            best, again = self._climb(0.0, best.loss)
            report["at_bounds"] = ["lam (largest)", *_of_loss(again or report, best.loss)]
            report["evaluations"] += 1 if again is None else again["evaluations"]
        elif best.variance >= self.start.bounds[1] * (1.0 - 1e-5):
            report["at_bounds"] = ["lam (smallest)", *_of_loss(report, best.loss)]
        return best, report

    def _value(self, variance: float, loss: Loss) -> float:
        gram, p = self.gram.with_variance(variance), self.problem
        solution = self.inference.solve(gram, p.y, loss, weights=p.weights)
        return self.inference.evidence(gram, p.y, loss, solution).value

    def _climb(self, variance: float | None, loss: Loss) -> tuple[Best, dict[str, Any] | None]:
        """Return the best loss for a variance, or the best of both; no report without a search."""
        start = self.start
        first = start.wide if start.pilot is None else start.pilot
        kernel = Scale(Spline(start.order, float(self.gram.x[0])), first)
        if variance is not None:
            kernel = kernel.fix("variance")
        limits = {"kernel__variance": start.bounds, "loss__df": DF}
        space = Space({"kernel": kernel, "loss": loss}, limits)
        if not len(space):
            assert variance is not None
            return Best(np.nan, variance, loss), None
        if variance is None:
            other = space.start.copy()
            other[0] = np.clip(np.log(start.wide), *space.bounds[0])
            if abs(other[0] - space.start[0]) > 1.0:
                space.suggested.append(other)

        def with_variance(kernel: Covariance, points: Array, *, scratch: bool) -> DiffuseGram:
            found = float(cast(Scale, kernel).variance) if variance is None else variance
            return self.gram.with_variance(found)

        criterion = EvidenceCriterion(
            space, self.problem, self.inference.searching(), with_variance
        )
        search = Optimize(restarts=int(len(self.problem.points) <= MANY))
        result = search.run(criterion, space, np.random.default_rng(0))[0]
        parts = space.parts_at(result.u)
        if variance is None:
            variance = float(cast(Any, parts["kernel"]).variance)
        return Best(result.value, variance, cast(Loss, parts["loss"])), dict(result.report)


def _of_loss(report: dict[str, Any], loss: Loss) -> list[str]:
    """Return the parameters of the loss at a bound; that of the kernel is reported as lam."""
    own = {f"loss__{path}" for path, _, _ in loss.differentiable()}
    return [name for name in report["at_bounds"] if name in own]
