"""Tables as they were read from CSV or parquet files, and the frames that they become."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.app.files.formats import (
    MISSING,
    is_parquet,
    label_of_path,
    parse_number,
    parse_plain,
    read_csv,
    read_parquet,
)
from mercer.app.terminal import AppError, quoted, shown
from mercer.core.arrays import Array
from mercer.core.words import did_you_mean
from mercer.tables.data.frame import Frame, days, joined, objects


@dataclass(frozen=True)
class FileTable:
    """A table as it was read: every column as text (CSV) or as numbers (parquet)."""

    path: str  # where it came from, for messages
    columns: Mapping[str, Sequence[str] | Array]  # by name, each of length n
    places: Sequence[str]  # (n,) where each row stands, "line 7" or "row 7"
    notes: Sequence[str] = ()  # what was done in reading it

    @property
    def names(self) -> list[str]:
        """The column names, in order."""
        return list(self.columns)

    def check(self, names: Sequence[str], what: str) -> None:
        """Refuse names that the table does not have; ``what`` they are is part of the sentence."""
        lost = [name for name in names if name not in self.columns]
        if len(lost) == 1:
            hint = did_you_mean(lost[0], self.names) or f"its columns are {quoted(self.names)}"
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
                plain = parse_plain(column)
                each = (self._number(name, i, text) for i, text in enumerate(column))
                out[:, j] = list(each) if plain is None else plain
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


def read_table(path: str, delimiter: str = ",") -> FileTable:
    """Read a table: parquet by its suffix (needs polars), anything else as strict CSV."""
    label, notes = label_of_path(path), []
    if is_parquet(path):
        columns, rows = read_parquet(path)
        places = [f"row {i + 1}" for i in range(rows)]
    else:
        head, texts, lines = read_csv(path, delimiter)
        columns, notes = dict(zip(head.names, texts, strict=True)), head.notes
        places = [f"line {n}" for n in lines]
    if not places:
        raise AppError(f"{label} has a header but no rows")
    return FileTable(label, columns, places, notes)


KINDS = {"numeric": "number", "date": "date", "categorical": "text", "text": "text"}


def frame_of(
    data: FileTable, names: Sequence[str], kinds: Mapping[str, str] | None = None
) -> Frame:
    """Return the named columns; ``kinds`` (by name, as a model has them) leave no choice.

    Without kinds a column of text is numbers if all of it is, else dates in ISO form if all of it
    is, else text. Numbers with a few other texts among them are refused: which is the mistake?
    """
    wanted = dict.fromkeys(names) if kinds is None else {n: KINDS[kinds[n]] for n in names}
    return joined({n: _column(data, n, wanted[n]) for n in names}, len(data.places))


def _column(data: FileTable, name: str, wanted: str | None) -> tuple[Any, bool]:
    given = data.columns[name]
    if isinstance(given, np.ndarray):
        if wanted == "text":
            return objects([None if v != v else _word(f"{v:g}") for v in given]), False
        if wanted == "date":
            raise AppError(f"{data.path}: column '{shown(name)}' holds numbers, not dates")
        return data.numbers([name])[:, 0], False
    plain = parse_plain(given) if wanted in (None, "number") else None
    if plain is not None:
        return plain, False
    texts = [None if t.strip().lower() in MISSING else t.strip() for t in given]
    if wanted == "number" or (wanted is None and _numeric(data, name, texts)):
        return data.numbers([name])[:, 0], False
    found = None if wanted == "text" else _dates(texts)
    if found is not None:
        return found, True
    if wanted == "date":
        raise AppError(
            f"{data.path}: column '{shown(name)}' holds something that is not a date such as "
            "2026-01-31"
        )
    return objects([None if t is None else _word(t) for t in texts]), False


def _numeric(data: FileTable, name: str, texts: list[str | None]) -> bool:
    """Whether the column is numbers; refuse one that mostly is."""
    known = [t for t in texts if t is not None]
    count = sum(parse_number(t) is not None for t in known)
    if not known or count == len(known):
        return True
    if 2 * count >= len(known):
        data.numbers([name])  # says which line holds what
    return False


def _dates(texts: list[str | None]) -> Any:
    """Return days since 1970 (n,), NaN where missing; None if some text is not a date."""
    out = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if text is None:
            continue
        try:
            out[i] = days(datetime.datetime.fromisoformat(text))
        except ValueError:
            return None
    return out


def _word(text: str) -> str:
    return text.lower() if text.lower() in ("true", "false") else text
