"""Reading tables from files: CSV by strict rules, and parquet.

The rules of CSV: UTF-8 (a byte order mark is accepted); the first line is the header; every name
is there once and is not empty; every row has as many fields as the header; fields may be quoted
with double quotes; blanks around a field do not count. Empty lines are accepted at the end only. A
missing value is an empty field or one of NA, N/A, NaN, null, None, in any case. Numbers are written
with a decimal point, without separators for thousands.

Parquet is read with polars: null is a missing value; true and false are 1 and 0.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator
from typing import Any, TextIO

from mercer.app.terminal import AppError, require, shown

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def is_parquet(path: str) -> bool:
    """Whether a file is parquet, by its suffix."""
    return path.lower().endswith((".parquet", ".pq"))


def read_csv(path: str, delimiter: str = ",") -> tuple[list[str], list[list[str]], list[int]]:
    """Return the names, the columns as text, and the line in the file where each row begins."""
    with open(path, encoding="utf-8-sig", newline="") as file, utf8(path):
        names, rows = open_rows(file, path, delimiter)
        found = list(rows)
    columns = [list(c) for c in zip(*(row for _, row in found), strict=True)] or [[] for _ in names]
    return names, columns, [line for line, _ in found]


@contextlib.contextmanager
def utf8(path: str) -> Iterator[None]:
    """Say in a sentence that a file is not UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise AppError(
            f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}): "
            'save it again as UTF-8 (in a spreadsheet: "CSV UTF-8")'
        ) from None


def open_rows(
    file: TextIO, path: str, delimiter: str
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names and, as they are asked for, (first line, fields) of each row after them."""
    peek = getattr(getattr(file, "buffer", None), "peek", None)  # takes nothing from a pipe
    if peek is not None and peek(4)[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):  # zip, old Excel
        raise AppError(f"{path} is a spreadsheet, not text: save the sheet as CSV (UTF-8)")
    rows = _rows(file, path, delimiter)
    _, first = next(rows, (0, []))
    names = [name.strip() for name in first]
    _check_names(names, path, delimiter)
    return names, _checked(rows, path, len(names))


def _checked(
    rows: Iterator[tuple[int, list[str]]], path: str, width: int
) -> Iterator[tuple[int, list[str]]]:
    empty = 0
    for line, row in rows:
        if not row:
            empty = empty or line
            continue
        if empty:
            raise AppError(f"{path}, line {empty}: the line is empty, and rows follow after it")
        if len(row) != width:
            raise AppError(f"{path}, line {line}: {len(row)} fields, but the header has {width}")
        yield line, row


def _rows(file: TextIO, path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, fields) of every row."""
    reader = csv.reader(file, delimiter=delimiter, strict=True, skipinitialspace=True)
    line = 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise AppError(f"{path}, line {line}: not valid CSV ({error})") from None


def _check_names(names: list[str], path: str, delimiter: str) -> None:
    if not names:
        raise AppError(f"{path} is empty: a header with the column names is needed")
    for other, word in _OTHERS.items():
        if len(names) == 1 and other in names[0] and other != delimiter:
            option = "'\\t'" if other == "\t" else f"'{other}'"
            raise AppError(f"{path} is separated by {word}: pass --delimiter {option}")
    if "" in names:
        raise AppError(
            f"{path}, line 1: column {names.index('') + 1} has no name "
            "(if it is a row index, write the file without it)"
        )
    for position, name in enumerate(names):
        if name in names[:position]:
            raise AppError(f"{path}, line 1: the name '{shown(name)}' occurs twice")


def parse_number(text: str) -> float | None:
    """Return the number (NaN where missing), or None if the text is not one.

    Examples
    --------
    >>> parse_number(" 1.5e3"), parse_number("NA"), parse_number("1,5")
    (1500.0, nan, None)
    """
    plain = text.strip()
    if _NUMBER.fullmatch(plain):
        return float(plain)
    return float("nan") if plain.lower() in MISSING else None


def read_parquet(path: str) -> tuple[dict[str, Any], int]:
    """Return the columns by name (numbers, or text where they are not) and the number of rows."""
    with _reading(path) as polars:
        frame = polars.read_parquet(path, glob=False)
    return _columns(frame), frame.height


def parquet_rows(path: str) -> int:
    """Return the number of rows, which stands at the end of the file."""
    with _reading(path) as polars:
        return int(polars.scan_parquet(path, glob=False).select(polars.len()).collect().item())


def parquet_parts(path: str, size: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield (columns, number of rows) of ``size`` rows at a time; no more are in memory."""
    for start in range(0, parquet_rows(path), size):
        with _reading(path) as polars:
            frame = polars.scan_parquet(path, glob=False).slice(start, size).collect()
        yield _columns(frame), frame.height


@contextlib.contextmanager
def _reading(path: str) -> Iterator[Any]:
    """Yield polars; what it says of a file that is not a parquet file becomes a sentence."""
    polars = require("polars", "reading parquet")
    with open(path, "rb"):
        pass  # a missing or locked file gets the system's own error
    try:
        yield polars
    except polars.exceptions.PolarsError as error:
        raise AppError(f"{path} is not a parquet file: {shown(str(error), 120)}") from None


def _columns(frame: Any) -> dict[str, Any]:
    polars = require("polars", "reading parquet")
    columns: dict[str, Any] = {}
    for series in frame.iter_columns():
        if series.dtype.is_numeric() or series.dtype == polars.Boolean:
            numbers = series.cast(polars.Float64).fill_null(float("nan"))
            columns[series.name] = numbers.to_numpy()
        else:
            columns[series.name] = ["" if v is None else str(v) for v in series.to_list()]
    return columns
