"""Honest: rows left out by hyperparameters that they did not help to find.

A machine that is fitted once and leaves out each row keeps hyperparameters that all rows have
chosen; its figures are too good by about one to two nats in all for each of them. Here every fifth
of the rows is left out by those that a search found on the other four: the rest is as before, so
that nothing but the advantage is taken away. Of machines of a family the others' rows choose.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array, Index, group_rows
from mercer.core.deadline import OutOfTime, until
from mercer.estimators.spline.estimator import SmoothingSpline
from mercer.search.optimize import interrupted
from mercer.tables.choose.candidates import Candidate
from mercer.tables.choose.left_out import LeftOutTable, own_left_out
from mercer.tables.choose.ranking import row_of
from mercer.tables.choose.resume import Known, Resumed, found_by, parameters_of
from mercer.tables.choose.screen import FAILURES, GRACE, Clock, Screening, Timed, Tried
from mercer.tables.data.structure import RowStructure
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted
from mercer.tables.stack.mixture import densities, mixed_left_out

FOLDS = 5
EACH = 1.5  # nats in all, about, for each hyperparameter, where they were not searched again
NESTED = "leave-one-out, nested"
BY_GROUP = "leave-group-out, nested"
NEAR = 0.1  # nats per row behind the best, within which the order may be that of the advantage
COST = 1.0  # of the time of a search, expected for that of a fold
MOST = 3.0  # nats that a row may add to a charge


def nested_left_out(
    machine: Any,
    candidate: Candidate,
    X: Array,
    target: Target,
    seed: int,
    progress: Any = False,
) -> LeftOutTable | None:
    """Return the figures of a machine that was fitted to X (n, d), all of them with a target.

    Its searches on four fifths begin where its own began. Of an evidence with several starts they
    begin at what it found, but for scales of columns. None where it has no figures of its own or
    nothing was searched.
    """
    y, labels, counts, k = target.values, target.labels(), target.counts(target.known), target.k
    found, criterion = parameters_of(machine), candidate.criterion
    structure = target.structure
    part = _fifths(X, y, k, seed) if structure is None else _of_groups(structure, y, k, seed)
    if criterion is None or not found or part is None:
        return None
    options: Any = {"balance": not candidate.repeats, "progress": progress}
    lefts: list[LeftOutTable] = []
    for fold in range(FOLDS):
        train = part != fold
        other = clone(machine).set_params(search=_afresh(candidate, found, options))
        try:
            fitted(other, X[train], labels[train], None if counts is None else counts[train])
            if interrupted(other.report_) and (lefts or not _by_the_clock(progress)):
                raise KeyboardInterrupt  # what was cut short says less than what was not
            whole = clone(machine).set_params(search=Known(found_by(other), criterion, **options))
            left = own_left_out(fitted(whole, X, labels, counts), X, y, k, counts, structure)
        except (OutOfTime, KeyboardInterrupt) as end:
            if isinstance(end, KeyboardInterrupt) and not _by_the_clock(progress):
                raise
            if not lefts:
                raise OutOfTime from end
            break
        if left is None:
            return None
        lefts.append(left)
    by = NESTED if structure is None else BY_GROUP
    if len(lefts) == FOLDS:
        return mixed_left_out(lefts, np.eye(FOLDS)[part], by)
    kept = own_left_out(machine, X, y, k, counts, structure)
    return None if kept is None else _in_part(lefts, kept, part, by)


def _in_part(lefts: list[LeftOutTable], kept: LeftOutTable, part: Index, by: str) -> LeftOutTable:
    """Return figures of which some fifths are nested, and the rest loses as much as these do.

    ``kept`` are those with the hyperparameters of all rows; a row counts three nats at most.
    """
    done = len(lefts)
    place = np.minimum(part, done)  # (n,) which of the figures a row has
    nested = mixed_left_out(lefts, np.eye(done)[np.minimum(part, done - 1)])
    charge = _lost(kept, nested, part < done)
    every = [*lefts, replace(kept, charge=max(0.0, charge))]
    return mixed_left_out(every, np.eye(done + 1)[place], by)


def _lost(kept: LeftOutTable, left: LeftOutTable, some: Any = slice(None)) -> float:
    """Return by how many nats per row figures are less than those with hyperparameters kept.

    A row counts three nats at most: it says that there is a risk, not how great.
    """
    lost = np.clip(densities([kept])[:, 0] - densities([left])[:, 0], -MOST, MOST)
    weights = None if kept.weights is None else kept.weights[some]
    return float(np.average(lost[some], weights=weights))


def _afresh(candidate: Candidate, found: dict[str, Any], options: dict[str, Any]) -> Timed:
    """Return a search whose end the rows left out have no part in."""
    assert candidate.criterion is not None
    if candidate.starts and candidate.criterion == "evidence":
        return Resumed(found, "evidence", columns=False, **options)  # of few maxima the same one
    return Timed(candidate.criterion, candidate.starts, **options)


def _of_groups(structure: RowStructure, y: Array, k: int, seed: int) -> Index | None:
    """Return to which fifth of the groups each row belongs, (n,); None in time, or of too few."""
    if structure.groups is None or len(np.unique(structure.groups)) < 2 * FOLDS:
        return None
    part = np.empty(len(y), dtype=np.intp)
    for number, (_, test) in enumerate(structure.folds(y, k, seed, FOLDS)):
        part[test] = number
    return part


def _fifths(X: Array, y: Array, k: int, seed: int) -> Index | None:
    """Return to which fifth each row belongs, (n,); None of hardly any inputs, or of a rare class.

    Every class has its share of each; rows with equal inputs stay together, so that a row of weight
    two and two equal rows have the same figures.
    """
    first, group = group_rows(X)
    codes = y[first].astype(np.intp) if k else np.zeros(len(first), dtype=np.intp)
    mixed = np.random.default_rng(seed).permutation(len(first))
    order = np.argsort(codes[mixed], kind="stable")
    place = np.empty(len(first), dtype=np.intp)
    place[mixed[order]] = np.arange(len(first)) % FOLDS
    part = np.asarray(place[group])
    if len(first) < 2 * FOLDS:
        return None
    if k and any(len(np.unique(y[part != fold])) < k for fold in range(FOLDS)):
        return None
    return part


def _by_the_clock(progress: Any) -> bool:
    return bool(getattr(getattr(progress, "clock", None), "spent_out", False))


def charged(machine: Any, left: LeftOutTable) -> LeftOutTable:
    """Return figures with a charge for what was tuned on the same rows, where it is not nested."""
    if not left.by.startswith("leave-one-out") or left.by == NESTED:
        return left
    return replace(left, charge=EACH * tuned(machine) / _count(left))


def tuned(machine: Any) -> int:
    """Return how many hyperparameters were fitted to the rows."""
    if isinstance(machine, SmoothingSpline):
        return 2  # smoothness and noise
    slope = np.size(getattr(machine, "slope_", ()))  # a sigmoid on rows left out
    offsets = np.size(getattr(machine, "offsets_", ())) if slope else 0
    searched = getattr(machine, "report_", {}).get("search") is not None
    found = parameters_of(machine).values() if searched else ()
    return slope + offsets + sum(int(np.size(value)) for value in found)


def settle(found: Screening, X: Array, target: Target, clock: Clock, share: float) -> None:
    """Make the figures of the screening honest: nested where a candidate may win, else charged.

    The best is first; ``share`` of the budget is the time at which the rest is charged.
    """
    part, seed = target.take(found.rows), 0
    best, waiting = -np.inf, sorted(found.tried, key=lambda t: -t.score)
    while waiting:
        tried, top = waiting[0], max(best, waiting[0].score)
        searched = [t.score for t in waiting if t.candidate.criterion is not None]
        near, waiting = sum(score > top - NEAR for score in searched), waiting[1:]
        if tried.left is None:
            continue
        began, seconds = time.monotonic(), share * clock.budget - clock.elapsed
        one = COST * tried.seconds  # of a fold, which the best are to have in any case
        seconds = min(seconds, max(seconds / max(1, near), one))
        left = None
        if tried.score > best - NEAR and one <= seconds:
            stage = f"{tried.candidate.name}: {FOLDS} folds"
            clock.tell(stage=stage)
            advance = clock.watch(seconds, stage=stage)
            given = (tried.machine, tried.candidate, X[found.rows], part, seed, advance)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said of the fit to all of these rows
                try:
                    with until(began + GRACE * seconds):
                        left = nested_left_out(*given)
                except OutOfTime:
                    clock.bind(f"{tried.candidate.name}: figures that are not nested")
                except FAILURES:
                    left = None
        elif tried.score > best - NEAR and tried.candidate.criterion is not None:
            clock.bind(f"{tried.candidate.name}: charged for its hyperparameters by their number")
        if left is None or not np.isfinite(left.score):
            left = charged(tried.machine, tried.left)
        tried.left, tried.kept = left, tried.left
        c, spent = tried.candidate, tried.seconds + time.monotonic() - began
        tried.row = row_of(c.name, c.sentence, tried.machine, left, spent)
        best = max(best, left.score)


def refitted(tried: Tried, machine: Any, left: LeftOutTable) -> LeftOutTable:
    """Return the figures of a machine on more rows, charged as on those of the screening.

    What nested figures are less than those with hyperparameters kept, in all, stays about the same
    with more rows.
    """
    kept = tried.kept
    if not left.by.startswith(("leave-one-out", "leave-group-out")):
        return left
    if tried.left is None or kept is None:
        return left
    if tried.left.by not in (NESTED, BY_GROUP):
        return charged(machine, left)
    total = _lost(kept, tried.left) * _count(kept)
    return replace(left, charge=max(0.0, total / _count(left)))


def _count(left: LeftOutTable) -> float:
    return len(left.y) if left.weights is None else float(left.weights.sum())
