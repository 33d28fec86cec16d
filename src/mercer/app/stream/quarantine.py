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
from mercer.tables.files import FileTable

HEADER = ("file", "row", "reason")


@dataclass
class Quarantine:
    """The file of rows that were set aside; it is written as they come."""

    path: str
    more: bool = False  # whether it goes on with what is there

    def sort_out(
        self, table: FileTable, target: str, numbers: Sequence[str], words: Sequence[str],
        quantity: bool, partly: bool, write: bool,
    ) -> tuple[FileTable, int]:  # fmt: skip
        """Return the table without the rows that cannot be read, and how many these are.

        ``numbers`` and ``words`` are the inputs. Nothing is written if the rows were seen before.
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
        if write:
            self._write(table, bad, reasons)
        return _kept(table, ~bad), int(bad.sum())

    def _write(self, table: FileTable, bad: Array, reasons: Sequence[str]) -> None:
        names = list(table.columns)
        try:
            with open(self.path, "a" if self.more else "w", newline="", encoding="utf-8") as file:
                rows = csv.writer(file)
                if not self.more:
                    rows.writerow([*HEADER, *names])
                for i in np.flatnonzero(bad).tolist():
                    cells = [str(table.columns[name][i]) for name in names]
                    rows.writerow([table.path, table.places[i], reasons[i], *cells])
        except OSError as error:
            raise AppError(f"{self.path} cannot be written: {error.strerror}") from error
        self.more = True


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
