"""Decide: one machine or a combination of several, from figures of the same rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index, group_rows
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.ranking import Row, row_of
from mercer.tables.choose.screen import Screening, Tried
from mercer.tables.stack.machine import Combination, StackedClassifier, StackedRegressor, in_words
from mercer.tables.stack.mixture import densities, mixed_left_out
from mercer.tables.stack.weights import Weighed, gain, nested, single, stacked

COMBINATION = "combination"
MEMBERS = 4  # at most


@dataclass
class Final:
    """The machine that predicts, its rows and those left out; ``stopped`` by a person.

    ``members`` are the candidates of a combination; ``row`` is its place in the ranking.
    """

    machine: Any
    rows: Index
    left: LeftOutTable
    left_rows: Index
    notes: list[str]
    stopped: bool = False
    members: list[tuple[float, Final]] = field(default_factory=list)
    row: Row | None = None


def combinable(machine: Any) -> bool:
    """Whether a machine has what a mixture needs: of a quantity its distribution function."""
    cls = StackedClassifier if hasattr(machine, "classes_") else StackedRegressor
    return not isinstance(machine, Combination) and all(hasattr(machine, n) for n in cls._needs)


def decide(
    finals: Sequence[tuple[Tried, Final]], screening: Screening, X: Array, alone: bool
) -> tuple[Tried, Final]:
    """Return the best of the fitted candidates, or their combination if that is better.

    The figures of rows left out are those of a choice, or weights, that these rows had no part in.
    Where machines have none of all their rows, those of the screening stand for all of them. X are
    all rows of the table, (n, d).
    ``alone``: one machine, whatever a combination would gain.
    """
    first = finals[0][1].left_rows
    common = all(np.array_equal(final.left_rows, first) for _, final in finals)
    lefts = [final.left if common else tried.left for tried, final in finals]
    figures = [left for left in lefts if left is not None]
    assert len(figures) == len(finals)
    L, counts = densities(figures), figures[0].weights
    rows = first if common else screening.rows
    structure = screening.structure
    same = group_rows(X[rows])[1] if structure is None else structure.take(rows).together
    found = _weighed(alone, finals, L, counts, same)
    best = int(found.weights.argmax())
    tried, final = finals[best]
    if len(finals) == 1:
        return tried, final
    left = mixed_left_out(figures, found.outside, figures[best].by)
    used = np.flatnonzero(found.weights).tolist()
    if len(used) == 1:
        return tried, replace(final, left=left, left_rows=rows)
    more = gain(found.gained, counts)
    return tried, _combination([finals[i] for i in used], found.weights[used], more, left, rows)


def _weighed(
    alone: bool,
    finals: Sequence[tuple[Tried, Final]],
    L: Array,
    counts: Array | None,
    same: Index,
) -> Weighed:
    """Return one machine or several, by log densities L (n, k); those that cannot be mixed alone.

    Rows with equal numbers in ``same`` (n,) stay together.
    """
    mixes = np.array([combinable(final.machine) for _, final in finals])
    first = single(L, counts)
    if alone or not mixes[first.argmax()]:
        return Weighed(first, nested(L, single, counts, same), np.zeros(len(L)))
    found = stacked(L[:, mixes], counts, MEMBERS, same)
    weights, outside = np.zeros(L.shape[1]), np.zeros(L.shape)
    weights[mixes], outside[:, mixes] = found.weights, found.outside
    return Weighed(weights, outside, found.gained)


def _combination(
    parts: Sequence[tuple[Tried, Final]],
    weights: Array,
    more: tuple[float, float],
    left: LeftOutTable,
    rows: Index,
) -> Final:
    """Return the combination; ``more``: what it gains over one machine, and the error of that."""
    names = [tried.candidate.name for tried, _ in parts]
    finals = [final for _, final in parts]
    machines = [final.machine for final in finals]
    cls = StackedClassifier if hasattr(machines[0], "classes_") else StackedRegressor
    machine = cls.of(names, machines, weights)
    every = np.unique(np.concatenate([final.rows for final in finals]))
    sentence = f"several machines as one, by weights: {in_words(names, weights)}"
    seconds = float(sum(tried.seconds for tried, _ in parts))
    row = row_of(COMBINATION, sentence, None, left, seconds, chosen=True)
    told = (
        f"a combination: {in_words(names, weights)}; it predicts rows left out {more[0]:.3f} nats "
        f"per row better than a choice of one machine (standard error {more[1]:.3f}); single=True "
        "(--single) keeps one machine"
    )
    notes = [told, *dict.fromkeys(note for final in finals for note in final.notes)]
    stopped = any(final.stopped for final in finals)
    pairs = list(zip(weights.tolist(), finals, strict=True))
    return Final(machine, every, left, rows, notes, stopped, pairs, row)
