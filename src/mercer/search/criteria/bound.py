"""Kernel and C of a classifier by its leave-one-out error bound, or by the cavity estimate.

Theory (K8), (K9).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Solution
from mercer.kernels.base import Gradient
from mercer.left_out.figures import worst
from mercer.left_out.margins import bounded_margins, left_out_latent
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.search.criteria.evidence import Criterion
from mercer.search.optimize import Result, Search
from mercer.search.space import Space

FIRST, LAST = 2.0, 0.2  # steps of the search, in the coordinate u (log for positive parameters)


class LooBoundCriterion(Criterion):
    """Minus the leave-one-out error, bounded or by the cavity; it has steps, and no gradient.

    Between equal numbers of errors the one with the larger margins is better, by less than one row.
    """

    def __init__(self, *args: Any, figure: str = "bound") -> None:
        super().__init__(*args)
        self.figure = figure

    def __call__(self, u: Array) -> tuple[float, Array]:
        """Value (to be maximised) and zeros in place of a gradient."""
        value, _ = self.value_and_gradients(*self.solve(u))
        return value + self.space.log_prior(u)[0], np.zeros(len(u))

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        """See :class:`Criterion`; no gradients."""
        p = self.problem
        if self.figure == "bound":
            margins = bounded_margins(p, gram, solution)
        else:
            latent = left_out_latent(p, gram, solution)
            if latent is None:
                return -np.inf, {}
            margins = p.rows * latent
        lead = worst(margins, np.argmax(p.rows, axis=1))
        share = p.row_weights / p.row_weights.sum()
        scale = float(share @ np.abs(lead)) or 1.0
        soft = share @ (1.0 / (1.0 + np.exp(np.clip(lead / scale, -50.0, 50.0))))
        return -float(share @ (lead <= 0.0) + 0.5 * share.min() * soft), {}


class LooBound(Search):
    """Choose the kernel's parameters and C by leave-one-out, from one fit per candidate.

    The leave-one-out error bound follows from a single fit, so that nothing is refitted or held
    out. It has steps and no gradient: the search goes to the best of the neighbours at a distance
    in each free parameter, and halves the distance when there is none. It begins at the given
    parameters, or at the data's own scale where that is better.

    Parameters
    ----------
    figure : "bound", the upper bound of Lemma 1, or "cavity", a much closer estimate that is no
        bound.
    max_evaluations : fits at most.

    Reference: Jaakkola & Haussler (1999), Lemma 1.

    Examples
    --------
    >>> LooBound(max_evaluations=30)
    LooBound(max_evaluations=30)
    """

    needs_evidence: ClassVar[bool] = False

    def __init__(self, figure: str = "bound", max_evaluations: int = 80) -> None:
        self.figure = figure
        self.max_evaluations = max_evaluations
        if figure not in ("bound", "cavity"):
            raise ValueError(f"unknown figure {figure!r}; known are bound, cavity")

    @property
    def needs_reports(self) -> tuple[str, ...]:
        """The duality gap, for the bound."""
        return ("gap",) if self.figure == "bound" else ()

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        """See :class:`Search`."""
        starts = [space.start, *space.suggested]
        best, u = max(((criterion(v)[0], v) for v in starts), key=lambda pair: pair[0])
        step, count, failed = FIRST, len(starts), 0
        while len(u) and step >= LAST and count < self.max_evaluations:
            moved = False
            for i in range(len(u)):
                for sign in (1.0, -1.0):
                    there = u.copy()
                    there[i] = np.clip(u[i] + sign * step, *space.bounds[i])
                    if there[i] == u[i] or count >= self.max_evaluations:
                        continue
                    count += 1
                    try:
                        value = criterion(there)[0]
                    except ValueError:  # a kernel that is impossible at this point
                        failed += 1
                        continue
                    if value > best:
                        best, u, moved = value, there, True
                        break
            if not moved:
                step *= 0.5
        report = {
            "criterion": f"loo_{self.figure}",
            "starts": len(starts),
            "evaluations": count,
            "failed_evaluations": failed,
            "converged": bool(step < LAST or not len(u)),
            "message": "steps in each parameter, without a gradient",
            "interrupted": False,
            "at_bounds": [],
        }
        return [Result(u, best, report)]
