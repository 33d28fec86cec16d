"""Criteria: how good is u? Functions u -> (value, gradient), to be maximised. Theory (G6)."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, Self, cast

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.deadline import CURRENT, check_time
from mercer.inference.base import Inference, Problem, Solution
from mercer.inference.exact import Exact
from mercer.inference.mode.descent import NoSpread
from mercer.kernels.base import Gradient, Kernel
from mercer.linalg.dense.gram import RecycledGrams
from mercer.linalg.gram import Covariance, Gram
from mercer.losses.base import Loss
from mercer.losses.real.gaussian import Gaussian
from mercer.search.progress import Progress, Teller, to_stderr
from mercer.search.space import Space

HOPELESS = 1e25  # stands for an impossible point in the line search, which then shortens its step
ASTRAY = 1e-2  # residual, in posterior deviations, of an inference that did not converge


class GramMaker(Protocol):
    """How a Gram is built, e.g. the class :class:`~mercer.linalg.DenseGram`."""

    def __call__(self, kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
        """Return the Gram of a kernel at points (n, d)."""


class Criterion(ABC):
    """A function of u: value and gradient, log density of the hyperpriors included.

    ``offset`` is to be added to a value that is shown: then it is in the units of the user.
    ``rivals`` is by how much a start may be behind the best after screening and still be run to the
    end: more than nothing where maxima of different kinds are expected. ``even`` says that two
    points are compared as they would be at the end of a climb, with no noise or variance to settle.
    """

    offset = 0.0
    rivals: float = 0.0
    even = False

    def __init__(
        self,
        space: Space,
        problem: Problem,
        inference: Inference,
        make_gram: GramMaker | None = None,
    ) -> None:
        self.space, self.problem, self.inference = space, problem, inference
        self.make_gram = make_gram or RecycledGrams()
        self.moves_kernel = any(entry.part == "kernel" for entry in space.entries)

    def scratch(self) -> bool:
        """Whether nothing is solved after the inverse is formed: the Gram may reuse its memory."""
        return False

    def solve(self, u: Array, start: Solution | None = None) -> tuple[Gram, Loss, Solution]:
        """Return gram, loss and posterior at u."""
        parts = self.space.parts_at(u)
        kernel, loss, p = cast(Kernel, parts["kernel"]), cast(Loss, parts["loss"]), self.problem
        gram = self.make_gram(kernel, p.points, scratch=self.scratch())
        solve, W = self.inference.solve, p.weights
        return gram, loss, solve(gram, p.y, loss, basis=p.basis, weights=W, start=start)

    def __call__(self, u: Array) -> tuple[float, Array]:
        """Value (to be maximised) and gradient (p,) at u (p,)."""
        value, gradient, _ = self.evaluate(u)
        return value, gradient

    def evaluate(self, u: Array, start: Solution | None = None) -> tuple[float, Array, Solution]:
        """Value, gradient and posterior at u, begun from the posterior ``start`` at a point nearby.

        That saves an inference most of its steps; nothing is remembered here.
        """
        gram, loss, solution = self.solve(u, start)
        value, by_part = self.value_and_gradients(gram, loss, solution)
        prior, prior_gradient = self.space.log_prior(u)
        return value + prior, self.space.gradient(u, by_part) + prior_gradient, solution

    def height(self, u: Array, start: Solution | None = None) -> tuple[float, Solution]:
        """Value and posterior at u; a child that can leave out the gradient does."""
        value, _, solution = self.evaluate(u, start)
        return value, solution

    def also(self, u: Array, scales: Index) -> list[Array]:
        """Return where another maximum may begin, far from u; ``scales`` are the length scales."""
        return []

    def guide(self, problem: Problem) -> Criterion:
        """Return a criterion of a problem to compare length scales by; rough where this is dear."""
        return self.on(problem)

    def on(self, problem: Problem) -> Self:
        """Return the same criterion of another problem."""
        twin = copy(self)
        twin.problem = problem
        return twin

    @abstractmethod
    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        """Value and gradients by part and parameter name."""


class EvidenceCriterion(Criterion):
    """The log evidence, gradient by formula (3).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference import Exact
    >>> from mercer.kernels import RBF
    >>> from mercer.losses import Gaussian
    >>> X, y = np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])
    >>> space = Space({"kernel": 1.0 * RBF(), "loss": Gaussian(noise=0.1)})
    >>> criterion = EvidenceCriterion(space, simple_problem(X, y), Exact())
    >>> value, gradient = criterion(space.start)
    >>> round(value, 4)
    -2.4051
    """

    def scratch(self) -> bool:
        return self.inference.inverse_in_place

    def height(self, u: Array, start: Solution | None = None) -> tuple[float, Solution]:
        gram, loss, found = self.solve(u, start)
        p = self.problem
        value = self.inference.evidence(gram, p.y, loss, found, spread=p.spread).value
        return value + self.space.log_prior(u)[0], found

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        p = self.problem
        evidence = self.inference.evidence(gram, p.y, loss, solution, spread=p.spread)
        slope: Gradient = {}
        if self.moves_kernel:
            slope = gram.pullback(solution.alpha, solution.factor, evidence.U, evidence.V)
        return evidence.value, {"kernel": slope, "loss": evidence.loss_gradient}

    def guide(self, problem: Problem) -> Criterion:
        loss = cast(Loss, self.space.parts["loss"])
        labels = loss.response in ("binary", "multiclass")
        separate = cast(Kernel, self.space.parts["kernel"]).separate
        if "quadratic" in self.inference.needs or not labels or separate:
            return self.on(problem)
        return LabelsAsNumbers(self.space, problem, Exact(), self.make_gram)


class LabelsAsNumbers(Criterion):
    """The log evidence of labels taken for numbers, at the best of all variances of these.

    -n/2 log y'M y - 1/2 log |M^-1|, M^-1 = K / mean k(x, x) + I / 2: a single factorisation says
    which length scales tell the labels of neighbours, where the inference for labels takes many.
    """

    even = True
    NOISE = 0.5  # relative to the variance of the kernel: labels are far from any smooth function

    def height(self, u: Array, start: Solution | None = None) -> tuple[float, Solution]:
        p, kernel = self.problem, cast(Kernel, self.space.parts_at(u)["kernel"])
        y = p.y - np.average(p.y, axis=0, weights=p.weights)
        noise = self.NOISE * float(kernel.diag(p.points).mean())
        gram = self.make_gram(kernel, p.points, scratch=False)
        found = self.inference.solve(gram, y, Gaussian(noise), basis=p.basis, weights=p.weights)
        fit = float(np.log(max(float((found.alpha * y).sum()), np.finfo(float).tiny)))
        value = -0.5 * y.shape[1] * (len(y) * fit + found.factor.logdet_noisy())
        return value + self.space.log_prior(u)[0], found

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        raise NotImplementedError("it compares points, and has no gradient")


class Watch:
    """The criterion with its sign turned, counting, remembering the best, and stoppable."""

    def __init__(self, criterion: Criterion, progress: bool | Progress) -> None:
        self.criterion, self.stage = criterion, "searching"
        tell = progress if callable(progress) else to_stderr
        self.teller = Teller(tell, self.rows) if progress else None
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.best: tuple[float, Array] | None = None
        self.evaluations = self.failures = 0
        self.failure: ValueError | None = None
        self.factorisations: list[int] = []
        self.fewer: list[Watch] = []  # those of the search on some of the rows
        self.told = True  # whether these know anything
        self.doubted = False  # whether what they say is to be tested on all rows

    @property
    def rows(self) -> int:
        """The number of points."""
        return len(self.criterion.problem.points)

    def begin_on(self, problems: list[Problem]) -> None:
        """Add searches on some of the rows, which come before."""
        self.fewer = [Watch(self.criterion.on(problem), False) for problem in problems]
        for few in self.fewer:
            few.criterion.inference = few.criterion.inference.searching(rough=True)
        for few in self.fewer:
            few.stop, few.teller = self.stop, self.teller
            few.stage = f"searching on {few.rows} of {self.rows} rows"

    def work(self) -> dict[str, Any]:
        """How many factorisations an evaluation took; empty for an inference that needs one."""
        if not self.factorisations:
            return {}
        counts = np.asarray(self.factorisations)
        return {"factorisations": {"median": float(np.median(counts)), "total": int(counts.sum())}}

    def __call__(
        self, u: Array, start: Solution | None, stage: str | None = None
    ) -> tuple[float, Array, Solution | None]:
        """Minus the value, minus the gradient, and the posterior found on the way.

        ``stage`` is told with the progress; None is that of the whole search.
        """
        if self.stop.is_set():
            raise KeyboardInterrupt
        if CURRENT.get() is not None:
            check_time()
        with self.lock:
            self.evaluations += 1
            first = self.evaluations == 1 and not self.fewer
        try:
            value, gradient, solution = self.criterion.evaluate(u, start)
        except ValueError as error:  # a matrix or a kernel that is impossible at this point
            if first:
                raise  # the given start itself: the user should know
            self.failure = error
            value, gradient, solution = -np.inf, np.zeros(len(u)), None
        with self.lock:
            finite = np.isfinite(value) and np.all(np.isfinite(gradient))
            lost = _astray(solution)
            self.failure = self.failure or lost
            if not finite or lost is not None:
                self.failures += 1
                return HOPELESS, np.zeros(len(u)), None
            if solution is not None and "factorisations" in solution.report.details:
                self.factorisations.append(int(solution.report.details["factorisations"]))
            if self.best is None or value > self.best[0]:
                self.best = (value, u.copy())
            best = self.best[0] + self.criterion.offset
            event = {"evaluations": self.evaluations, "best": best, "stage": stage or self.stage}
        if self.teller is not None:
            self.teller(event, self.rows)
        return -value, -gradient, solution


def _astray(solution: Solution | None) -> ValueError | None:
    """Say so where an inference ended so far from its fixed point that E means nothing."""
    report = None if solution is None else solution.report
    if report is None or report.converged or report.details.get("residual", 0.0) <= ASTRAY:
        return None
    return ValueError(
        "the inference did not converge at any start of the search, so that there is no evidence "
        "to follow; choose another inference ('laplace' or 'variational'), or bound the kernel's "
        f"variance. {report.message}".rstrip()
    )


def bare(solution: Solution) -> Solution | None:
    """Return the solution as a start for the next: without its factor, which is n x n."""
    if "factorisations" not in solution.report.details:
        return None
    kept = solution.factor.beginning()
    return replace(solution, factor=NoSpread(np.empty(0)) if kept is None else kept)


def balanced(problem: Problem) -> tuple[Problem, float]:
    """Return the problem for a search, weights times a constant, and that constant.

    Exact copies of an observation (and weights beyond one) let the evidence grow without bound as
    the noise vanishes: each adds log(1/noise)/2 and no residual. They say how much a row counts,
    not how much noise there is. So the weights are scaled to the sum n + the replicates that do
    differ from each other: then copying a table, or multiplying all weights, changes nothing.
    """
    n, W = len(problem.points), problem.weights
    differ = np.any(problem.spread > 0.0, axis=1)
    c = (n + float(np.maximum(W[differ] - 1.0, 0.0).sum())) / float(W.sum())
    if abs(c - 1.0) < 1e-12:
        return problem, 1.0
    scaled = replace(problem, weights=c * W, spread=c * problem.spread, row_weights=c * W)
    return replace(scaled, group=np.arange(n), rows=problem.y, whole=True), c


def times(problem: Problem, factor: float) -> Problem:
    """Return the problem with all weights multiplied by a factor."""
    left_out = None if problem.left_out is None else factor * problem.left_out
    return replace(
        problem,
        weights=factor * problem.weights,
        spread=factor * problem.spread,
        row_weights=factor * problem.row_weights,
        left_out=left_out,
    )


def simple_problem(X: Array, y: Array, basis: Array | None = None) -> Problem:
    """Return the problem of n distinct points with one observation each; y is (n, m)."""
    ones = np.ones(len(X))
    return Problem(X, y, ones, np.zeros_like(y), basis, np.arange(len(X)), y, ones)
