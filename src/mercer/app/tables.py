"""Tables: columns of numbers by name, from CSV or parquet files, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mercer.app.csvfile import parse_number, read_csv
from mercer.app.errors import AppError, did_you_mean, quoted, shown
from mercer.app.parquetfile import read_parquet
from mercer.arrays import Array


@dataclass(frozen=True)
class Table:
    """A table as it was read: every column as text (CSV) or as numbers (parquet).

    Attributes
    ----------
    path : where it came from, for messages.
    columns : by name, each of length n.
    places : (n,) where each row stands, "line 7" or "row 7".
    """

    path: str
    columns: Mapping[str, Sequence[str] | Array]
    places: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The column names, in order."""
        return list(self.columns)

    def check(self, names: Sequence[str], what: str) -> None:
        """Refuse names that the table does not have; ``what`` they are is part of the sentence."""
        lost = [name for name in names if name not in self.columns]
        if len(lost) == 1:
            hint = did_you_mean(lost[0], self.names)
            raise AppError(f"{self.path} has no column '{shown(lost[0])}' ({what}); {hint}")
        if lost:
            raise AppError(f"{self.path} lacks {len(lost)} columns ({what}): {quoted(lost)}")

    def numbers(self, names: Sequence[str]) -> Array:
        """Return the named columns as float64 (n, len(names)); NaN where a value is missing."""
        out = np.empty((len(self.places), len(names)))
        for j, name in enumerate(names):
            column = self.columns[name]
            if isinstance(column, np.ndarray):
                out[:, j] = column
            else:
                out[:, j] = [self._number(name, i, text) for i, text in enumerate(column)]
            for i in np.flatnonzero(np.isinf(out[:, j]))[:1]:
                raise AppError(
                    f"{self.path}, {self.places[i]}: column '{shown(name)}' holds a number that is "
                    "not finite"
                )
        return out

    def _number(self, name: str, i: int, text: str) -> float:
        value = parse_number(text)
        if value is None:
            raise AppError(
                f"{self.path}, {self.places[i]}: column '{shown(name)}' holds "
                f"'{shown(text.strip(), 40)}', not a number; mend it, or choose the columns with "
                "--features"
            )
        return value

    def complete(self, values: Array, names: Sequence[str], remedy: str | None) -> Array:
        """Return which rows of ``values`` (n, d) have no missing value, a boolean mask (n,).

        With a ``remedy`` (an option of the command) missing values are refused and it is named.
        """
        absent = np.isnan(values)
        if remedy is not None and absent.any():
            i, j = np.argwhere(absent)[0]
            count = int(absent.any(axis=1).sum())
            raise AppError(
                f"{self.path}, {self.places[i]}: column '{shown(names[j])}' has no value "
                f"({count} of {len(values)} rows lack one); fill in the missing values, or pass "
                f"{remedy}"
            )
        return np.asarray(~absent.any(axis=1))


def read_table(path: str, delimiter: str = ",") -> Table:
    """Read a table: parquet by its suffix (needs polars), anything else as strict CSV."""
    if path.lower().endswith((".parquet", ".pq")):
        columns, rows = read_parquet(path)
        return _with_rows(Table(path, columns, [f"row {i + 1}" for i in range(rows)]))
    names, texts, lines = read_csv(path, delimiter)
    table = Table(path, dict(zip(names, texts, strict=True)), [f"line {n}" for n in lines])
    return _with_rows(table)


def _with_rows(table: Table) -> Table:
    if not len(table.places):
        raise AppError(f"{table.path} has a header but no rows")
    return table
