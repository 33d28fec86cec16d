"""Frame: a table as columns of numbers, dates and text, wherever it came from."""

from __future__ import annotations

import datetime
import numbers
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.tables.data.reading import Reading

DAY = 86400.0  # seconds
LARGEST = 1e150
EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Frame:
    """A table by columns.

    Attributes
    ----------
    columns : by name, (n,) each: float64 (numbers and dates, NaN where missing), or objects, text
        or None where missing.
    dates : the names of the columns that hold days since 1970.
    n : the number of rows.
    reading : what the file was taken for that it was read from; None: it came from elsewhere.
    """

    columns: Mapping[str, Any]
    dates: frozenset[str]
    n: int
    reading: Reading | None = None

    @property
    def names(self) -> list[str]:
        """The column names, in order."""
        return list(self.columns)

    def kind(self, name: str) -> str:
        """Return "date", "number" or "text"."""
        if name in self.dates:
            return "date"
        return "text" if self.columns[name].dtype == object else "number"

    def missing(self, name: str) -> Any:
        """Return where the column has no value, a boolean mask (n,)."""
        column = self.columns[name]
        if column.dtype == object:
            return np.asarray(column == None, dtype=bool)  # noqa: E711  # of each element
        return np.isnan(column)

    def take(self, rows: Any) -> Frame:
        """Return the rows with these numbers, or where a mask is True."""
        kept = {name: column[rows] for name, column in self.columns.items()}
        count = len(next(iter(kept.values()))) if kept else 0
        return Frame(kept, self.dates, count, self.reading)

    def matrix(self, names: Sequence[str], texts: Sequence[bool]) -> Any:
        """Return the named columns side by side, (n, d): float64, or objects if there is text.

        ``texts`` (d,) says which hold text; text that is missing is the empty text. A column
        without any value is of the kind that is wanted.
        """
        out = np.empty((self.n, len(names)), dtype=object if any(texts) else np.float64)
        for j, (name, text) in enumerate(zip(names, texts, strict=True)):
            column, gap = self.columns[name], "" if text else np.nan
            filled = text or column.dtype == object
            out[:, j] = np.where(self.missing(name), gap, column) if filled else column
        return out


def as_frame(table: Any) -> Frame:
    """Return a table as a Frame.

    Accepted are pandas, polars and pyarrow tables, mappings from name to column, structured and
    two-dimensional NumPy arrays (columns x0, x1, ...).

    Examples
    --------
    >>> frame = as_frame({"size": [1, 2, None], "town": ["Ulm", None, "Bonn"]})
    >>> frame.kind("size"), frame.kind("town"), frame.n
    ('number', 'text', 3)
    """
    if isinstance(table, Frame):
        return table
    if hasattr(table, "lazy") and hasattr(table, "collect"):  # a LazyFrame of polars
        table = table.collect()
    found: dict[str, tuple[Any, bool]] = {}
    for name, values in _columns(table):
        if name in found:
            raise ValueError(f"the column name '{shown(name)}' occurs twice")
        found[name] = _column(name, values)
    lengths = {len(c) for c, _ in found.values()}
    if len(lengths) > 1:
        raise ValueError(f"the columns have different lengths: {sorted(lengths)}")
    return joined(found, lengths.pop() if lengths else 0)


def joined(found: Mapping[str, tuple[Any, bool]], n: int) -> Frame:
    """Return the frame of (column (n,), whether it holds dates) by name."""
    dates = frozenset(name for name, (_, date) in found.items() if date)
    return Frame({name: column for name, (column, _) in found.items()}, dates, n)


