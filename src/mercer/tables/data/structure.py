"""RowStructure: rows that belong together, or follow each other in time, and how they are left out.

Rows of a group are left out together: what is said of a row left out is then true of a row of a
group that nobody has seen. In time a row is predicted from earlier ones alone (rolling origin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from mercer.core.arrays import Array, Index
from mercer.core.words import shown
from mercer.tables.data.frame import Frame

FEWEST = 5  # groups, or different times, from which figures can be made
ORIGINS = 6  # stretches of time: each but the first is predicted from those before it


@dataclass(frozen=True)
class RowStructure:
    """Which rows belong together (``groups``), or when they were (``times``)."""

    name: str  # of the column
    groups: Index | None = None  # (n,) equal numbers for rows of the same group
    times: Array | None = None  # (n,)

    def take(self, rows: Any) -> RowStructure:
        """Return the structure of some rows."""
        groups = None if self.groups is None else self.groups[rows]
        return RowStructure(self.name, groups, None if self.times is None else self.times[rows])

    @property
    def together(self) -> Index:
        """Equal numbers (n,) for rows that are never on both sides: a group, or a time."""
        given: Any = self.times if self.groups is None else self.groups
        return np.unique(given, return_inverse=True)[1].ravel()

    def folds(self, y: Array, k: int, seed: int, folds: int) -> list[tuple[Index, Index]]:
        """Return (train, test) rows: groups apart, or a stretch of time after all before it.

        y (n,) are the targets, or codes of k classes, whose shares are kept as far as groups let.
        """
        if self.groups is None:
            stretch = self._stretches(folds + 1)
            pairs = [(stretch < s, stretch == s) for s in range(1, int(stretch.max()) + 1)]
            return [(np.flatnonzero(a), np.flatnonzero(b)) for a, b in pairs]
        count = min(folds, len(np.unique(self.groups)))
        if count < 2:
            raise ValueError(f"'{shown(self.name)}' has one group only: it cannot be left out")
        kind: Any = StratifiedGroupKFold if k else GroupKFold
        split = kind(count, shuffle=True, random_state=seed)
        return [(a, b) for a, b in split.split(y, y, self.groups) if len(b)]

    def _stretches(self, count: int) -> Index:
        """Return to which of so many stretches each row belongs, (n,); equal times to the same."""
        assert self.times is not None
        order = np.argsort(self.times, kind="stable")
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order)) * count // len(order)
        _, inverse = np.unique(self.times, return_inverse=True)
        first = np.full(int(inverse.max()) + 1, count)
        np.minimum.at(first, inverse.ravel(), place)
        return np.unique(first[inverse.ravel()], return_inverse=True)[1].ravel()

    def some(self, rows: Index, limit: int, rng: np.random.Generator) -> Index:
        """Return at most about ``limit`` of the rows: whole groups, or the latest ones."""
        if len(rows) <= limit:
            return rows
        if self.times is not None and self.groups is None:
            order = np.argsort(self.times[rows], kind="stable")
            late = len(rows) // 10  # for a last comparison, which is of later rows
            return np.sort(rows[order[: len(rows) - late][-limit:]])
        assert self.groups is not None
        own = self.groups[rows]
        kept = np.zeros(len(rows), dtype=bool)
        for code in rng.permutation(np.unique(own)):
            more = kept | (own == code)
            if more.sum() > limit and len(np.unique(own[kept])) >= 2 * FEWEST:
                break
            kept = more
        return rows[kept]

    def held(self, rows: Index, count: int, rng: np.random.Generator) -> Index:
        """Return about ``count`` of the rows to hold out: whole groups, or the latest ones."""
        if self.groups is None:
            assert self.times is not None
            when: Array = self.times[rows]
            cut = np.sort(when)[-count]  # rows of one time stay on one side of it
            late, later = np.flatnonzero(when >= cut), np.flatnonzero(when > cut)
            return rows[late if len(late) <= 2 * count or not len(later) else later]
        own, kept = self.groups[rows], np.zeros(len(rows), dtype=bool)
        for code in rng.permutation(np.unique(own)):
            if kept.sum() >= count:
                break
            kept |= own == code
        return rows[kept]

    @property
    def by(self) -> str:
        """How rows are left out, in words."""
        return "rows of later times" if self.groups is None else "leave-group-out"


def read_structure(frame: Frame, group: str | None, time: str | None) -> RowStructure | None:
    """Return the structure that columns of a table name; None where none is named."""
    if group is not None and time is not None:
        raise ValueError(
            "rows are left out by group or by time: name one of them, and leave the other an input"
        )
    name = group if group is not None else time
    if name is None:
        return None
    if name not in frame.columns:
        raise ValueError(f"the table has no column '{shown(name)}'")
    lost = int(frame.missing(name).sum())
    if lost:
        raise ValueError(
            f"{lost} rows have no value of '{shown(name)}': fill them in, or leave the rows out"
        )
    values = frame.columns[name]
    if time is not None:
        if frame.kind(name) == "text":
            raise ValueError(f"'{shown(name)}' is text, not a time: a time is a date or a number")
        found = RowStructure(name, times=np.asarray(values, dtype=np.float64))
    else:
        codes = np.unique(values.astype(str) if values.dtype == object else values,
                          return_inverse=True)[1].ravel()  # fmt: skip
        found = RowStructure(name, groups=codes)
    count = len(np.unique(found.together))
    if count < FEWEST:
        what = "groups" if time is None else "different times"
        raise ValueError(f"'{shown(name)}' has {count} {what}: at least {FEWEST} are needed")
    return found
