"""Whether rows are evidently not independent, though nobody said so; and which option says it."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array, Index, group_rows
from mercer.core.words import shown
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.data.columns import Column, names_rows
from mercer.tables.data.frame import Frame

FEWEST = 30  # rows, before a test says anything
BEYOND = 3.0902  # standard deviations: one in a thousand, of noise
SORTED = 0.95  # rank correlation with the place in the file, from which the file is sorted
SHARE = 0.2  # of the rows, from which repeated inputs are worth a word
VALUES = 10  # of a column, or groups, from which a repetition is no accident


def signs_of_dependence(
    frame: Frame, columns: list[Column], X: Array, left: LeftOutTable, rows: Index
) -> list[str]:
    """Return a sentence for each sign; ``left`` are figures of ``rows`` (l,) of X (n, d)."""
    return [*_neighbours(left, rows), *_names(frame, columns), *_repeats(frame, columns, X)]


def correlation_of_neighbours(z: Array) -> float:
    """Return the rank correlation of z (n,) with the value before, times sqrt(n).

    It is about standard normal if the order says nothing (Wald & Wolfowitz 1943).

    Examples
    --------
    >>> import numpy as np
    >>> correlation_of_neighbours(np.arange(50.0)) > 6.0
    True
    """
    ranks = np.argsort(np.argsort(z, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    return float(np.sqrt(len(z)) * (ranks[1:] @ ranks[:-1]) / (ranks @ ranks))


def _neighbours(left: LeftOutTable, rows: Index) -> list[str]:
    order = np.argsort(rows, kind="stable")
    close = np.diff(rows[order]) == 1
    if len(rows) < FEWEST or close.mean() < 0.8:
        return []
    y = left.y[order]
    if left.proba is None:
        z = (left.y - left.mean) / left.std
        place = np.argsort(np.argsort(y, kind="stable"), kind="stable")
        ordered = abs(float(np.corrcoef(place, np.arange(len(y)))[0, 1])) > SORTED
    else:
        most = int(np.bincount(left.codes).argmax())
        z = (left.codes == most) - left.proba[:, most]
        ordered = int(np.sum(y[1:] != y[:-1])) < 2 * left.proba.shape[1]
    if ordered or not np.all(np.isfinite(z)):
        return []  # a file that is sorted by its target
    found = correlation_of_neighbours(z[order])
    if found <= BEYOND:
        return []
    r = found / np.sqrt(len(z))
    return [
        f"rows that follow each other in the table are alike beyond what the inputs say (what is "
        f"left over has a rank correlation of {r:.2f} with the row before, {found:.1f} standard "
        "errors): they are probably not independent, and figures of rows left out too good. If "
        "rows belong together name the column that says so (group=, or --group), if they follow "
        "each other in time that of the time (time=, or --time)"
    ]


def _names(frame: Frame, columns: list[Column]) -> list[str]:
    for column in columns:
        if column.name in frame.columns and names_rows(column.name):
            values = frame.columns[column.name][~frame.missing(column.name)].tolist()
            different = len(set(values))
            if different >= VALUES and len(values) >= 2 * different:
                return [
                    f"column '{shown(column.name, 40)}' names {different} things in {len(values)} "
                    "rows: if rows of one belong together, they are to be left out together "
                    f"(group='{shown(column.name, 40)}', or --group)"
                ]
    return []


def _repeats(frame: Frame, columns: list[Column], X: Array) -> list[str]:
    used = [c.name for c in columns if c.kind == "numeric" and c.name in frame.columns]
    measured = any(len(np.unique(frame.columns[name])) > VALUES for name in used)
    count = len(X) - len(group_rows(X)[0])
    if not measured or count < SHARE * len(X):
        return []
    return [
        f"{count} of {len(X)} rows have the inputs of another row: if they are repeated "
        "measurements of the same thing, leave them out together (group=, or --group)"
    ]
