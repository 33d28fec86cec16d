"""Learn: from a table to the best machine for it, within a time; what an estimator keeps of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from mercer.core.deadline import OutOfTime, until
from mercer.core.memory import dgemm_rate
from mercer.core.words import did_you_mean, rejoined, shown
from mercer.tables.choose.candidates import candidates_for, is_counted, is_skewed, with_kernel
from mercer.tables.choose.effects import for_kernel, for_structure
from mercer.tables.choose.honest import settle
from mercer.tables.choose.left_out import trimmed
from mercer.tables.choose.many import final_of_many
from mercer.tables.choose.notes import influence_of, notes_of
from mercer.tables.choose.ranking import row_of
from mercer.tables.choose.refit import final_round, stopped_early, takes_all
from mercer.tables.choose.resume import carry_on
from mercer.tables.choose.sample import ROWS
from mercer.tables.choose.screen import Clock, Screening, reporter, screen
from mercer.tables.data.columns import GROUP, Column, infer_columns
from mercer.tables.data.encode import fit_encoder
from mercer.tables.data.frame import Frame
from mercer.tables.data.structure import read_structure
from mercer.tables.data.target import copies_of, read_target
from mercer.tables.data.weights import notes_of_weights, read_weights
from mercer.tables.expect import expect
from mercer.tables.judge.bounds import lower_bound, notes_of_bound
from mercer.tables.judge.classes import notes_of_classes
from mercer.tables.judge.dependent import signs_of_dependence
from mercer.tables.judge.simple import constant
from mercer.tables.judge.verdict import Verdict, judge

SCREENING, ALONE = 0.4, 0.8  # shares of the budget for the screening: if a refit follows, if not
NESTING = 0.2  # of the budget, to make the figures of the screening honest
READING = 0.2  # of the budget, at most, is what reading and encoding the table count for
PROBE = 0.02  # seconds in which the speed of the computer is measured
PATIENCE = 2.0  # seconds, at least, for the comparison with the simplest models
MARGIN = 0.85  # of the budget is planned with: the last steps are not cut short


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are what, as :func:`mercer.fit` says it.

    ``labels`` (n,) are those of the target column as they are to be predicted; None: as it has
    them. Groups that came beside the table are a column of it all the same, ``beside``.
    """

    target: str
    features: Sequence[str] | None = None
    weights: Any = None
    group: str | None = None
    time: str | None = None
    kind: str | None = None
    labels: Any = None
    beside: bool = False


