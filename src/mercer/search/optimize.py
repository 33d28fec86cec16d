"""Optimize: the maximum of a criterion, by L-BFGS-B from several starts.

Each climb is counted, begun at the last posterior, and keeps its best point at an interrupt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import Bounds, minimize

from mercer.core.arrays import Array
from mercer.core.component import Component, Names
from mercer.core.words import there_is_no
from mercer.inference.base import Solution
from mercer.search.criteria.evidence import Criterion, Watch, bare
from mercer.search.progress import Progress
from mercer.search.scan import rougher, scan
from mercer.search.space import Space
from mercer.search.subset import FINE, ROUGH, Evaluated, best_two, from_subsets, nested

MARGIN = 0.02  # nats by which another maximum is higher
LONGER = 3  # screens after which a close second should be better than the first at its end
# Points beyond which a search begins on some of them; where an evaluation takes several
# factorisations.
FROM, FROM_ITERATED = 1500, 600
LEFT = 1e-8  # nats below which what a climb leaves when its line search gives up is rounding
MEMORY = 40  # pairs kept by L-BFGS-B: with few parameters a long memory saves evaluations


class Climb:
    """One ascent: each evaluation begins where the last one ended, and is stated in a ``unit``.

    Where all parameters are bounded, the first step of L-BFGS-B is the gradient itself, however
    long: over to the bounds and back, into a region far from the start. In a unit in which the
    first gradient is at most one long, it is at most one step of the logarithm of a parameter.
    """

    def __init__(self, watch: Evaluated) -> None:
        self.watch = watch
        self.last: Solution | None = None
        self.first: tuple[Array, float, Array] | None = None  # what ``begin`` knows of its start
        self.value, self.unit = 0.0, 1.0

    def begin(self, start: Array) -> None:
        """Choose the unit at ``start`` (p,), which is not evaluated again."""
        self.value, gradient = self._evaluate(start)
        self.unit = 1.0 / max(1.0, float(np.linalg.norm(gradient)))
        self.first = start.copy(), self.value, gradient

    def __call__(self, u: Array) -> tuple[float, Array]:
        """Minus the value and minus the gradient at u (p,), in units."""
        first, self.first = self.first, None
        known = first is not None and np.array_equal(first[0], u)
        value, gradient = first[1:] if first is not None and known else self._evaluate(u)
        return self.unit * value, self.unit * gradient

    def _evaluate(self, u: Array) -> tuple[float, Array]:
        value, gradient, solution = self.watch(u, self.last)
        if solution is not None:
            self.last = bare(solution)
        return value, gradient


class Abandoned(KeyboardInterrupt):
    """An interrupt after which nothing of the fit is wanted: whoever asked for it has an answer."""


def interrupted(report: Any) -> bool:
    """Whether any search in the (nested) ``report_`` of an estimator was interrupted.

    Examples
    --------
    >>> interrupted({"search": {"interrupted": True}}), interrupted({"search": {}})
    (True, False)
    """
    if not isinstance(report, dict):
        return False
    return report.get("interrupted") is True or any(interrupted(v) for v in report.values())


@dataclass
class Result:
    """The best point found and how it was found."""

    u: Array
    value: float
    report: dict[str, Any] = field(default_factory=dict)
    scanned: dict[str, Component] | None = None  # the parts at the best point of a scan before
    on_some: float | None = None  # the best value on some of the rows, if it began there


class Search(Component):
    """Which hyperparameters: ``run`` returns the draws, one for a maximum.

    ``needs_evidence`` says that the criterion is a density, which a mode does not have;
    ``samples_many`` that the draws are samples, and begin well at a maximum found before.
    """

    needs_evidence: ClassVar[bool] = True
    samples_many: ClassVar[bool] = False
    kept: Any = None  # (kernel, loss, report) that other rows have found: nothing is searched for
    # Where a search begins on some of the rows: "first" ends there, "last" goes on from its end.
    phase: Literal["whole", "first", "last"] = "whole"

    @classmethod
    def given(cls, given: object) -> Search | None:
        """Return a Search by its name ("evidence", "loo", "loo_bound", "hmc"), itself, or None."""
        if given is None or isinstance(given, Search):
            return given
        if isinstance(given, str) and given in Search.known_names():
            return Search.by_name(given)
        raise ValueError(there_is_no("search", given, [*Search.known_names(), "None"]))

    @property
    def knows_powers(self) -> bool:
        """Whether other rows have bent columns by powers, which need not pay for it again."""
        return False

    @property
    def needs_reports(self) -> tuple[str, ...]:
        """Which keys the search reads in the report of a solution."""
        return ()

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        """Return the results, best first."""
        raise NotImplementedError


class Watched(Search):
    """A search that shows its progress: a child has the parameter ``progress``."""

    progress: bool | Progress
    abstract: ClassVar[bool] = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but the progress function: a bar holds streams and is shared."""
        twin = type(self)(**self.get_params(deep=False))
        twin._marks = dict(getattr(self, "_marks", {}))
        return twin

    def to_dict(self) -> dict[str, Any]:
        silent = type(self)(**{**self.get_params(deep=False), "progress": self.progress is True})
        return Component.to_dict(silent)


