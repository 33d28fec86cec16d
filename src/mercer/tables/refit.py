"""Refit: the best candidate on all rows, or on as many as time and memory allow."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.arrays import Array, Index
from mercer.linalg.memory import available_bytes
from mercer.tables.clock import Clock
from mercer.tables.left_out import LeftOut, own_left_out
from mercer.tables.resumed import Resumed, parameters_of
from mercer.tables.screen import Screening, Tried
from mercer.tables.targets import Target

NEAR = 0.05  # nats per row by which a machine that can take all rows may be worse
LAST = 4.0  # evaluations that the posterior and its rows left out cost at the end
MATRICES = 10  # n x n arrays that a fit may need


@dataclass
class Final:
    """The machine that predicts, the rows it was fitted to, and its rows left out."""

    machine: Any
    rows: Index
    left: LeftOut
    left_rows: Index
    notes: list[str]


def refit(
    best: Tried, screening: Screening, X: Array, target: Target, clock: Clock, seed: int
) -> Final:
    """Fit the best candidate to all rows that have a target (and all others, if they help)."""
    known = np.flatnonzero(target.known)
    rows = np.arange(len(X)) if best.candidate.unlabelled else known
    if best.left is None:
        raise ValueError("a candidate without figures cannot be refitted")
    screened = len(screening.rows) + best.candidate.unlabelled * len(screening.others)
    if len(rows) == screened:
        silent(best.candidate, best.machine)
        return Final(best.machine, rows, best.left, screening.rows, best.notes)
    rows, notes = _drawn(best, rows, known, screened, clock, seed)
    last = LAST * _each(best) * (len(rows) / screened) ** 3  # the posterior at what is found
    clock.tell(stage=f"{best.candidate.name} on {len(rows)} rows")
    machine = clone(best.machine)
    advance = clock.watch(
        max(0.0, clock.left - last), stage=f"{best.candidate.name} on {len(rows)} rows"
    )
    if best.candidate.criterion is not None:
        found = parameters_of(best.machine)
        machine.set_params(search=Resumed(found, best.candidate.criterion, progress=advance))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X[rows], target.labels(rows))
        if clock.spent_out:
            notes.append("the search for hyperparameters on all rows was ended by the time budget")
        silent(best.candidate, machine)
        labelled = rows[target.known[rows]]
        k = 0 if target.classes is None else len(target.classes)
        left = own_left_out(machine, X[labelled], target.values[labelled], k)
    notes += list(dict.fromkeys(str(w.message) for w in caught))
    if left is None:  # nothing of its own: the figures of the screening stand for it
        left, labelled = best.left, screening.rows
    return Final(machine, rows, left, labelled, notes)


def _each(best: Tried) -> float:
    """Return the seconds of one evaluation of the search, or of one fit without a search."""
    return best.seconds / max(1, best.evaluations)


def silent(candidate: Any, machine: Any) -> None:
    """Leave the progress bar out of the model: the search by name is the same one."""
    if candidate.criterion is not None:
        machine.set_params(search=candidate.criterion)


def affordable(tried: Tried, rows: int, screened: int, clock: Clock) -> int:
    """Return how many rows a refit can take: its time grows with the cube of their number.

    Never fewer than were screened, never more than there are.
    """
    need = (1.0 + LAST if tried.candidate.criterion else 1.0) * max(_each(tried), 1e-4)
    by_time = int(screened * max(1.0, clock.left / need) ** (1.0 / 3.0))
    by_memory = int((0.7 * available_bytes() / (8 * MATRICES)) ** 0.5)
    return min(rows, max(screened, min(by_time, by_memory)))


def choose(screening: Screening, target: Target, clock: Clock) -> tuple[Tried, list[str]]:
    """Return the candidate to refit: the best, or one nearly as good that can take all rows."""
    best, total = screening.best, int(target.known.sum())
    screened = len(screening.rows)
    if best.candidate.unlabelled or affordable(best, total, screened, clock) == total:
        return best, []
    others = [
        t
        for t in screening.tried
        if t.left is not None
        and best.left is not None
        and t.left.score > best.left.score - NEAR
        and affordable(t, total, screened, clock) == total
    ]
    if not others:
        return best, []
    found = max(others, key=lambda t: t.left.score if t.left is not None else -np.inf)
    note = (
        f"{best.candidate.name} has the greatest score; {found.candidate.name} is nearly as good "
        f"and can be fitted to all {total} rows in the time"
    )
    return found, [note]


def _drawn(
    best: Tried, rows: Index, known: Index, screened: int, clock: Clock, seed: int
) -> tuple[Index, list[str]]:
    """Return the rows of the refit, drawn at random if not all can be taken."""
    limit = affordable(best, len(rows), screened, clock)
    if len(rows) <= limit:
        return rows, []
    rng = np.random.default_rng(seed)
    kept = rng.permutation(known)[:limit]
    others = np.setdiff1d(rows, known)
    kept = np.concatenate([kept, rng.permutation(others)[: max(0, limit - len(kept))]])
    return np.sort(kept), [
        f"refitted on {len(kept)} of {len(rows)} rows, drawn at random: as many as the time budget "
        "or the memory allows"
    ]
