"""Which hyperparameters: the search of a machine, and the posterior at what it found."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Component
from mercer.core.memory import require_points
from mercer.estimators.shared.inducing import Reduced, Schedule, begun_with, describe
from mercer.estimators.shared.parts import Parts, data_scales
from mercer.estimators.shared.units import in_column_order
from mercer.inference.base import Solution
from mercer.kernels.base import Kernel
from mercer.kernels.stationary.base import bending, tied_scales, untied
from mercer.linalg.gram import Covariance, Gram
from mercer.linalg.iterative.gram import IterativeGram
from mercer.linalg.iterative.probed import ProbedGram
from mercer.linalg.reduced.centres import CHOOSERS
from mercer.losses.base import Loss
from mercer.search import (
    Criterion,
    EvidenceCriterion,
    LooCriterion,
    Optimize,
    Problem,
    Result,
    Search,
    Space,
    balanced,
)
from mercer.search.adam import adam
from mercer.search.optimize import Abandoned, interrupted
from mercer.search.sample import Samples, ended_by_user, first_rows, leave_if_interrupted
from mercer.search.space import PRICE, price_of_scales
from mercer.search.subset import continued

SMALL = 300  # points up to which the memory of a second posterior is not worth a second solve

SEARCHING = 1.0  # rho^2 at which solutions of a step end: the evidence is certain to half a nat


@dataclass
class Draw:
    """Kernel and loss with the hyperparameters found, and the posterior there once it is known."""

    kernel: Kernel
    loss: Loss
    solved: Solved | None = None
    scored: bool = True  # False where nobody asks for the log evidence

    def solve(self, parts: Parts, problem: Problem) -> Solved:
        """Return the posterior of a problem; what was solved before is handed out once."""
        kept, self.solved = self.solved, None
        if kept is not None and kept.problem is problem:
            return kept
        p, inference, value = problem, parts.inference, -np.inf
        gram = parts.make_gram(self.kernel, p.points, scratch=False)
        found = inference.solve(gram, p.y, self.loss, basis=p.basis, weights=p.weights)
        if self.scored and inference.has_evidence:
            value = inference.evidence(gram, p.y, self.loss, found, spread=p.spread).value
        return Solved(p, gram, found, value)


@dataclass(frozen=True)
class Solved:
    """A posterior with its Gram and log evidence (-inf for a mode, which has none)."""

    problem: Problem
    gram: Gram
    solution: Solution
    value: float

    def bounds(self) -> tuple[float | None, float | None]:
        """Return a lower and an upper bound on the log evidence of the exact model."""
        s, p = self.solution, self.problem
        if s.factor.charge() is not None:
            return self.value, None
        found = s.factor.bounds(s.z, s.alpha)
        if found is None:
            return None, None
        # what merged rows and weights add to the density of their means
        n, m = p.y.shape
        density = -0.5 * float((s.alpha * s.z).sum())
        density -= 0.5 * m * (s.factor.logdet_noisy() + n * float(np.log(2.0 * np.pi)))
        return found[0] + self.value - density, found[1] + self.value - density


def find_parameters(
    parts: Parts, problem: Problem, rng: np.random.Generator
) -> tuple[list[Draw], dict[str, Any]]:
    """Find hyperparameters; for a named kernel decide between one and several length scales.

    One that samples is preceded by one that maximises, which decides and gives the start. An
    inference whose evidence has an error leaves the search to another.
    """
    other = parts.inference.for_search(parts.loss)
    if other is not parts.inference and parts.search is not None:
        other.check(parts.loss)
        draws, report = find_parameters(replace(parts, inference=other), problem, rng)
        for draw in draws:
            draw.solved = None
        report["search"]["inference"] = type(other).__name__
        return draws, report
    if parts.inducing is not None:
        return _by_inducing(parts, problem, rng)
    if parts.iterative is not None:
        return _by_iterative(parts, problem, rng)
    if parts.search is None:
        return [Draw(parts.kernel, parts.loss)], {"search": None}
    factor = 1.0  # copies of a row let the evidence of a Gaussian noise run away, and of it alone
    if "quadratic" in parts.inference.needs and parts.search.get_params().get("balance", True):
        problem, factor = balanced(problem)
    first = search = parts.search
    if search.samples_many:  # the maximum has what the two share
        given = search.get_params(deep=False)
        first = Optimize(**{k: given[k] for k in ("criterion", "n_jobs", "progress") if k in given})
    draws, report = _decide(parts, problem, first, rng)
    if search.samples_many and not report["search"].get("interrupted"):
        report["start"] = report.pop("search")
        parts.loss = draws[0].loss
        draws, best = _run(parts, draws[0].kernel, problem, search, rng)
        report["search"] = best.report
    report["search"]["search_weight_factor"] = factor
    return draws, report


def _by_inducing(
    parts: Parts, problem: Problem, rng: np.random.Generator
) -> tuple[list[Draw], dict[str, Any]]:
    """Hyperparameters of some rows first, exactly; then of all, together with the points."""
    assert parts.inducing is not None
    draw, report, rows = Draw(parts.kernel, parts.loss), {}, 0
    whole = problem
    if parts.search is not None:
        quadratic = "quadratic" in parts.inference.needs
        if quadratic and parts.search.get_params().get("balance", True):
            whole, _ = balanced(problem)
        exact, wanted = begun_with(parts)
        few = first_rows(whole, wanted, rng)
        rows = len(few.points)
        [draw], first = _decide(exact, few, parts.search, rng)
        report["start"] = first["search"]
        if exact is not parts:
            report["start"]["inference"] = type(exact.inference).__name__
        report |= {key: first[key] for key in ("ard",) if key in first}
    stopped = ended_by_user(report.get("start", {}))
    schedule = Schedule(parts, whole, rng, stopped=stopped)
    reached = schedule.run(draw.kernel, draw.loss)
    single = parts.inference.takes_single
    parts.make_gram = Reduced(reached.points, schedule.corrected, single)
    climbed = schedule.climbs and reached.report
    report["search"] = climbed or report.pop("start", None)
    report["inducing"] = describe(reached, schedule, rows)
    return [Draw(reached.kernel, reached.loss)], report


def _by_iterative(
    parts: Parts, problem: Problem, rng: np.random.Generator
) -> tuple[list[Draw], dict[str, Any]]:
    """Hyperparameters of some rows, exactly; all rows are solved with at these."""
    given = parts.iterative
    assert given is not None
    draw, report = Draw(parts.kernel, parts.loss), dict[str, Any](search=None)
    whole = problem
    if parts.search is not None:
        if given.refine and parts.search.get_params().get("balance", True):
            whole = balanced(problem)[0]
        draw, report = _from_samples(parts, problem, given.rows, parts.search, rng)
    signal = draw.kernel.signal()
    n = len(problem.points)
    rank = min(given.rank, max(1, n // 2))
    require_points(rank, "rank")
    centres = CHOOSERS[given.centres](signal, problem.points, problem.weights, rank, rng)
    single = given.precision == "single"
    if parts.search is not None:
        draw, told = _refined(parts, whole, draw, rng, centres, single)
        steps = told["steps"]
        report["search"]["refined"] = told
        origin = f"exact evidence of {report['search']['rows']} rows"
        report["search"]["origin"] = f"{origin}, {steps} refinement steps on all"
        report["search"]["interrupted"] = bool(
            report["search"].get("interrupted") or told["interrupted"]
        )

    def make(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
        assert isinstance(kernel, Kernel)
        # common probes: differences are surer than values
        told: dict[str, Any] = {"probes": given.probes, "rng": np.random.default_rng(0)}
        return IterativeGram(kernel, points, centres, tol=given.tol, single=single, **told)

    parts.make_gram = make
    return [Draw(draw.kernel, draw.loss)], report


def _from_samples(
    parts: Parts, problem: Problem, rows: int, search: Search, rng: np.random.Generator
) -> tuple[Draw, dict[str, Any]]:
    """Hyperparameters of the exact evidence of ``rows`` points, or of all if there are not more.

    Of half of them, at random, or of these and their nearest neighbours, begun at the first: the
    exact evidence of twice as many points decides.
    """
    climbs = search.kept is None and "subsets" in search.parameter_names()
    samples = Samples(problem, rows, search.get_params().get("balance", True), climbs, rng)
    few = samples.first()
    [draw], report = _decide(parts, few, search, rng)
    first = report["search"]
    first.setdefault("rows", len(few.points))
    leave_if_interrupted(report, few, problem)
    if not samples.halved:
        return draw, report
    near, parts.loss = samples.near(draw.kernel.signal()), draw.loss
    again = search.__sklearn_clone__().set_params(restarts=0, subsets=False)
    [other], best = _run(parts, draw.kernel, near, again, rng)
    leave_if_interrupted({"search": best.report}, near, problem)
    judge, sizes = samples.judge(), [len(few.points), len(near.points)]
    values = [_log_evidence(one, parts, judge) for one in (draw, other)]
    first["samples"] = {"rows": sizes, "values": values, "judged_by": len(judge.points)}
    if values[1] <= values[0]:
        return draw, report
    kept = {key: first[key] for key in ("samples", "starts", "scan", "subsets") if key in first}
    count = first["evaluations"] + best.report["evaluations"]
    return other, report | {"search": best.report | kept | {"rows": sizes[1], "evaluations": count}}


def _refined(
    parts: Parts,
    problem: Problem,
    draw: Draw,
    rng: np.random.Generator,
    centres: Array,
    single: bool,
) -> tuple[Draw, dict[str, Any]]:
    """Steps along the stochastic gradient of the exact evidence of all rows; theory (I12)."""
    given, begin = parts.iterative, list[Array]()
    assert given is not None
    assert parts.search is not None

    def make(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
        assert isinstance(kernel, Kernel)
        told: dict[str, Any] = {"probes": given.probes, "rng": rng, "begin": begin}
        return ProbedGram(kernel, points, centres, tol=SEARCHING, single=single, **told)

    space = Space({"kernel": draw.kernel, "loss": draw.loss}, parts.limits(draw.kernel))
    criterion = EvidenceCriterion(space, problem, parts.inference, make)
    u, told = adam(criterion, space.start, space.bounds, given.refine if len(space) else 0)
    if not told["steps"]:
        return draw, told
    at = space.parts_at(u)
    return Draw(cast(Kernel, at["kernel"]), cast(Loss, at["loss"])), told


def _decide(
    parts: Parts, problem: Problem, search: Search, rng: np.random.Generator
) -> tuple[list[Draw], dict[str, Any]]:
    """Length scales first; of a named kernel powers of columns if the evidence pays for them."""
    if search.kept is not None:
        kernel, loss, found = search.kept
        return [Draw(kernel, loss)], deepcopy(found)
    powers = bending(parts.kernel) if parts.named_kernel else {}
    if not powers or search.knows_powers:
        return _decide_scales(parts, problem, search, rng)
    given = parts.kernel
    parts.kernel = given.fix(*powers)
    draws, report = _decide_scales(parts, problem, search, rng)
    parts.kernel = given
    if interrupted(report):
        return draws, report
    again, reached, parts.loss = search.__sklearn_clone__(), draws[0].kernel, draws[0].loss
    if "restarts" in again.parameter_names():
        again.set_params(restarts=0)
    values = {path: getattr(owner, name) for path, owner, name in reached.differentiable()}
    try:
        others, other = _run(parts, given.replaced(values), problem, again, rng)
        straight, bent = (_log_evidence(draw, parts, problem) for draw in (draws[0], others[0]))
    except Abandoned:
        raise
    except KeyboardInterrupt:
        report["search"]["interrupted"] = True
        return draws, report
    extra, gain = sum(powers.values()), float(bent - straight)
    needed = PRICE * extra * float(np.log(max(problem.row_weights.sum(), 2.0)))
    report["powers"] = _weighed(gain, needed, extra, other)
    report["search"]["interrupted"] = bool(other.report.get("interrupted"))
    return (others if gain > needed else draws), report


def _weighed(gain: float, needed: float, extra: int, tried: Result) -> dict[str, Any]:
    """Return the report of a search with ``extra`` parameters, which are kept if they pay."""
    found = {"kept": gain > needed, "gain": gain, "needed": needed, "extra_parameters": extra}
    return found | {"search": tried.report}


def _decide_scales(
    parts: Parts, problem: Problem, search: Search, rng: np.random.Generator
) -> tuple[list[Draw], dict[str, Any]]:
    """One length scale first, one per column if the evidence pays for it."""
    d = problem.points.shape[1]
    tied = tied_scales(parts.kernel) if parts.named_kernel and d > 1 else []
    first = search.__sklearn_clone__() if tied else search
    if tied:
        first.phase = "first"
    draws, best = _run(parts, parts.kernel, problem, first, rng)
    report: dict[str, Any] = {"search": dict(best.report)}
    if not tied or best.report.get("interrupted"):
        return draws, report
    scanned = best.scanned
    one_start = search.__sklearn_clone__()
    if scanned is None and "restarts" in one_start.parameter_names():
        one_start.set_params(restarts=0)
    if "subsets" in best.report and best.on_some is None:  # some of the rows told nothing
        one_start.set_params(subsets=False)
    parts.loss = draws[0].loss
    extra, needed = price_of_scales(problem.points, float(problem.row_weights.sum()), len(tied))
    try:
        kernel = untied(draws[0].kernel, d)
        if scanned is not None:
            scanned = scanned | {"kernel": untied(cast(Kernel, scanned["kernel"]), d)}
        others, other = _run(parts, kernel, problem, one_start, rng, scanned)
        tied_value, value = (_log_evidence(draw, parts, problem) for draw in (draws[0], others[0]))
        # a gain on some rows that pays for all leaves nothing to decide
        if best.on_some is not None and (other.on_some or -np.inf) - best.on_some <= needed:
            first.phase = "last"
            draws, best = _run(parts, draws[0].kernel, problem, first, rng)
            report["search"] = continued(report["search"], best.report)
            tied_value = _log_evidence(draws[0], parts, problem)
    except Abandoned:
        raise
    except KeyboardInterrupt:
        report["search"]["interrupted"] = True
        return draws, report
    gain = float(value - tied_value)
    report["ard"] = _weighed(gain, needed, extra, other)
    report["search"]["interrupted"] = bool(other.report.get("interrupted"))
    return (others if gain > needed else draws), report


def _log_evidence(draw: Draw, parts: Parts, problem: Problem) -> float:
    """Return the log evidence of a draw, which keeps its posterior if that is small."""
    solved = draw.solve(parts, problem)
    if len(problem.points) <= SMALL:
        draw.solved = solved
    return solved.value


def _run(
    parts: Parts,
    kernel: Kernel,
    problem: Problem,
    search: Search,
    rng: np.random.Generator,
    scanned: dict[str, Component] | None = None,
) -> tuple[list[Draw], Result]:
    """Search from a kernel; ``scanned`` are the parts where a search before this one began."""
    kernel, problem, as_given = in_column_order(kernel, problem)
    bounds = parts.limits(kernel)
    space = Space({"kernel": kernel, "loss": parts.loss}, bounds)
    space.columns = as_given.order
    if scanned is not None:
        space.scanned = Space(scanned, bounds).start
        begun = {"kernel": untied(parts.kernel, problem.points.shape[1]), "loss": parts.loss}
        space.data_scale = Space(begun, bounds).start
    wanted = search.get_params().get("criterion")
    if wanted == "plsc":
        raise ValueError(
            "the criterion 'plsc' trains a sigmoid: it is for ProbabilisticLeastSquaresClassifier; "
            "search by 'evidence' or 'loo'"
        )
    if wanted == "loo" and not parts.loss.offers("quadratic"):
        raise ValueError(
            f"the leave-one-out density of {type(parts.loss).__name__} has no gradient here: it is "
            "a search for the Gaussian loss; search by 'evidence'"
        )
    kind: type[Criterion] = LooCriterion if wanted == "loo" else EvidenceCriterion
    if not parts.named_kernel:
        y = problem.y
        if parts.loss.response in ("binary", "multiclass"):
            y = np.ones_like(y)  # labels have no scale of their own
        elif problem.basis is not None:  # what the basis explains is not an amplitude of the kernel
            y = y - problem.basis @ np.linalg.lstsq(problem.basis, y, rcond=None)[0]
        space.suggest(data_scales(kernel, problem.points, y, problem.weights))
    # chains feel an energy that is not exact; a maximum found roughly is solved exactly afterwards
    inference = parts.inference if search.samples_many else parts.inference.searching()
    criterion = kind(space, problem, inference, parts.make_gram)
    criterion.offset = parts.offset
    if isinstance(criterion, LooCriterion):
        criterion.centred = parts.centred
    results = search.run(criterion, space, rng)
    if inference is not parts.inference:
        results[0].report["inner_tol"] = inference.get_params()["tol"]
    found = [deepcopy(space.parts_at(result.u)) for result in results]  # draws share nothing
    draws = [Draw(as_given(cast(Kernel, at["kernel"])), cast(Loss, at["loss"])) for at in found]
    return draws, results[0]
