"""Hyperparameters and inducing points from the bound of all rows: two passes an evaluation."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.inducing import TOL
from mercer.estimators.shared.parameters import Draw
from mercer.estimators.shared.parts import Parts
from mercer.inference.base import Inference, Problem, Solution
from mercer.inference.blocks.prepared import BlockSolution, Prepared
from mercer.kernels.base import Gradient, Kernel
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.gram import Gram
from mercer.linalg.representation import Points
from mercer.losses.base import Loss
from mercer.search import EvidenceCriterion, Optimize, Space
from mercer.search.criteria.evidence import ASTRAY


def solved(
    engine: Engine,
    prepared: Prepared,
    inference: Inference,
    kernel: Kernel,
    loss: Loss,
    Z: Array,
    start: BlockSolution | None = None,
) -> BlockSolution:
    """Run the passes of an inference with kernel, loss and points as they are."""
    if "quadratic" in inference.needs:
        from mercer.inference.blocks.collapsed import gaussian

        return gaussian(engine, prepared, kernel, loss, Z)
    ends: dict[str, Any] = {name: inference.get_params()[name] for name in ("tol", "max_iter")}
    if inference.has_evidence:
        from mercer.inference.blocks.sites import variational

        return variational(engine, prepared, kernel, loss, Z, **ends, start=start)
    from mercer.inference.blocks.landmarks import mode

    return mode(engine, prepared, kernel, loss, Z, **ends)


class BlockCriterion(EvidenceCriterion):
    """The bound of all rows, as a function of the parameters and of the points.

    ``problem`` is that of the sample, which says how the search tells of its progress. The last
    posterior is where the next begins: a pass saved for each evaluation.
    """

    def __init__(
        self, space: Space, problem: Problem, inference: Inference, on: tuple[Engine, Prepared]
    ) -> None:
        super().__init__(space, problem, inference)
        self.engine, self.prepared = on
        self.last: BlockSolution | None = None

    def evaluate(self, u: Array, start: Solution | None = None) -> tuple[float, Array, Solution]:
        at = self.space.parts_at(u)
        kernel, loss = cast(Kernel, at["kernel"]), cast(Loss, at["loss"])
        Z = cast(Points, at["inducing"]).points
        on = self.engine, self.prepared
        found = solved(*on, self.inference, kernel, loss, Z, self.last)
        report = found.report
        if not report.converged and report.details.get("residual", 0.0) > ASTRAY:
            raise ValueError(f"the inference did not converge here: {report.message}")
        if "quadratic" in self.inference.needs:
            from mercer.inference.blocks.collapsed import gaussian_slopes as slopes
        else:
            from mercer.inference.blocks.sites import variational_slopes as slopes
        by_part: dict[str, Gradient] = slopes(*on, loss, found, moved=True)
        self.last = found
        prior, prior_gradient = self.space.log_prior(u)
        gradient = self.space.gradient(u, by_part) + prior_gradient
        return found.value + prior, gradient, cast(Solution, None)

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        raise NotImplementedError("rows in blocks have no Gram")


def climbed(
    engine: Engine,
    prepared: Prepared,
    parts: Parts,
    problem: Problem,
    draw: Draw,
    Z: Array,
    rng: np.random.Generator,
) -> tuple[Draw, Array, dict[str, Any]]:
    """Return kernel, loss and points where the bound of all rows is largest, and a report."""
    assert parts.inducing is not None
    assert parts.search is not None
    held = {"kernel": draw.kernel, "loss": draw.loss, "inducing": Points(Z)}
    space = Space(held, parts.limits(draw.kernel))
    progress = parts.search.get_params().get("progress", False)
    search = Optimize(restarts=0, max_iter=parts.inducing.max_iter, tol=TOL, progress=progress)
    criterion = BlockCriterion(space, problem, parts.inference, (engine, prepared))
    [best] = search.run(criterion, space, rng)
    at = space.parts_at(best.u)
    at_bounds = [name for name in best.report["at_bounds"] if not name.startswith("inducing")]
    told = {**best.report, "at_bounds": at_bounds}
    found = Draw(cast(Kernel, at["kernel"]), cast(Loss, at["loss"]))
    return found, cast(Points, at["inducing"]).points, told