class Optimize(Watched):
    """Maximise a criterion with analytic gradients from several starts.

    The starts are the given parameters, those at the data's own scale where the machine suggests
    them, and random ones about the first. The last random one (by "plsc" several) gives way to the
    best of a scan over length scales (:func:`~mercer.search.scan.scan`) where that is promising:
    functions that vary fast look like noise from any other start. The report has it as "scan".
    Every start is run for ``screen`` evaluations and only the best goes on to convergence (by
    "plsc" the second, too, if it is close in value, far in the parameters and soon better). A
    keyboard interrupt ends the search and keeps the best point so far; the report says so.

    Parameters
    ----------
    criterion : "evidence", "loo", or "plsc" for a ProbabilisticLeastSquaresClassifier.
    restarts : starts besides the given one; 0 climbs from the given one alone, without a scan.
    screen : evaluations per start before the best is chosen; None runs every start to the end.
    max_iter : iterations of L-BFGS-B at most.
    tol : relative change of the criterion at which to stop.
    balance : let exact copies and weights say how much a row counts, not how little noise there is
        (see :func:`~mercer.search.balanced`); False maximises the literal evidence.
    subsets : beyond 1500 points (600 where an inference iterates), try all starts on a quarter of
        them (300 to 1000), climb from the best two on half of them (at most 4000), and end with few
        evaluations on all of them.
    n_jobs : starts run in parallel threads (joblib's meaning; None is one).
    progress : True for a line on stderr, or a function that is given a dictionary with
        "evaluations", "best", "stage", "seconds" (of one on all rows) and "left" after each.

    Reference: GPML section 5.4.1; Byrd, Lu, Nocedal & Zhu (1995).

    Examples
    --------
    >>> Optimize(restarts=5)
    Optimize(restarts=5)
    """

    names: ClassVar[Names] = {
        "evidence": lambda: Optimize(criterion="evidence"),
        "loo": lambda: Optimize(criterion="loo"),
    }
    before: ClassVar[dict[str, Any]] = {"subsets": False}

    def __init__(
        self,
        criterion: str = "evidence",
        restarts: int = 3,
        screen: int | None = 8,
        max_iter: int = 200,
        tol: float = 1e-12,
        balance: bool = True,
        subsets: bool = True,
        n_jobs: int | None = None,
        progress: bool | Progress = False,
    ) -> None:
        self.criterion, self.balance, self.restarts = criterion, balance, restarts
        self.screen, self.max_iter, self.tol = screen, max_iter, tol
        self.subsets, self.n_jobs, self.progress = subsets, n_jobs, progress
        if criterion not in ("evidence", "loo", "plsc"):
            raise ValueError(f"unknown criterion {criterion!r}; known are evidence, loo, plsc")
        if restarts < 0 or max_iter < 1:
            raise ValueError("restarts must be at least 0 and max_iter at least 1")

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        last = self.phase == "last"
        many = self.restarts if space.scanned is None and not last else 0
        starts = [space.start, *(space.random(rng) for _ in range(many))]
        scanned: Array | None = None
        others: list[Array] = []
        told: dict[str, Any] = {}
        if self.restarts and not last:
            scanned, others, told = scan(criterion, space, space.scanned)
        if others:
            kept = len(starts) - (len(others) if criterion.rivals else 1)  # of the random ones
            starts[1:] = starts[1 : max(1, kept)] + others
        if self.restarts and space.scanned is None:
            starts += space.suggested
        watch = Watch(criterion, self.progress)
        if not len(space):
            found = {"evaluations": 1, "converged": True, "starts": 0}
            return [Result(space.start, criterion(space.start)[0], found)]
        many_rows = FROM_ITERATED if criterion.inference.factors_repeatedly else FROM
        if self.subsets and self.restarts and self.screen and watch.rows > many_rows:
            watch.begin_on(nested(criterion, space)[-1 if last else 0 :])
            if watch.fewer and space.scanned is not None:
                starts += rougher(space)
            watch.doubted = bool(many) and criterion.inference.factors_repeatedly
        if watch.teller is not None:
            watch.teller.expected = len(space) + 10 * (1 if watch.fewer else 1 + len(starts))
        try:
            outcomes = self._screened(watch, space.bounds, starts)
        except KeyboardInterrupt:
            watch.stop.set()
            known = [one.best for one in (watch, *watch.fewer[::-1]) if one.best is not None]
            if not known:
                raise
            value, u = known[0]
            how = {"converged": False, "message": "interrupted; the best point so far is kept"}
            outcomes = [Result(u, value, how)]
        if all(one.best is None for one in (watch, *watch.fewer)) and not watch.stop.is_set():
            raise watch.failure or ValueError(
                "the criterion could not be evaluated at any start: check the scale of the inputs"
            )
        best = outcomes[0]
        close = np.any(np.abs(best.u[:, None] - space.bounds) < 1e-6, axis=1)
        best.report = {
            "criterion": self.criterion,
            "starts": len(starts),
            "start_values": [float(o.value) for o in outcomes],
            "evaluations": watch.evaluations,
            "failed_evaluations": watch.failures,
            **best.report,
            "interrupted": watch.stop.is_set(),
            "at_bounds": [e.name for e in space.entries if np.any(close[e.where])],
            **watch.work(),
        }
        if watch.fewer:
            counts = np.array([(few.rows, few.evaluations) for few in watch.fewer]).T.tolist()
            best.report["subsets"] = dict(zip(("rows", "evaluations"), counts, strict=True))
            inner = watch.fewer[0].criterion.inference
            if inner is not criterion.inference:
                best.report["subsets"]["inner_tol"] = inner.get_params()["tol"]
            reached = watch.fewer[-1].best if watch.told else None
            best.on_some = None if reached is None else reached[0]
        if scanned is not None:
            best.report["scan"], best.scanned = told, space.parts_at(scanned)
        return [best]

    def _screened(self, watch: Watch, bounds: Array, starts: list[Array]) -> list[Result]:
        """Outcomes, the chosen one first; the others as far as they were run."""
        screening = self.screen is not None and len(starts) > 1
        watch.stage = "screening" if screening and not watch.fewer else "searching"
        budget = self.screen if screening else None
        if watch.fewer:
            outcomes = self._each(watch.fewer[0], bounds, starts, budget, ROUGH)
            more, end = ([], ROUGH) if self.phase == "first" else ([watch], FINE)
            given = (bounds, outcomes, self._climb, starts[0], end)
            outcomes = from_subsets([*watch.fewer, *more], *given)
            if outcomes and not (
                watch.doubted and self._beaten(watch, bounds, starts, outcomes[0])
            ):
                return outcomes
            watch.told = False
        outcomes = self._each(watch, bounds, starts, budget)
        if budget is not None:
            watch.stage = "searching"
            best, second = outcomes[:2]
            close = second.value > best.value - watch.criterion.rivals
            outcomes[0] = self._climb(watch, bounds, best.u)
            if close and len(best_two([best, second])) > 1:
                second = self._climb(watch, bounds, second.u, LONGER * budget)
                if second.value > outcomes[0].value:
                    second = self._climb(watch, bounds, second.u)
                    outcomes[:2] = sorted([outcomes[0], second], key=lambda one: -one.value)
        return outcomes

    def _beaten(self, watch: Watch, bounds: Array, starts: list[Array], end: Result) -> bool:
        """Whether the given start leads higher on all rows, after screening, than the end on some.

        Labels tell little: a function that all rows show may not be seen on some of them.
        """
        here = end.value if self.phase == "whole" else -watch(end.u, None)[0]
        other = self._climb(watch, bounds, starts[0], self.screen)
        return other.value > here + MARGIN and len(best_two([end, other])) > 1

    def _each(
        self,
        watch: Watch,
        bounds: Array,
        starts: list[Array],
        budget: int | None,
        tol: float | None = None,
    ) -> list[Result]:
        """Outcomes of the climbs from all starts, best first."""
        outcomes: list[Result] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self._climb)(watch, bounds, start, budget, tol) for start in starts
        )
        return sorted(outcomes, key=lambda outcome: -outcome.value)

    def _climb(
        self,
        watch: Evaluated,
        bounds: Array,
        start: Array,
        budget: int | None = None,
        tol: float | None = None,
    ) -> Result:
        climb, left = Climb(watch), self.max_iter
        while True:
            climb.begin(start)
            most, flat = budget or 20 * self.max_iter, getattr(watch, "flat", 0.0)
            options: dict[str, float] = {"maxiter": left, "maxfun": most, "maxcor": MEMORY}
            options |= {"ftol": tol or self.tol, "gtol": max(flat, _flat(climb.value) * climb.unit)}
            given: dict[str, Any] = {"bounds": Bounds(*bounds.T), "options": options}
            result = minimize(climb, start, jac=True, method="L-BFGS-B", **given)
            end, left = float(result.fun) / climb.unit, left - int(result.nit)
            done = budget or left < 1 or not result.success
            if done or _flat(end) > 0.1 * _flat(climb.value):
                over = _promised(result, bounds) / climb.unit <= max(LEFT, self.tol * abs(end))
                converged = bool(result.success) or (result.status == 2 and over)
                how = {"converged": converged, "message": self._why(result)}
                return Result(result.x, -end, how)
            start = result.x  # E was far larger where it began: less is flat now, and in its unit

    def _why(self, result: Any) -> str:
        """Return why a climb ended, in words where L-BFGS-B has none."""
        if result.status == 0:
            return str(result.message)
        if result.status == 1:
            return f"the limit of max_iter={self.max_iter} iterations was reached"
        return "the line search found no better point: rounding hides what is left to gain"


def _promised(result: Any, bounds: Array) -> float:
    """What the model of L-BFGS-B promises beyond its end: g'H^-1 g / 2 of the parameters free."""
    g, (low, high) = np.array(result.jac, dtype=np.float64), bounds.T
    g[((result.x <= low) & (g > 0.0)) | ((result.x >= high) & (g < 0.0))] = 0.0
    return 0.5 * float(g @ result.hess_inv.dot(g))


def _flat(value: float) -> float:
    """Gradient at which a climb ends: 1e-5, or where what is left drowns in the rounding of E.

    With a gradient g and curvature h (tens, at many rows) g^2 / 2h is left to gain; below two units
    in the last place of E a line search tries lengths until it gives up.
    """
    return max(1e-5, 10.0 * float(np.sqrt(np.finfo(float).eps * abs(value))))
