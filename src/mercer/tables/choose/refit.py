"""Refit: the best candidates on all rows, or on as many as time and memory allow.

Their searches resume at what was found on fewer rows; those that came out close are compared again.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array, Index
from mercer.core.deadline import OutOfTime
from mercer.linalg.representation import Inducing, Representation
from mercer.search import Optimize
from mercer.search.optimize import interrupted
from mercer.tables.choose.afford import affordable, growth
from mercer.tables.choose.decide import Final, decide
from mercer.tables.choose.honest import refitted
from mercer.tables.choose.left_out import (
    LeftOutTable,
    check_predictions,
    in_pairs,
    in_turn,
    note_of_repeats,
    own_left_out,
    trimmed,
)
from mercer.tables.choose.resume import (
    Known,
    Resumed,
    found_by,
    parameters_of,
    points_of,
    unfinished,
)
from mercer.tables.choose.screen import (
    FAILURES,
    LAST,
    Clock,
    Screening,
    Tried,
    reporter,
    told,
)
from mercer.tables.data.encode import encoded, fit_encoder
from mercer.tables.data.frame import as_frame
from mercer.tables.data.structure import read_structure
from mercer.tables.data.target import Target, read_target
from mercer.tables.data.weights import fitted, read_weights
from mercer.tables.stack.machine import Combination
from mercer.tables.stack.mixture import densities
from mercer.tables.stack.weights import free

RESUMED = 12.0  # evaluations of a search that begins at what was found on fewer rows


def refit(
    best: Tried,
    screening: Screening,
    X: Array,
    target: Target,
    clock: Clock,
    seed: int,
    limit: float,
    begun: Any = None,
) -> Final:
    """Fit a candidate to all rows that have a target (and all others, if they help).

    Its search ends in time for all to be ready after ``limit`` seconds. It begins where that of the
    screening has ended, or where that of a machine that was ``begun`` on these rows was cut short.
    """
    known = np.flatnonzero(target.known)
    rows = np.arange(len(X)) if best.candidate.unlabelled else known
    assert best.left is not None
    screened = len(screening.rows) + best.candidate.unlabelled * len(screening.others)
    if len(rows) == screened:
        return as_screened(best, screening, rows)
    notes = []
    most = affordable(best, len(rows), screened, clock.left)
    if len(rows) > most:  # draw as many at random, those with a target first
        rng = np.random.default_rng(seed)
        kept = rng.permutation(known)[:most]
        others = rng.permutation(np.setdiff1d(rows, known))[: max(0, most - len(kept))]
        notes.append(
            f"refitted on {len(kept) + len(others)} of {len(rows)} rows, drawn at random: as many "
            "as the time budget or the memory allows"
        )
        rows = np.sort(np.concatenate([kept, others]))
        clock.bind(f"{best.candidate.name}: fitted to {len(rows)} rows")
    stage, criterion = f"{best.candidate.name} on {len(rows)} rows", best.candidate.criterion
    clock.tell(stage=stage)
    machine = clone(best.machine)
    advance = clock.watch(limit, LAST, stage=stage)
    if criterion is not None:
        options: Any = {"progress": advance, "balance": not best.candidate.repeats}
        found = parameters_of(best.machine if begun is None else begun)
        machine.set_params(search=Resumed(found, criterion, **options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(machine, X[rows], target.labels(rows), target.counts(rows))
        if clock.spent_out:
            notes.append("the search for hyperparameters on all rows was ended by the time budget")
        stated(best, machine)
        labelled = rows[target.known[rows]]
        y, counts = target.values[labelled], target.counts(labelled)
        structure = target.structure_of(labelled)
        left = own_left_out(machine, X[labelled], y, target.k, counts, structure)
        check_predictions(machine, X[labelled], target.k)
    notes += told(caught)
    if left is None:  # nothing of its own: the figures of the screening stand for it
        left, labelled = best.left, screening.rows
    else:
        left = refitted(best, machine, left)
    stopped = interrupted(getattr(machine, "report_", None)) and not clock.spent_out
    return Final(machine, rows, left, labelled, notes, stopped)


def as_screened(best: Tried, screening: Screening, rows: Index) -> Final:
    """Return the machine of the screening, which was fitted to ``rows``."""
    assert best.left is not None
    stated(best, best.machine)
    return Final(best.machine, rows, best.left, screening.rows, list(best.notes))


def stopped_early(screening: Screening, total: int) -> tuple[Tried, Final]:
    """What there is after an interrupt: the best machine of the screening, of ``total`` rows."""
    best, rows = screening.best, screening.rows
    if best.candidate.unlabelled:
        rows = np.concatenate([rows, screening.others])
    final = as_screened(best, screening, rows)
    if len(rows) < total:
        final.notes.insert(0, f"interrupted before a fit to all {total} rows: {len(rows)} are used")
    return best, replace(final, stopped=True)


def too_late(screening: Screening, total: int, clock: Clock) -> tuple[Tried, Final]:
    """What there is when the time budget ends before any fit to all ``total`` rows."""
    best, final = stopped_early(screening, total)
    clock.bind("no fit to all rows was finished")
    note = f"the time budget ended before a fit to all {total} rows: {len(final.rows)} are used"
    notes = [note, *final.notes[1:]] if len(final.rows) < total else final.notes
    return best, replace(final, notes=notes, stopped=False)


def stated(tried: Tried, machine: Any) -> None:
    """Leave the progress bar out of the model, and say of how many settings it is the best.

    The search by name is the same one.
    """
    candidate, report = tried.candidate, getattr(machine, "report_", None)
    if tried.settings > 1 and report is not None:
        report["settings"] = tried.settings
    if candidate.criterion is not None:
        literal = Optimize(candidate.criterion, balance=False)
        machine.set_params(search=literal if candidate.repeats else candidate.criterion)


def expected(tried: Tried, screening: Screening, target: Target) -> float:
    """Return the seconds that a refit will take, from those of the screening."""
    count = RESUMED + LAST if tried.candidate.criterion is not None else 1.0
    return count * tried.each * float(growth(target.known.sum() / len(screening.rows)))


def takes_all(screening: Screening, target: Target, clock: Clock) -> bool:
    """Whether the best candidate can be fitted to all rows exactly, in time and memory."""
    total, best = int(target.known.sum()), screening.best
    return (
        best.candidate.unlabelled
        or affordable(best, total, len(screening.rows), clock.left) == total
    )


CLOSE = 0.1  # nats per row within which the order on few rows says little of that on all
MOST = 4
WEIGHT = 0.05  # in the combination of the screening, from which a candidate is fitted to all rows
OWN = ("leave-one-out", "leave-group-out")  # figures that a machine has of its own rows


def final_round(
    screening: Screening, X: Array, target: Target, clock: Clock, seed: int, alone: bool = False
) -> tuple[Tried, Final]:
    """Fit the best candidates to all rows, as far as there is time; return the best, or several.

    A flexible machine gains more from rows. Each is given what the others are not expected to need,
    at least an equal share of the time left; one that is not expected to end within it is left out,
    and one that fails. This is one step of successive halving, with rows as the resource
    (Jamieson & Talwalkar 2016, Non-stochastic best arm identification).
    """
    if screening.interrupted:
        return stopped_early(screening, len(X))
    if int(target.known.sum()) == len(screening.rows) and _screened_whole(screening, len(X)):
        return _of_screening(screening, X, alone)
    first, notes = screening.best, list[str]()
    others = _others(first, screening, target, clock)
    spare = sorted((t for t in screening.tried if t.left is not None), key=lambda t: -t.score)
    finals: list[tuple[Tried, Final]] = []
    stopped = False
    while others or not finals:
        tried = others.pop(0) if finals else first
        kept = sum(expected(t, screening, target) for t in others)
        limit = max(clock.left / (1 + len(others)), clock.left - kept)
        if finals and expected(tried, screening, target) > limit:
            clock.bind(f"{tried.candidate.name}: not compared on all rows")
            continue
        try:
            found = refit(tried, screening, X, target, clock, seed, limit)
        except OutOfTime:
            if not finals:
                return too_late(screening, len(X), clock)
            clock.bind(f"{tried.candidate.name}: not compared on all rows")
            break
        except KeyboardInterrupt:
            if not finals:
                return stopped_early(screening, len(X))
            stopped = True
        except FAILURES as error:
            if not finals:
                # one that cannot be fitted to all rows, or cannot predict, gives way to the next
                spare = [t for t in spare if t is not first]
                if not spare:
                    raise
                notes.append(f"{first.candidate.name} failed on all rows: {error}")
                first = spare[0]
                others = [t for t in others if t is not first]
            continue
        else:
            stopped = found.stopped
            finals.append((tried, found))
        if stopped:
            notes.append(
                "interrupted: fewer machines were compared on all rows than planned"
                if others or tried is not first
                else "interrupted: the search on all rows ended early, its best point was kept"
            )
            break
    for i in sorted(range(len(finals)), key=lambda i: -finals[i][1].left.score):
        tried, found = finals[i]
        enough = expected(tried, screening, target) < clock.left
        if stopped or not enough or not unfinished(found.machine):
            continue
        try:
            more = refit(tried, screening, X, target, clock, seed, clock.left, found.machine)
            finals[i], stopped = (tried, more), more.stopped
        except (OutOfTime, *FAILURES):  # what there is stays
            clock.bind(f"{tried.candidate.name}: its search was ended")
    best, final = decide(finals, screening, X, alone)
    if best is not first and not final.members:
        notes.append(
            f"{best.candidate.name} was behind {first.candidate.name} on {len(screening.rows)} "
            "rows, and is the best on all"
        )
    if best.candidate.repeats:
        notes += note_of_repeats(final.left, X[final.left_rows])
    return best, replace(final, notes=[*notes, *final.notes], stopped=stopped)


def _screened_whole(screening: Screening, total: int) -> bool:
    """Whether the screening had all rows, those without a target too if a candidate uses them."""
    return total == len(screening.rows) + len(screening.others) or not len(screening.others)


def _of_screening(screening: Screening, X: Array, alone: bool) -> tuple[Tried, Final]:
    """Return the best machine of a screening that had all rows, or the combination of several."""
    finals = []
    for tried in sorted(screening.tried, key=lambda t: -t.score):
        if tried.left is not None:
            unlabelled = screening.others if tried.candidate.unlabelled else screening.others[:0]
            rows = np.sort(np.concatenate([screening.rows, unlabelled]))
            finals.append((tried, as_screened(tried, screening, rows)))
    best, final = decide(finals, screening, X, alone)
    if best.candidate.repeats:
        repeats = note_of_repeats(final.left, X[final.left_rows])
        final = replace(final, notes=[*repeats, *final.notes])
    return best, final


def _others(first: Tried, screening: Screening, target: Target, clock: Clock) -> list[Tried]:
    """Return the candidates to compare with the first, best first.

    There are figures of the same rows only of machines that can take all of them and say themselves
    what they predict of those left out. A table that was screened whole needs no comparison.
    """
    total, screened = int(target.known.sum()), len(screening.rows)

    def comparable(t: Tried) -> bool:
        own = t.left is not None and t.left.by.startswith(OWN)
        return own and not t.candidate.unlabelled

    def in_time(t: Tried) -> bool:
        return affordable(t, total, screened, clock.left) == total

    if total == screened or not comparable(first) or not in_time(first):
        return []
    scored = [t for t in screening.tried if t.left is not None]
    lefts = [t.left for t in scored if t.left is not None]
    weights = free(densities(lefts), lefts[0].weights)
    share = {id(t): w > WEIGHT for t, w in zip(scored, weights.tolist(), strict=True)}
    near = (t for t in scored if t is not first and comparable(t))
    found: list[Tried] = []
    for t in sorted(near, key=lambda t: (-share[id(t)], -t.score)):
        if (t.score <= first.score - CLOSE and not share[id(t)]) or len(found) == MOST - 1:
            break
        if in_time(t) and expected(t, screening, target) < clock.left / 2:
            found.append(t)
        else:
            clock.bind(f"{t.candidate.name}: not compared on all rows")
    return found


def cross_validate(model: Any, table: Any, folds: int, progress: Any) -> LeftOutTable:
    """Return predictions of each row with a target by a pipeline that did not see it."""
    frame = model.frame_ if table is None else as_frame(table)
    if frame is None:
        raise ValueError("a model file does not hold the training table: give it as table=...")
    if not isinstance(folds, int) or folds < 2:
        raise ValueError(f"folds must be a whole number, at least 2, not {folds!r}")
    weights = model.weights_  # of its column, or those that were given in ``fit``
    if model.weighted_by_ is not None:
        weights = read_weights(frame, model.weighted_by_)
    elif weights is not None and len(weights) != frame.n:
        raise ValueError(
            f"the model was fitted to {len(weights)} weighted rows, and this table has "
            f"{frame.n}: give the training table, whose weights are known"
        )
    if weights is not None:
        frame, weights = frame.take(weights > 0.0), weights[weights > 0.0]
    kind = "regression" if model.classes_ is None else "classification"
    structure = read_structure(frame, model.grouped_by_, model.ordered_by_)
    target = replace(read_target(frame, model.target_, kind), weights=weights, structure=structure)
    known, k = np.flatnonzero(target.known), target.k
    y = target.values[known]
    if k and int(np.bincount(y.astype(np.intp)).min()) < folds:
        raise ValueError(f"a class has fewer than {folds} rows: choose fewer folds")
    tell = reporter(progress) or (lambda event: None)
    steps = itertools.count()

    def part(train: Index, test: Index) -> tuple[Any, Array]:
        i = next(steps)
        tell({"stage": f"fold {i + 1} of {folds}", "step": i, "steps": folds})
        machine, step = _fitted(model, frame, target, known[test])
        return machine, encoded(step, frame.take(known[test]), model.columns_)

    structure, counts = target.structure_of(known), target.counts(known)
    if structure is None:
        return in_turn(part, y, k, 0, folds, counts)
    left = in_pairs(part, y, k, structure.folds(y, k, 0, folds), counts)
    return trimmed(replace(left, by=structure.by), known)[0]


def _fitted(model: Any, frame: Any, target: Target, hidden: Any) -> tuple[Any, Any]:
    """Return machine and encoder, fitted without the targets of the hidden rows."""
    machine = again(model.machine_)
    rows = np.setdiff1d(np.arange(frame.n), hidden)
    if not model.learns_unlabelled_:
        rows = rows[target.known[rows]]
    weights = target.counts(rows)
    step, X = fit_encoder(frame.take(rows), model.columns_, weights)
    fitted(machine, X, target.labels(rows), weights)
    if interrupted(getattr(machine, "report_", None)):
        raise KeyboardInterrupt  # its search has taken it for a wish to end early
    return machine, step


def again(fitted_to: Any) -> Any:
    """Return an unfitted machine whose search begins at what a fitted one has found.

    On inducing points, or solved by products alone, hyperparameters and points are kept.
    """
    if isinstance(fitted_to, Combination):
        return fitted_to.again(again)
    machine = clone(fitted_to)
    params, found = machine.get_params(deep=False), parameters_of(fitted_to)
    search, gram = params.get("search"), params.get("gram")
    criterion, balance = getattr(search, "criterion", search), getattr(search, "balance", True)
    if not (isinstance(criterion, str) and "gram" in params and found):
        return machine  # the others search as they do
    if isinstance(gram, Representation):
        machine.set_params(search=Known(found_by(fitted_to), criterion, balance=balance))
        if isinstance(gram, Inducing):
            machine.set_params(gram=points_of(fitted_to))
    else:
        machine.set_params(search=Resumed(found, criterion, balance=balance))
    return machine
