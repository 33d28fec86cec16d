"""Evidence of a spline with any likelihood, as a function of its variance and the loss's own."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer.arrays import Array
from mercer.inference.base import Inference, Solution
from mercer.inference.diffuse import DiffuseGram, diffuse_evidence, solve_diffuse
from mercer.kernels.base import Gradient
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.search import Criterion, Problem, Space


class SplineCriterion(Criterion):
    """The log evidence of a curve with a flat prior on its polynomials; O(n) for each value.

    Parameters
    ----------
    space : of a kernel ``variance * Spline`` and a loss.
    problem : the rows, along the line.
    inference : Laplace or EP.
    gram : the points.
    variance : of the process, zero included; None is that of the kernel.
    """

    def __init__(
        self,
        space: Space,
        problem: Problem,
        inference: Inference,
        gram: DiffuseGram,
        variance: float | None = None,
    ) -> None:
        super().__init__(space, problem, inference)
        self.gram, self.variance = gram, variance

    def solve(self, u: Array, start: Solution | None = None) -> tuple[Gram, Loss, Solution]:
        """See :meth:`Criterion.solve`."""
        parts = self.space.parts_at(u)
        variance = self.variance
        if variance is None:
            variance = float(cast(Any, parts["kernel"]).variance)
        gram, loss, p = self.gram.with_variance(variance), cast(Loss, parts["loss"]), self.problem
        return gram, loss, solve_diffuse(self.inference, gram, p.y[:, 0], loss, p.weights, start)

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        """See :class:`Criterion`."""
        line = cast(DiffuseGram, gram)
        found, slope = diffuse_evidence(self.inference, line, self.problem.y[:, 0], loss, solution)
        by_variance = slope / line.variance if line.variance > 0.0 else np.nan
        return found.value, {"kernel": {"variance": by_variance}, "loss": found.loss_gradient}