def learn(whole: Frame, roles: Roles, estimator: Any, seed: int) -> dict[str, Any]:
    """Return the attributes of a fitted :class:`~mercer.tables.model.TableModel`, by name.

    The parameters of the ``estimator`` say how much time there is, and what is tried.
    """
    target, features, group, kind = roles.target, roles.features, roles.group, roles.kind
    time_budget, candidates, kernel = estimator.time_budget, estimator.candidates, estimator.kernel
    if not (isinstance(time_budget, (int, float)) and time_budget > 0):
        raise ValueError(f"time_budget must be a positive number of seconds, not {time_budget!r}")
    clock = Clock(MARGIN * float(time_budget), reporter(estimator.progress))
    started = time.monotonic()
    column = roles.weights if isinstance(roles.weights, str) else None
    given = _names(whole, target, features, column, group)
    structure = read_structure(whole, group, roles.time)
    counts = read_weights(whole, roles.weights)
    there = np.arange(whole.n) if counts is None else np.flatnonzero(counts)
    frame = whole if len(there) == whole.n else whole.take(there)
    lost = int(frame.missing(target).sum())
    if frame.n - lost < 2:
        raise ValueError(
            f"Found {frame.n - lost} sample (n_samples={frame.n - lost}) with a value of "
            f"'{shown(target)}', and {lost} rows that have no value: at least two are needed"
        )
    goal = read_target(frame, target, kind)
    if roles.labels is not None and goal.classes is not None:
        own = roles.labels[there][goal.known]
        goal = replace(goal, classes=np.unique(own if goal.known.all() else np.array(own.tolist())))
    goal = replace(goal, weights=None if counts is None else counts[there])
    goal = replace(goal, structure=None if structure is None else structure.take(there))
    kept = np.arange(frame.n) if goal.kind == "partly" else np.flatnonzero(goal.known)
    columns = infer_columns(frame.take(kept), given, features is not None)
    if group is not None:  # where it stands in the table
        place = sum(name in given for name in whole.names[: whole.names.index(group)])
        columns.insert(place if features is None else len(columns), Column(group, "group", GROUP))
    if not any(c.used and c.kind != "group" for c in columns):
        rules = "; ".join(f"'{shown(c.name, 30)}': {c.rule}" for c in columns[:5])
        raise ValueError(f"no column says anything about '{shown(target)}' ({rules})")
    goal_kept = goal.take(kept)
    encoder, X = fit_encoder(frame.take(kept), columns, goal_kept.weights)
    line = X.shape[1] == 1 and [c.kind for c in columns if c.used] == ["numeric"]
    values = goal_kept.values[goal_kept.known]
    shape = () if goal.k else (is_skewed(values), is_counted(values))
    every = candidates_for(goal.kind, X, line, goal.k, goal.weights is not None, *shape)
    every, lacking = for_structure(every, X, goal_kept)
    chosen = every if kernel is None else []
    if candidates is not None:
        known = [c.name for c in every]
        candidates = rejoined(candidates, known)
        other = next((name for name in candidates if name not in known), None)
        if other is not None or not candidates:
            hint = did_you_mean(str(other), known)
            names = ", ".join(f"'{name}'" for name in known)
            raise ValueError(
                f"there is no candidate {other!r}; known are {names}{'; ' if hint else ''}{hint}"
            )
        chosen = [c for c in every if c.name in candidates]
    if kernel is not None:
        chosen += for_kernel(with_kernel(goal.kind, kernel, goal.k), X, goal_kept)
    clock.began += max(0.0, clock.elapsed - READING * clock.budget)  # many rows take their time
    share = ALONE if len(X) <= ROWS else SCREENING
    with threadpool_limits(1):  # matrices of 500 rows gain nothing from threads, and wait for them
        size = int(goal_kept.known.sum()), X.shape[1], goal.k
        rate = dgemm_rate(PROBE, time.thread_time)  # what else runs now may end soon
        expected = expect(len(chosen), *size, float(time_budget), rate)
        clock.tell(stage=expected.words(), expected=expected.seconds, long=expected.long)
        found = Screening.begun(goal_kept, seed)
        try:
            screen(chosen, X, goal_kept, clock, share, seed, found)
            if not found.interrupted:
                carry_on(found, X, goal_kept, clock, share)
                settle(found, X, goal_kept, clock, share + NESTING)
        except KeyboardInterrupt:  # wherever it came
            if not found.scored:
                raise
            found.interrupted = True
    try:
        fits = found.interrupted or takes_all(found, goal_kept, clock)
        last = final_round if fits else final_of_many
        with until(clock.end):
            best, final = last(found, X, goal_kept, clock, seed, bool(estimator.single))
    except KeyboardInterrupt:
        best, final = stopped_early(found, len(X))
    plain = "the share of each class" if goal.k else "the mean of the target"
    y, weight = goal_kept.values[found.rows], goal_kept.counts(found.rows)
    guess = constant(y, goal.k, weight, goal_kept.structure_of(found.rows))
    base = row_of("constant", f"no inputs: {plain}, to compare with", None, guess, 0.0)
    rows = [replace(t.row, chosen=t is best and not final.members) for t in found.tried]
    more = [] if final.row is None else [final.row]
    ranking = sorted([*more, *rows, base], key=lambda r: np.inf if r.score is None else -r.score)
    bound = None if goal.k else lower_bound(values)
    left, left_rows = trimmed(final.left, final.left_rows)
    signs: list[str] = []
    if structure is None:
        signs = signs_of_dependence(frame.take(kept), columns, X, left, left_rows)
    plain_inputs = X if group is None else X[:, :-1]  # a group is no quantity
    verdict = None
    try:
        with until(max(started + time_budget, time.monotonic() + PATIENCE)):
            verdict = judge(final.left, final.left_rows, plain_inputs, goal_kept, seed)
    except OutOfTime:
        clock.bind("no comparison with the simplest models")
    return {
        "pipeline_": Pipeline([("columns", encoder), ("machine", final.machine)]),
        "kind_": goal.kind,
        "target_": target,
        "classes_": goal.classes,
        "columns_": columns,
        "ranking_": ranking,
        "left_out_": left,
        "left_rows_": there[kept[left_rows]],
        "rows_": there[kept[final.rows]],
        "given_": whole.n,
        "notes_": [
            *notes_of_weights(counts),
            *lacking,
            *signs,
            *copies_of(frame.take(kept), columns, goal_kept),
            *notes_of(goal, columns, found, final, ranking),
            *notes_of_classes(final.left, goal.classes),
            *notes_of_bound(final.left, bound),
            *_of_edges(verdict, not goal.k),
        ],
        "seconds_": time.monotonic() - started,
        "report_": {
            "target": {"at_least": bound},
            "time": {
                "budget": float(time_budget),
                "expected": expected.seconds,
                "used": time.monotonic() - started,
                "bound": clock.bound,
            },
        },
        "influence_": influence_of(final, X, goal_kept),
        "frame_": whole,
        "weights_": counts,
        "weighted_by_": column,
        "grouped_by_": group,
        "groups_beside_": roles.beside,
        "ordered_by_": roles.time,
        "verdict_": verdict,
        "reading_": whole.reading,
        "interrupted_": found.interrupted or final.stopped,
    }


def _of_edges(verdict: Verdict | None, quantity: bool) -> list[str]:
    """Say what trees would gain, if they would."""
    edges = None if verdict is None else verdict.edges
    return [edges.words(quantity)] if edges and edges.found else []


def _names(
    frame: Frame,
    target: str,
    features: Sequence[str] | None,
    weights: str | None,
    group: str | None = None,
) -> list[str]:
    other = [name for name in (target, weights, group) if name is not None]
    for name in [*other, *(features or [])]:
        if name not in frame.columns:
            have = ", ".join(f"'{shown(n, 40)}'" for n in frame.names[:12])
            hint = did_you_mean(str(name), frame.names) or f"its columns are {have}"
            raise ValueError(f"the table has no column '{shown(str(name))}'; {hint}")
    if group is not None and group in (target, weights):
        raise ValueError(f"'{shown(group)}' cannot be the groups and target or weights too")
    if weights == target:
        raise ValueError(f"'{shown(target)}' cannot be the target and the weights too")
    names = list(features) if features is not None else [n for n in frame.names if n not in other]
    for name in names:
        if name in other or names.count(name) > 1:
            also = "target" if weights is None else "target or weights"
            raise ValueError(f"'{shown(name)}' cannot be an input twice, nor the {also} too")
    if not names:
        raise ValueError(f"there is no column besides '{shown(target)}': nothing to learn from")
    return names
