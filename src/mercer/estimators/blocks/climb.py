"""Hyperparameters and inducing points from the bound of all rows: two passes an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.inducing import TOL
from mercer.estimators.shared.parameters import Draw
from mercer.estimators.shared.parts import Parts
from mercer.inference import EP
from mercer.inference.base import Inference, Problem, Report, Solution
from mercer.inference.blocks.prepared import BlockSolution, Prepared
from mercer.kernels.base import Gradient, Kernel
from mercer.linalg.blocks.checkpoint import Checkpointed
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.gram import Gram
from mercer.linalg.representation import Points
from mercer.losses.base import Loss
from mercer.search import EvidenceCriterion, Optimize, Space
from mercer.search.criteria.evidence import ASTRAY


def staged(engine: Engine, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``make`` returns; where a checkpoint is kept, it is made once for all times."""
    return engine.stage(name, make) if isinstance(engine, Checkpointed) else make()


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
    if isinstance(inference, EP):
        from mercer.inference.blocks.sweeps import ep

        return ep(engine, prepared, kernel, loss, Z, **ends)
    if inference.has_evidence:
        from mercer.inference.blocks.sites import variational

        return variational(engine, prepared, kernel, loss, Z, **ends, start=start)
    from mercer.inference.blocks.landmarks import mode

    return mode(engine, prepared, kernel, loss, Z, **ends)


class BlockCriterion(EvidenceCriterion):
    """The bound of all rows, as a function of the parameters and of the points.

    ``problem`` is that of the sample, which says how the search tells of its progress. The last
    posterior is where the next begins: passes saved for each evaluation. With a checkpoint an
    evaluation is one state, value and gradient, and two posteriors are kept in turn: whenever the
    fit ends, the one that the next evaluation begins from is there.
    """

    def __init__(
        self, space: Space, problem: Problem, inference: Inference, on: tuple[Engine, Prepared]
    ) -> None:
        super().__init__(space, problem, inference)
        self.engine, self.prepared = on
        self.last: BlockSolution | None = None
        self.asked = self.found = 0  # evaluations, and those that had an answer

    def evaluate(self, u: Array, start: Solution | None = None) -> tuple[float, Array, Solution]:
        self.asked += 1
        made = staged(self.engine, f"climb-{self.asked:05d}", lambda: self._answer(u))
        self.found += 1
        prior, prior_gradient = self.space.log_prior(u)
        return made["value"] + prior, made["gradient"] + prior_gradient, cast(Solution, None)

    def _answer(self, u: Array) -> dict[str, Any]:
        """Return value and gradient, by passes over all rows."""
        at, on = self.space.parts_at(u), (self.engine, self.prepared)
        kernel, loss = cast(Kernel, at["kernel"]), cast(Loss, at["loss"])
        Z = cast(Points, at["inducing"]).points
        found = solved(*on, self.inference, kernel, loss, Z, self._begin())
        report = found.report
        if not report.converged and report.details.get("residual", 0.0) > ASTRAY:
            raise ValueError(f"the inference did not converge here: {report.message}")
        if "quadratic" in self.inference.needs:
            from mercer.inference.blocks.collapsed import gaussian_slopes as slopes
        else:
            from mercer.inference.blocks.sites import variational_slopes as slopes
        by_part: dict[str, Gradient] = slopes(*on, loss, found, moved=True)
        self._keep(found)
        return {"value": found.value, "gradient": self.space.gradient(u, by_part)}

    def _begin(self) -> BlockSolution | None:
        """Return the posterior of the last evaluation that had one."""
        if self.last is None and self.found and isinstance(self.engine, Checkpointed):
            stored = self.engine.checkpoint.load(f"begin-{self.found % 2}")
            if stored is not None and stored["found"] == self.found:
                none = np.zeros((0, 0))
                self.last = BlockSolution(
                    0.0, none, none.astype(bool), none, None, None, Report(), {"x": stored["x"]}
                )
        return self.last

    def _keep(self, found: BlockSolution) -> None:
        self.last = found
        if isinstance(self.engine, Checkpointed) and "x" in found.state:
            state = {"found": self.found + 1, "x": list(found.state["x"])}
            self.engine.checkpoint.save(f"begin-{(self.found + 1) % 2}", state)

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
