"""The variance of a spline's process, and its loss, of largest evidence.

Where the search for the smoothing of counts, labels and outliers begins, and how far it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.spline.gaussian import Curves, choose
from mercer.inference.base import Inference
from mercer.inference.diffuse import DiffuseGram
from mercer.kernels.compose import Scale
from mercer.kernels.splines.line import Spline
from mercer.linalg.gram import Covariance
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.losses.base import Loss
from mercer.search import EvidenceCriterion, Optimize, Problem, Space


class SplineStart:
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


MANY = 5000  # points above which the search climbs from one start
DF = (1.0, 1e4)  # bounds of the degrees of freedom of Student's t
NEAR = 1e-4  # of log evidence: what the polynomial may lack and is still preferred, being simpler


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
            report["at_bounds"] = ["lam (largest)", *_others(again or report)]
            report["evaluations"] += 1 if again is None else again["evaluations"]
        elif best.variance >= self.start.bounds[1] * (1.0 - 1e-5):
            report["at_bounds"] = ["lam (smallest)", *_others(report)]
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


def _others(report: dict[str, Any]) -> list[str]:
    """Return the parameters at a bound but for that of the kernel, which is said of lam."""
    return [name for name in report["at_bounds"] if not name.startswith("kernel")]
