"""Screening: every candidate on at most 500 rows, ranked by rows left out, within a time."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from mercer.core.arrays import Array, Index
from mercer.core.component import Names
from mercer.core.deadline import OutOfTime, out_of_time, until
from mercer.search import Criterion, Optimize, Result, Space
from mercer.search.optimize import Abandoned, interrupted
from mercer.tables.choose.candidates import Candidate, lent
from mercer.tables.choose.left_out import (
    FOLDS,
    LeftOutTable,
    by_folds,
    check_predictions,
    own_left_out,
)
from mercer.tables.choose.ranking import Row, failed, row_of
from mercer.tables.choose.sample import ROWS as ROWS
from mercer.tables.choose.sample import sample
from mercer.tables.data.structure import RowStructure
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted
from mercer.tables.stack.mixture import of_family

Progress = Callable[[dict[str, Any]], None]


class Clock:
    """A budget of seconds, begun now."""

    def __init__(self, budget: float, progress: Progress | None = None) -> None:
        self.budget = budget
        self.progress = progress
        self.began = time.monotonic()
        self.spent_out = False  # the last search was stopped by the clock, not by a person
        self.evaluations = 0
        self.bound: list[str] = []  # what would be otherwise if there were more time

    def bind(self, what: str) -> None:
        """Remember that the budget has changed something, which is said once."""
        if what not in self.bound:
            self.bound.append(what)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """Seconds left, at least zero."""
        return max(0.0, self.budget - self.elapsed)

    @property
    def end(self) -> float:
        """The moment at which the final round is given up, wherever it is."""
        return time.monotonic() + max(self.left, LEAST * self.budget)

    def allow(self, seconds: float) -> None:
        """See to it that at least so many seconds are left."""
        self.budget = max(self.budget, self.elapsed + seconds)

    def tell(self, **event: Any) -> None:
        """Report an event, if anyone listens."""
        if self.progress is not None:
            self.progress(event)

    def watch(self, seconds: float, reserve: float = 0.0, **event: Any) -> Advance:
        """Return a progress function that ends a search in time.

        A search keeps its best point at an interrupt; this is how it is told to stop. ``reserve``
        evaluations, at the pace so far, are to fit into the seconds after it: what follows a
        search is not to be cut short.
        """
        self.spent_out, self.evaluations = False, 0
        ended = f"{event.get('stage', 'a search')}: its search was ended"
        self.bound[:] = [line for line in self.bound if line != ended]  # it goes on
        return Advance(self, seconds, reserve, event)


class Advance:
    """The progress of one search, which it ends in time."""

    def __init__(self, clock: Clock, seconds: float, reserve: float, event: dict[str, Any]) -> None:
        self.clock, self.seconds, self.reserve, self.event = clock, seconds, reserve, event
        self.began, self.worked = time.monotonic(), time.process_time()

    def __call__(self, found: dict[str, Any]) -> None:
        """Tell what was ``found``, and end the search if its time is up."""
        clock, event = self.clock, self.event
        clock.evaluations += 1
        clock.tell(**{**event, **found, "stage": event.get("stage", found.get("stage"))})
        spent = time.monotonic() - self.began
        if spent * (1.0 + self.reserve / clock.evaluations) > self.seconds:
            clock.spent_out = True
            clock.bind(f"{event.get('stage', 'a search')}: its search was ended")
            raise KeyboardInterrupt

    def leaves_no_time(self) -> bool:
        """Whether a person ended it, and what follows a search would keep them waiting."""
        pace = (time.process_time() - self.worked) / max(1, self.clock.evaluations)
        return not self.clock.spent_out and self.reserve * pace > WAIT


class Timed(Optimize):
    """Optimize under a clock: a person who interrupts does not wait for a long last step.

    A search that is interrupted keeps its best point, and the posterior there is computed. Where
    that takes longer than half a second, the fit is given up instead.
    """

    names: ClassVar[Names] = {}  # it belongs to a clock

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        try:
            results = super().run(criterion, space, rng)
            ended = bool(results[0].report.get("interrupted"))
        except KeyboardInterrupt:
            results, ended = [], True
        if ended and out_of_time():
            raise OutOfTime
        if ended and (
            not results or (isinstance(self.progress, Advance) and self.progress.leaves_no_time())
        ):
            raise Abandoned
        if ended and isinstance(self.progress, Advance) and self.progress.clock.spent_out:
            results[0].report["ended"] = "the time budget ended the search"
        return results


def reporter(progress: bool | Progress) -> Progress | None:
    """Return the function that is told of each step, or None."""

    def to_stderr(event: dict[str, Any]) -> None:
        count = f", {event['evaluations']} evaluations" if "evaluations" in event else ""
        end = "\n" if event.get("long") else ""  # how long it will take stays in sight
        sys.stderr.write(f"\r\033[K{event.get('stage', '')}{count}{end}")
        sys.stderr.flush()

    return progress if callable(progress) else to_stderr if progress else None


WAIT = 0.5  # seconds that a person who interrupts is kept waiting for a posterior
NUMERICS = "numerics: "  # begins a note about the computation, not about the data
FEWEST = 2  # folds for a machine that takes long
PART = 4  # every so many rows tell how long a fit to all of them takes
LATE = "not finished: too slow for its share of the time budget"
STRAIGHT = "the same as without: no skewed column pays for being bent"
FAILURES = (ValueError, ArithmeticError, MemoryError, np.linalg.LinAlgError)
LEAST = 0.3  # of the budget, for the final round, whatever came before
GRACE = 1.1  # of its limit, after which a candidate is given up wherever it is
SEVERAL = 4  # classes: of more the averages over a softmax may take longer than all the rest
LAST = 4.0  # evaluations that the posterior and its rows left out cost after a search


@dataclass
class Tried:
    """A candidate that was tried: the best of its machines, its rows left out, its cost."""

    candidate: Candidate
    machine: Any
    left: LeftOutTable | None
    row: Row
    seconds: float
    evaluations: int  # of its search, or the fits of a family without one
    notes: list[str] = field(default_factory=list)
    settings: int = 1  # of the family, of which this one is the best
    kept: LeftOutTable | None = None  # rows left out as they were before they were made honest

    @property
    def each(self) -> float:
        """Seconds of one evaluation of the search, or of one fit without a search."""
        return self.seconds / max(1, self.evaluations)

    @property
    def score(self) -> float:
        """That of its rows left out; minus infinity where there are none."""
        return -np.inf if self.left is None else self.left.score


@dataclass
class Screening:
    """What the screening found."""

    tried: list[Tried]
    rows: Index  # with a target
    others: Index  # without one
    interrupted: bool = False  # a person ended it early
    structure: RowStructure | None = None  # of all rows of the table

    @classmethod
    def begun(cls, target: Target, seed: int) -> Screening:
        """Return a screening whose rows are drawn, and nothing else done."""
        rows, others = sample(target, np.random.default_rng(seed))
        return cls([], rows, others, structure=target.structure)

    @property
    def best(self) -> Tried:
        """The candidate with the greatest score."""
        if not self.scored:
            reasons = "; ".join(f"{t.row.name}: {t.row.by}" for t in self.tried)
            raise ValueError(f"no machine could be fitted to this table ({reasons})")
        return max(self.tried, key=lambda t: t.score)

    @property
    def scored(self) -> bool:
        """Whether any candidate has figures."""
        return any(t.left is not None for t in self.tried)


def screen(
    candidates: list[Candidate],
    X: Array,
    target: Target,
    clock: Clock,
    share: float,
    seed: int,
    found: Screening | None = None,
) -> Screening:
    """Try every candidate; ``share`` of the budget is for all of them together.

    What is found is added to ``found`` as soon as it is known.
    """
    found = found or Screening.begun(target, seed)
    known, others = found.rows, found.others
    for i, named in enumerate(candidates):
        candidate = lent(named, [(t.score, t.machine) for t in found.tried if t.left is not None])
        left = share * clock.budget - clock.elapsed
        if left <= 0 and found.scored:
            clock.bind(f"{candidate.name}: not tried")
            found.tried.append(_without(candidate, 0.0, "not tried: the time budget was used up"))
            continue
        limit = max(0.1, min(left, 1.5 * left / (len(candidates) - i)))
        event = {"stage": candidate.name, "step": i, "steps": len(candidates)}
        rows = np.concatenate([known, others]) if candidate.unlabelled else known
        part = target.take(rows)
        if part.weights is not None and not all(
            has_fit_parameter(machine, "sample_weight")
            for machine in candidate.make(X[rows], part.weights)
        ):
            reason = "not tried: it cannot be fitted to weighted rows"
            found.tried.append(_without(candidate, 0.0, reason))
            continue
        try:
            clock.spent_out = False
            clock.tell(**event)
            advance = clock.watch(limit, LAST, **event)
            needed = not found.scored
            with until(np.inf if needed else time.monotonic() + GRACE * limit):
                given = (candidate, X[rows], part, clock, advance, limit, seed, needed)
                found.tried.append(_try(*given))
        except KeyboardInterrupt:
            if not clock.spent_out:  # a person: keep what is there, if anything is
                found.interrupted = True
                if not found.scored:
                    raise
                break
            found.tried.append(_without(candidate, limit, LATE))
    return found


def _without(candidate: Candidate, seconds: float, reason: str) -> Tried:
    """Return a candidate without figures, and why it has none."""
    row = failed(candidate.name, candidate.sentence, seconds, reason)
    return Tried(candidate, None, None, row, seconds, 0)


def _try(
    candidate: Candidate,
    X: Array,
    target: Target,
    clock: Clock,
    advance: Progress,
    limit: float,
    seed: int,
    needed: bool,
) -> Tried:
    began, labels, weights, k = time.monotonic(), target.labels(), target.weights, target.k
    y, counts = target.values[target.known], target.counts(target.known)
    structure = target.structure_of(target.known)
    best: tuple[Any, LeftOutTable] | None = None
    every: list[LeftOutTable] = []
    fits, failure = 0, "failed: no finite figures"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if (candidate.pilot or k > SEVERAL) and not needed:
                _pilot(candidate, X, labels, weights, limit)
        except (OutOfTime, *FAILURES) as error:
            if isinstance(error, OutOfTime) or str(error) == LATE:
                clock.bind(f"{candidate.name}: not finished")
                error = ValueError(LATE)
            return _without(candidate, time.monotonic() - began, _reason(error))
        family = candidate.make(X, weights)
        for machine in family:
            fits += 1
            try:  # one machine of a family may fail where the others do not
                if candidate.criterion is not None:
                    options: Any = {"balance": not candidate.repeats, "progress": advance}
                    search = Timed(candidate.criterion, candidate.starts, **options)
                    machine.set_params(search=search)
                if "random_state" in machine.get_params(deep=False):
                    machine.set_params(random_state=seed)
                start = time.monotonic()
                fitted(machine, X, labels, weights)
                cost = time.monotonic() - start
                # a search that a person interrupted keeps its best point; the screening ends
                if interrupted(getattr(machine, "report_", None)) and not clock.spent_out:
                    raise OutOfTime if out_of_time() else KeyboardInterrupt
                if candidate.bends and not needed and not _is_bent(machine):
                    raise ValueError(STRAIGHT)
                left = own_left_out(machine, X, y, k, counts, structure)
                if left is None:
                    time_left = limit - (time.monotonic() - began)
                    if FEWEST * cost > time_left and not needed:
                        clock.bind(f"{candidate.name}: not finished")
                        raise ValueError(LATE)
                    folds = FOLDS if FOLDS * cost < time_left else FEWEST
                    if structure is not None and structure.groups is None:
                        folds = FOLDS  # so that all candidates are judged by the same rows
                    if folds < FOLDS:
                        clock.bind(f"{candidate.name}: {folds} folds in place of {FOLDS}")
                    left = by_folds(
                        clone(machine), X, labels, y, k, seed, folds, weights, structure
                    )
                    fits += folds
                if np.isfinite(left.score):
                    every.append(left)
                    if best is None or left.score > best[1].score:
                        check_predictions(machine, X, k)
                        best = machine, left
            except OutOfTime:
                clock.bind(f"{candidate.name}: not finished")
                failure = LATE
                break
            except FAILURES as error:
                failure = _reason(error)
            if (time.monotonic() - began) * (1.0 + 1.0 / fits) > limit:  # nor would the next
                if machine is not family[-1]:
                    clock.bind(f"{candidate.name}: not all of its settings were tried")
                break
    seconds = time.monotonic() - began
    if best is None:
        return _without(candidate, seconds, failure)
    # not the luck of the best
    best = best[0], replace(of_family(every, X[target.known]), by=best[1].by)
    row = row_of(candidate.name, candidate.sentence, *best, seconds)
    notes = told(caught)
    count = fits if candidate.criterion is None else clock.evaluations
    return Tried(candidate, *best, row, seconds, count, notes, len(family))


def told(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return what was warned of; advice about the solvers, which is for Python, is marked."""
    each = (NUMERICS * issubclass(w.category, ConvergenceWarning) + str(w.message) for w in caught)
    return list(dict.fromkeys(each))


def _is_bent(machine: Any) -> bool:
    """Whether the evidence has paid for powers of columns; an object's are there in any case."""
    return not isinstance(machine.kernel, str) or bool(
        machine.report_.get("powers", {}).get("kept")
    )


def _reason(error: Exception) -> str:
    """Return why a candidate has no figures."""
    return str(error) if str(error) in (LATE, STRAIGHT) else f"failed: {error}"


def _pilot(
    candidate: Candidate, X: Array, labels: Any, weights: Array | None, limit: float
) -> None:
    """Refuse a machine that a fit to every fourth row shows to be too slow for ``limit`` seconds.

    The time grows at least with the rows; without a search, with their square, and folds follow.
    """
    began, some, machine = time.monotonic(), slice(None, None, PART), candidate.make(X, weights)[0]
    if len(set(labels[some].tolist())) < 2:  # a rare class: so few rows cannot tell
        return
    times = float((1 + FEWEST) * PART**2 if candidate.pilot else PART)
    if candidate.criterion is not None:
        machine.set_params(search=None)
    with until(began + limit / times):
        fitted(machine, X[some], labels[some], None if weights is None else weights[some])
    if times * (time.monotonic() - began) > limit:
        raise ValueError(LATE)