def _columns(table: Any) -> list[tuple[str, Any]]:
    if isinstance(table, Mapping):
        return [(str(name), values) for name, values in table.items()]
    if hasattr(table, "column_names") and hasattr(table, "to_pydict"):  # pyarrow
        return [(str(name), table[name].to_pylist()) for name in table.column_names]
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
        return [(str(name), table[name]) for name in table.columns]
    if hasattr(table, "dtype"):
        array = np.asarray(table)
        if array.dtype.names:
            return [(name, array[name]) for name in array.dtype.names]
        if array.ndim == 2:
            return [(f"x{j}", array[:, j]) for j in range(array.shape[1])]
    if isinstance(table, (str, os.PathLike)):
        raise TypeError(
            "the name of a file is not a table: read it first, as with mercer.read_table, or use "
            "the command `mercer fit`"
        )
    raise TypeError(
        f"a {type(table).__name__} is not a table: give a pandas, polars or pyarrow table, a "
        "mapping from column name to values, or a two-dimensional array"
    )


def _column(name: str, values: Any) -> tuple[Any, bool]:
    """Return (column, whether it holds dates)."""
    if hasattr(values, "to_physical") and values.dtype.is_numeric():  # polars, without a list
        values = values.to_numpy() if values.null_count() == 0 else values
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind in ("f", "i", "u") and hasattr(values, "__array__"):
        return _finite(name, np.asarray(values, dtype=np.float64)), False
    if kind == "M" and isinstance(values, np.ndarray):
        values = values.astype("datetime64[us]")
    array = np.ndarray.tolist(values) if isinstance(values, np.ndarray) else values
    listed = values.to_list() if hasattr(values, "to_list") else list(array)
    known = [v for v in listed if not _absent(v)]
    if all(isinstance(v, (bool, np.bool_)) for v in known) and known:
        words = {True: "true", False: "false"}
        return objects(None if _absent(v) else words[bool(v)] for v in listed), False
    if all(_number(v) for v in known):
        floats = [np.nan if _absent(v) else float(v) for v in listed]
        return _finite(name, np.array(floats, dtype=np.float64)), False
    if all(isinstance(v, (datetime.date, np.datetime64)) for v in known):
        return np.array([np.nan if _absent(v) else days(v) for v in listed]), True
    count = sum(isinstance(v, str) for v in known)
    mixed = all(isinstance(v, str) or _number(v) for v in known)
    if count == len(known) or (mixed and 2 * count > len(known)):
        return objects(None if _absent(v) else str(v) for v in listed), False
    odd = next(v for v in known if not _number(v))
    what = f"'{shown(odd, 40)}'" if isinstance(odd, str) else f"a {type(odd).__name__}"
    raise ValueError(
        f"column '{shown(name)}' holds {what} among other things: a column is numbers, text, "
        "dates or truth values; mend it or leave it out"
    )


def days(value: Any) -> float:
    """Return a date or time as days since the beginning of 1970, as its clock shows it.

    Examples
    --------
    >>> import datetime
    >>> days(datetime.date(1970, 1, 3)), days(datetime.datetime(1970, 1, 1, 12))
    (2.0, 0.5)
    """
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / (DAY * 1e6)
    if not isinstance(value, datetime.datetime):
        return float((value - EPOCH.date()).days)
    return (value.replace(tzinfo=None) - EPOCH).total_seconds() / DAY


def objects(values: Any) -> Any:
    """Return the values as an array of objects, (n,)."""
    listed = list(values)
    out = np.empty(len(listed), dtype=object)
    out[:] = listed
    return out


def _number(value: Any) -> bool:
    no_number = (bool, np.bool_, np.timedelta64)  # the last is an integer to Python
    return isinstance(value, numbers.Real) and not isinstance(value, no_number)


def _absent(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float) and value != value


def _finite(name: str, column: Array) -> Array:
    if np.isinf(column).any():
        raise ValueError(f"column '{shown(name)}' holds a number that is not finite")
    if np.any(np.abs(column) > LARGEST):  # NaN is not
        raise ValueError(
            f"column '{shown(name)}' holds numbers beyond {LARGEST:g}, whose squares double "
            "precision does not hold: state it in a larger unit"
        )
    return column
