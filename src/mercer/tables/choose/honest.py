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
from mercer.tables.choose.screen import FAILURES, GRACE, Clock, Screening, Tried
from mercer.tables.data.structure import RowStructure
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted
from mercer.tables.stack.mixture import densities, mixed_left_out

FOLDS = 5
EACH = 1.5  # nats in all, about, for each hyperparameter, where they were not searched again
NESTED = "leave-one-out, nested"
BY_GROUP = "leave-group-out, nested"
NEAR = 0.1  # nats per row behind the best, within which the order may be that of the advantage
COST = 1.0  # of the time of a search, expected for those of the folds
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

    Its searches on four fifths begin at what it found. None where it has no figures of its own or
    nothing was searched.
    """
    y, labels, counts, k = target.values, target.labels(), target.counts(target.known), target.k
    found, criterion = parameters_of(machine), candidate.criterion
    structure = target.structure
    part = _fifths(X, y, k, seed) if structure is None else _of_groups(structure, y, k, seed)
    if criterion is None or not found or part is None:
        return None
    options: Any = {"balance": not candidate.repeats, "progress": progress}
    lefts = []
    for fold in range(FOLDS):
        train = part != fold
        other = clone(machine).set_params(search=Resumed(found, criterion, **options))
        fitted(other, X[train], labels[train], None if counts is None else counts[train])
        if interrupted(other.report_) and not _by_the_clock(progress):
            raise KeyboardInterrupt
        whole = clone(machine).set_params(search=Known(found_by(other), criterion, **options))
        left = own_left_out(fitted(whole, X, labels, counts), X, y, k, counts, structure)
        if left is None:
            return None
        lefts.append(left)
    return mixed_left_out(lefts, np.eye(FOLDS)[part], NESTED if structure is None else BY_GROUP)


def _of_groups(structure: RowStructure, y: Array, k: int, seed: int) -> Index | None:
    """Return to which fifth of the groups each row belongs, (n,); None in time, or of too few."""
    if structure.groups is None or len(np.unique(structure.groups)) < 2 * FOLDS:
        return None
    part = np.empty(len(y), dtype=np.intp)
    for number, (_, test) in enumerate(structure.folds(y, k, seed, FOLDS)):
        part[test] = number
    return part


def _fifths(X: Array, y: Array, k: int, seed: int) -> Index | None:
    """Return to which fifth each row belongs, (n,); None where a class has too few inputs.

    Every class has its share of each; rows with equal inputs stay together, so that a row of weight
    two and two equal rows have the same figures.
    """
    first, group = group_rows(X)
    codes = y[first].astype(np.intp) if k else np.zeros(len(first), dtype=np.intp)
    if np.bincount(codes, minlength=max(k, 1)).min() < FOLDS:
        return None
    order = np.argsort(codes[mixed := np.random.default_rng(seed).permutation(len(first))])
    place = np.empty(len(first), dtype=np.intp)
    place[mixed[order]] = np.arange(len(first)) % FOLDS
    return np.asarray(place[group])


def _by_the_clock(progress: Any) -> bool:
    return bool(getattr(getattr(progress, "clock", None), "spent_out", False))


def charged(machine: Any, left: LeftOutTable) -> LeftOutTable:
    """Return figures with a charge for what was tuned on the same rows, where it is not nested."""
    if not left.by.startswith("leave-one-out") or left.by == NESTED:
        return left
    counts = len(left.y) if left.weights is None else float(left.weights.sum())
    return replace(left, charge=EACH * tuned(machine) / counts)


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
    best = -np.inf
    for tried in sorted(found.tried, key=lambda t: -t.score):
        if tried.left is None:
            continue
        began, seconds = time.monotonic(), share * clock.budget - clock.elapsed
        left = None
        if tried.score > best - NEAR and COST * tried.seconds < seconds:
            stage = f"{tried.candidate.name}: {FOLDS} folds"
            clock.tell(stage=stage)
            advance = clock.watch(seconds / FOLDS, stage=stage)
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
    with more rows. A row counts three nats at most: it says that there is a risk, not how great.
    """
    kept = tried.kept
    if not left.by.startswith(("leave-one-out", "leave-group-out")):
        return left
    if tried.left is None or kept is None:
        return left
    if tried.left.by not in (NESTED, BY_GROUP):
        return charged(machine, left)
    lost = densities([kept])[:, 0] - densities([tried.left])[:, 0]
    w = np.ones(len(lost)) if kept.weights is None else kept.weights
    total = float(w @ np.clip(lost, -MOST, MOST))
    counts = len(left.y) if left.weights is None else float(left.weights.sum())
    return replace(left, charge=max(0.0, total / counts))
