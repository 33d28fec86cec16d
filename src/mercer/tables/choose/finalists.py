"""Finalists: the candidates that came out close on few rows, compared once more on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.core.arrays import Array
from mercer.tables.choose.clock import Clock
from mercer.tables.choose.left_out import note_of_repeats
from mercer.tables.choose.refit import Final, affordable, choose, expected, refit
from mercer.tables.choose.screen import FAILURES, Screening, Tried
from mercer.tables.data.target import Target

CLOSE = 0.1  # nats per row within which the order on few rows says little of that on all
MOST = 3


def final_round(
    screening: Screening, X: Array, target: Target, clock: Clock, seed: int
) -> tuple[Tried, Final]:
    """Fit the best candidates to all rows, as far as there is time, and return the best there.

    The order may change with the number of rows: a flexible machine gains more from them. Each is
    given what the others are not expected to need, at least an equal share of the time left; one
    that is not expected to end within it is left out, and one that fails. This is one step of
    successive halving, with rows as the resource.

    Reference: Jamieson & Talwalkar (2016), Non-stochastic best arm identification.
    """
    first, notes = choose(screening, target, clock)
    others = [] if screening.interrupted else _others(first, screening, target, clock)
    best, final, stopped = first, None, False
    while others or final is None:
        tried = first if final is None else others.pop(0)
        kept = sum(expected(t, screening, target) for t in others)
        limit = max(clock.left / (1 + len(others)), clock.left - kept)
        if final is not None and expected(tried, screening, target) > limit:
            continue
        try:
            found = refit(tried, screening, X, target, clock, seed, limit)
        except KeyboardInterrupt:
            if final is None:
                raise
            stopped = True
        except FAILURES:
            if final is None:
                raise
            continue
        else:
            stopped = found.stopped
            if final is None or _better(found, final):
                best, final = tried, found
        if stopped:
            notes.append(
                "interrupted: fewer machines were compared on all rows than planned"
                if others or tried is not first
                else "interrupted: the search on all rows ended early, its best point was kept"
            )
            break
    if best is not first:
        notes += [
            f"{best.candidate.name} was behind {first.candidate.name} on {len(screening.rows)} "
            "rows, and is the best on all"
        ]
    if best.candidate.repeats:
        notes = [*notes, *note_of_repeats(final.left, X[final.left_rows])]
    return best, replace(final, notes=[*notes, *final.notes], stopped=stopped)


def _others(first: Tried, screening: Screening, target: Target, clock: Clock) -> list[Tried]:
    """Return the candidates to compare with the first, best first.

    They and the first must say themselves what they predict of rows left out: otherwise there are
    no figures on all rows. On a table that was screened whole, the comparison has been made; where
    the first cannot take all rows, there are no figures of the same rows.
    """
    total, screened = int(target.known.sum()), len(screening.rows)
    if total == screened or first.candidate.unlabelled or not _own(first):
        return []
    if affordable(first, total, screened, clock) < total:
        return []
    assert first.left is not None
    found = [
        (t.left.score, t)
        for t in screening.tried
        if t is not first
        and t.left is not None
        and _own(t)
        and not t.candidate.unlabelled
        and t.left.score > first.left.score - CLOSE
        and affordable(t, total, screened, clock) == total
        and expected(t, screening, target) < clock.left / 2
    ]
    found.sort(key=lambda pair: -pair[0])
    return [t for _, t in found[: MOST - 1]]


def _better(found: Final, final: Final) -> bool:
    """Whether the rows left out say so: the same ones of both."""
    same = np.array_equal(found.left_rows, final.left_rows)
    return same and found.left.score > final.left.score


def _own(tried: Tried) -> bool:
    return tried.left is not None and tried.left.by == "leave-one-out"
