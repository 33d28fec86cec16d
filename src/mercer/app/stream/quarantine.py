"""Rows of a stream that cannot be read: set aside in a file, with their place and the reason."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.app.stream.rows import label_of
from mercer.app.terminal import AppError, shown
from mercer.core.arrays import Array
from mercer.tables.files import FileTable, Misshapen

HEADER = ("file", "row", "reason")


@dataclass
class Quarantine:
    """The file of rows that were set aside; it is written as they come, each row once."""

    path: str
    more: bool = False  # whether it goes on with what is there
    _known: set[tuple[str, str]] | None = None  # file and row of all that it has

    def sort_out(
        self, table: FileTable, target: str, numbers: Sequence[str], quantity: bool, partly: bool
    ) -> tuple[FileTable, int]:
        """Return the table without the rows that cannot be read, and how many these are.

        ``numbers`` are the inputs that should be.
        """
        reasons: list[str] = [""] * len(table.places)
        columns = [*numbers, *([target] if quantity else [])]
        for name in columns:
            for i, found in enumerate(_numbers(table, name)):
                if found is not None and not reasons[i]:
                    reasons[i] = found
        if not quantity and not partly:
            for i, value in enumerate(table.columns[target]):
                if label_of(value) is None and not reasons[i]:
                    reasons[i] = f"column '{shown(target)}' has no label"
        bad = np.array([bool(reason) for reason in reasons], dtype=bool)
        if not bad.any():
            return table, 0
        cells = list(table.columns.values())
        index = np.flatnonzero(bad).tolist()
        places = [(table.path, str(table.places[i]), reasons[i]) for i in index]
        rows = [
            [*place, *(str(c[i]) for c in cells)] for place, i in zip(places, index, strict=True)
        ]
        self._write(list(table.columns), rows)
        return _kept(table, ~bad), int(bad.sum())

    def put(self, row: Misshapen) -> None:
        """Set a row aside whose fields are not those of the header, and written as they are."""
        self._write(row.names, [[row.path, f"line {row.line}", row.reason, *row.fields]])

    def _write(self, names: Sequence[str], rows: list[list[str]]) -> None:
        try:
            if self._known is None:
                self._known = _rows_in(self.path) if self.more else set()
                self.more = bool(self._known)
            fresh = [row for row in rows if (row[0], row[1]) not in self._known]
            if not fresh:
                return
            with open(self.path, "a" if self.more else "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if not self.more:
                    writer.writerow([*HEADER, *names])
                writer.writerows(fresh)
        except OSError as error:
            raise AppError(f"{self.path} cannot be written: {error.strerror}") from error
        self._known.update((row[0], row[1]) for row in fresh)
        self.more = True


def _rows_in(path: str) -> set[tuple[str, str]]:
    """Return file and row of all that a quarantine has, with its header; none if it is new."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return {(row[0], row[1]) for row in csv.reader(file) if len(row) > 1}
    except FileNotFoundError:
        return set()
    except (UnicodeError, csv.Error) as error:
        raise AppError(f"{path} is not a file of rows set aside: name another one") from error


def _numbers(table: FileTable, name: str) -> list[str | None]:
    """Return for each row why its entry in a column is no number; None if it is one."""
    column: Any = table.columns[name]
    if isinstance(column, np.ndarray):
        fine = np.isfinite(column)
        return [None if ok else f"column '{shown(name)}' has no finite number" for ok in fine]
    found: list[str | None] = []
    for text in column:
        number = table.number(text)
        if number is None:
            found.append(f"column '{shown(name)}' holds '{shown(text.strip(), 40)}', not a number")
        elif not np.isfinite(number.value):
            found.append(f"column '{shown(name)}' has no finite number")
        else:
            found.append(None)
    return found


def _kept(table: FileTable, keep: Array) -> FileTable:
    """Return the rows of a table where the mask (n,) is True."""
    index = np.flatnonzero(keep).tolist()
    columns = {
        name: column[keep] if isinstance(column, np.ndarray) else [column[i] for i in index]
        for name, column in table.columns.items()
    }
    return replace(table, columns=columns, places=[table.places[i] for i in index])
