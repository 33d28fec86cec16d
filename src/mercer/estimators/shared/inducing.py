"""Hyperparameters and inducing points together: from few rows exactly, then from all by a bound.

1. Hyperparameters from the exact evidence of some rows. 2. Points, chosen at these. 3. The noise is
raised to the variance that the points leave unexplained: from a smaller one the first step leads to
the optimum in which all is noise. 4. All of it climbs together. Theory, section "Schedule".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.parts import Parts
from mercer.inference import Laplace
from mercer.inference.base import Inference, Problem, Solution
from mercer.inference.mode.prox import has_kinks
from mercer.kernels.base import Gradient, Kernel
from mercer.linalg.gram import Covariance, Gram
from mercer.linalg.reduced.centres import CHOOSERS, rule_for
from mercer.linalg.reduced.gram import ReducedGram
from mercer.linalg.representation import Inducing, Points, landmarks
from mercer.losses.base import Loss
from mercer.search import EvidenceCriterion, Optimize, Space

# Rows of the first search: exact, or with K factored many times.
ROWS, ROWS_OF_SITES = 2000, 300
FIRST, MOST = 128, 2048  # points with which "auto" begins and ends
ROUND = 40  # iterations between two choices of points that are not moved
TOL = 1e-9  # relative change of the bound at which a climb ends


class InducingCriterion(EvidenceCriterion):
    """The evidence on the reduced prior, as a function of the parameters and of the points."""

    def __init__(self, space: Space, problem: Problem, inference: Inference, made: Reduced) -> None:
        super().__init__(space, problem, inference, made)
        self.made = made

    def solve(self, u: Array, start: Solution | None = None) -> tuple[Gram, Loss, Solution]:
        parts, p = self.space.parts_at(u), self.problem
        kernel, loss = cast(Kernel, parts["kernel"]), cast(Loss, parts["loss"])
        held = parts.get("inducing")
        made = self.made if held is None else replace(self.made, points=cast(Points, held).points)
        gram = made(kernel, p.points, scratch=True)
        solve, w = self.inference.solve, p.weights
        return gram, loss, solve(gram, p.y, loss, basis=p.basis, weights=w, start=start)

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        assert isinstance(gram, ReducedGram)
        p, moved = self.problem, "inducing" in self.space.parts
        found = self.inference.evidence(gram, p.y, loss, solution, spread=p.spread)
        slope, points = gram.slopes(solution.alpha, solution.factor, found.U, found.V, moved=moved)
        by_part: dict[str, Gradient] = {"kernel": slope, "loss": found.loss_gradient}
        gram.give_back()
        if points is not None:  # a point that was dropped stays
            whole = np.zeros((len(gram.used), points.shape[1]))
            whole[gram.used] = points
            by_part["inducing"] = {"points": whole}
        return found.value, by_part


@dataclass(frozen=True)
class Reduced:
    """Makes the Gram of a kernel at given inducing points."""

    points: Array
    corrected: bool
    single: bool = False  # keep features in single precision
    room: list[Array] = field(default_factory=list)  # of Grams that are done with

    def __call__(self, kernel: Covariance, points: Array, *, scratch: bool) -> ReducedGram:
        assert isinstance(kernel, Kernel)
        room = self.room if scratch else None
        kept: dict[str, Any] = {"corrected": self.corrected, "single": self.single, "room": room}
        return ReducedGram(kernel, points, self.points, **kept)


@dataclass
class Reached:
    """Where a climb ended."""

    kernel: Kernel
    loss: Loss
    points: Array
    value: float
    report: dict[str, Any]


class Schedule:
    """The search of a machine with inducing points, from ``kernel`` and ``loss``."""

    def __init__(
        self, parts: Parts, problem: Problem, rng: np.random.Generator, *, stopped: bool = False
    ) -> None:
        assert parts.inducing is not None
        self.parts, self.problem, self.rng = parts, problem, rng
        self.stopped = stopped  # the user has had enough: points are chosen, and nothing climbs
        self.given: Inducing = parts.inducing
        self.corrected = not parts.inference.bounds_evidence
        response = parts.loss.response
        self.by_class = not parts.inference.has_evidence and response in ("binary", "multiclass")
        wanted = self.given.move
        if wanted == "auto" and self.corrected:  # no bound: it would rise by mere overfitting
            wanted = False
        self.climbs = parts.search is not None and self.given.max_iter > 0 and not stopped
        self.moves = self.climbs and _moves(parts.kernel.signal(), problem.points, wanted)

    def chosen(self, kernel: Kernel, m: int) -> Array:
        """Return m points chosen at the parameters of a kernel."""
        p, classes = self.problem, None
        if self.by_class and self.parts.loss.response == "multiclass":
            classes = p.y[:, 0]
        elif self.by_class:
            classes = np.argmax(np.column_stack([np.zeros(len(p.y)), p.y]), axis=1)
        return self.given.chosen(kernel.signal(), p.points, p.weights, m, self.rng, classes)

    def run(self, kernel: Kernel, loss: Loss) -> Reached:
        """Return the best that was found from here."""
        m, given = self.given.m, self.parts.points
        if given is not None:
            return self.climbed(kernel, loss, given)
        n, size = len(self.problem.points), FIRST
        if not isinstance(m, str) or not self.climbs:  # no bound says what is enough
            return self.rounds(kernel, loss, landmarks(self.given, n))
        reached = self.rounds(kernel, loss, min(size, n - 1))
        while 2 * size <= min(MOST, n // 2) and not reached.report.get("interrupted"):
            more = self._more(reached, size)
            further = self.climbed(reached.kernel, reached.loss, more)
            gain = (further.value - reached.value) / max(float(self.problem.weights.sum()), 1.0)
            if further.value > reached.value:
                reached = further
            reached.report["gain_by_doubling"] = float(gain)
            size *= 2
            if gain < self.given.tol:
                break
        return reached

    def _more(self, reached: Reached, m: int) -> Array:
        """Add m centres of the rows of which most is unexplained."""
        p = self.problem
        gram = Reduced(reached.points, self.corrected)(reached.kernel, p.points, scratch=True)
        weights = p.weights * gram.known() + 1e-12
        signal = reached.kernel.signal()
        new = CHOOSERS[rule_for(signal, "kmeans")](signal, p.points, weights, m, self.rng)
        return np.vstack([reached.points, new])

    def rounds(self, kernel: Kernel, loss: Loss, m: int) -> Reached:
        """Climb from chosen points; those that are not moved are chosen again at what was found."""
        reached = self.climbed(kernel, loss, self.chosen(kernel, m))
        # of two choices only a bound says which is better
        if self.moves or self.corrected or not self.climbs:
            return reached
        for _ in range(2):
            again = self.climbed(reached.kernel, reached.loss, self.chosen(reached.kernel, m))
            better = again.value > reached.value + 1.0
            reached = again if again.value > reached.value else reached
            if not better or reached.report.get("interrupted"):
                break
        return reached

    def climbed(self, kernel: Kernel, loss: Loss, points: Array) -> Reached:
        """Climb from these parameters and points."""
        parts, p, search = self.parts, self.problem, self.parts.search
        made = Reduced(points, self.corrected)
        if search is None or not self.climbs:
            halted = {"interrupted": True} if self.stopped else {}
            return Reached(kernel, loss, points, -np.inf, halted)
        loss = self._raised(made(kernel, p.points, scratch=True), loss)
        held = {"inducing": Points(points)} if self.moves else {}
        space = Space({"kernel": kernel, "loss": loss, **held}, parts.limits(kernel))
        progress = search.get_params().get("progress", False)
        climb = Optimize(restarts=0, max_iter=self.given.max_iter, tol=TOL, progress=progress)
        criterion = InducingCriterion(space, p, parts.inference.searching(), made)
        [best] = climb.run(criterion, space, self.rng)
        at = space.parts_at(best.u)
        moved = cast(Points, at["inducing"]).points if self.moves else points
        at_bounds = [name for name in best.report["at_bounds"] if not name.startswith("inducing")]
        told = {**best.report, "at_bounds": at_bounds}
        return Reached(cast(Kernel, at["kernel"]), cast(Loss, at["loss"]), moved, best.value, told)

    def _raised(self, gram: ReducedGram, loss: Loss) -> Loss:
        """Raise the noise of a loss to what the points leave unexplained."""
        noise = getattr(loss, "noise", None)
        if noise is None or np.ndim(noise) or "noise" not in loss.domains or self.corrected:
            return loss
        if loss.mark("noise").fixed:
            return loss
        return loss.replaced({"noise": max(float(noise), float(gram.known().mean()))})


def begun_with(parts: Parts) -> tuple[Parts, int]:
    """Return by which inference the first hyperparameters are learned, and from how many rows.

    Where nothing goes on from there, they are many, and Laplace's evidence makes that cheap.
    """
    assert parts.inducing is not None
    wanted, last = parts.inducing.rows, not parts.inducing.max_iter
    quadratic = "quadratic" in parts.inference.needs
    if not isinstance(wanted, str):  # else "auto"
        return parts, wanted
    if last and parts.loss.convex and not quadratic and not has_kinks(parts.loss):
        parts = replace(parts, inference=Laplace())
    return parts, ROWS if quadratic or last else ROWS_OF_SITES


def _moves(kernel: Kernel, points: Array, wanted: bool | str) -> bool:
    """Whether the points are moved; refuse where a user wants it and the kernel cannot."""
    if wanted is False:
        return False
    why = "" if kernel.spatial else "its rows are not points in space: use move=False"
    if not why:
        try:
            kernel.pullback_points(points[:1], points[:1], np.ones((1, 1)))
        except NotImplementedError as error:
            why = str(error)
    if why and wanted is True:
        raise ValueError(f"Inducing(move=True) cannot move the points of this kernel: {why}")
    return not why


def describe(reached: Reached, schedule: Schedule, rows: int) -> dict[str, Any]:
    """Return what ``report_["inducing"]`` says of the search; the Gram adds what it knows."""
    how = schedule.given.described(
        schedule.parts.kernel.signal(), schedule.by_class, schedule.moves
    )
    found = {"chosen": how, "rows_of_first_search": rows}
    if "gain_by_doubling" in reached.report:
        found["gain_by_doubling"] = reached.report["gain_by_doubling"]
    return found
