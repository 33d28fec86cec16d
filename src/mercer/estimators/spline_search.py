"""The variance of a spline's process, and its loss, of largest evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mercer.estimators.spline_criterion import SplineCriterion
from mercer.estimators.spline_start import Start
from mercer.inference.base import Inference
from mercer.inference.diffuse import DiffuseGram, diffuse_evidence, solve_diffuse
from mercer.kernels.compose import Scale
from mercer.kernels.spline import Spline
from mercer.losses.base import Loss
from mercer.search import Optimize, Problem, Space

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
        self, start: Start, problem: Problem, gram: DiffuseGram, inference: Inference
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
        solution = solve_diffuse(self.inference, gram, p.y[:, 0], loss, p.weights, None)
        return diffuse_evidence(self.inference, gram, p.y[:, 0], loss, solution)[0].value

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
        criterion = SplineCriterion(
            space, self.problem, self.inference.searching(), self.gram, variance
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
