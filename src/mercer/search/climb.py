"""One climb of a criterion: counted, begun at the last posterior, at a measured pace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from mercer.arrays import Array
from mercer.inference.base import Solution
from mercer.inference.mode import NoSpread
from mercer.search.criteria import Criterion

Progress: TypeAlias = Callable[[dict[str, Any]], None]
HOPELESS = 1e25  # stands for an impossible point in the line search, which then shortens its step
ASTRAY = 1e-2  # residual, in posterior deviations, of an inference that did not converge


class Watch:
    """The criterion with its sign turned, counting, remembering the best, and stoppable."""

    def __init__(self, criterion: Criterion, report: Progress | None) -> None:
        self.criterion = criterion
        self.report = report
        self.stage = "searching"
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.best: tuple[float, Array] | None = None
        self.evaluations = 0
        self.failures = 0
        self.failure: ValueError | None = None
        self.factorisations: list[int] = []

    def work(self) -> dict[str, Any]:
        """How many factorisations an evaluation took; empty for an inference that needs one."""
        if not self.factorisations:
            return {}
        counts = np.asarray(self.factorisations)
        return {"factorisations": {"median": float(np.median(counts)), "total": int(counts.sum())}}

    def __call__(self, u: Array, start: Solution | None) -> tuple[float, Array, Solution | None]:
        """Minus the value, minus the gradient, and the posterior found on the way."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        with self.lock:
            self.evaluations += 1
            first = self.evaluations == 1
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
            if solution is not None and "factorisations" in solution.report:
                self.factorisations.append(int(solution.report["factorisations"]))
            if self.best is None or value > self.best[0]:
                self.best = (value, u.copy())
            event = {"evaluations": self.evaluations, "best": self.best[0], "stage": self.stage}
        if self.report is not None:
            self.report(event)
        return -value, -gradient, solution


def _astray(solution: Solution | None) -> ValueError | None:
    """Say so where an inference ended so far from its fixed point that E means nothing."""
    report = {} if solution is None else solution.report
    if report.get("converged") is not False or report.get("residual", 0.0) <= ASTRAY:
        return None
    return ValueError(
        "the inference did not converge at any start of the search, so that there is no evidence "
        "to follow; choose another inference ('laplace' or 'variational'), or bound the kernel's "
        f"variance. {report.get('message', '')}".rstrip()
    )


class Climb:
    """One ascent: each evaluation begins where the last one ended."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.last: Solution | None = None

    def __call__(self, u: Array) -> tuple[float, Array]:
        """Minus the value and minus the gradient at u (p,)."""
        value, gradient, solution = self.watch(u, self.last)
        if solution is not None:
            self.last = bare(solution)
        return value, gradient


class Paced:
    """A climb measured in a ``unit`` in which the first gradient is at most one long.

    Where all parameters are bounded, the first step of L-BFGS-B is the gradient itself, however
    long: over to the bounds and back, into a region far from the start. In this unit it is at most
    one step of the logarithm of a parameter.
    """

    def __init__(self, climb: Climb, start: Array) -> None:
        value, gradient = climb(start)
        self.climb, self.value = climb, value
        self.unit = 1.0 / max(1.0, float(np.linalg.norm(gradient)))
        self.first: tuple[Array, float, Array] | None = (start.copy(), value, gradient)

    def __call__(self, u: Array) -> tuple[float, Array]:
        """Minus the value and minus the gradient at u (p,), in units."""
        first, self.first = self.first, None
        known = first is not None and np.array_equal(first[0], u)
        value, gradient = first[1:] if first is not None and known else self.climb(u)
        return self.unit * value, self.unit * gradient


def bare(solution: Solution) -> Solution | None:
    """Return the solution as a start for the next: without its factor, which is n x n."""
    if "factorisations" not in solution.report:
        return None
    kept = solution.factor.beginning()
    return replace(solution, factor=NoSpread(np.empty(0)) if kept is None else kept)
