"""Reading tables from files: CSV by strict rules, and parquet.

The rules of CSV: UTF-8 (a byte order mark is accepted); the first line is the header; every name
is there once and is not empty; every row has as many fields as the header; fields may be quoted
with double quotes; blanks around a field do not count; empty lines are skipped. A first column
without a name is the row index of whatever wrote the file: it is left out, and that is said. A
missing value is an empty field or one of NA, N/A, NaN, null, None, in any case. Numbers are written
with a decimal point, without separators for thousands. The text may be compressed by gzip.

Parquet is read with polars: null is a missing value; true and false are 1 and 0.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np

from mercer.app.terminal import AppError, require, shown
from mercer.core.arrays import Array

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
STDIN = "-"
_BOOK = "is a spreadsheet, not text: save the sheet as CSV (UTF-8)"
_JSON = "is JSON, not CSV: convert it, as with pandas.read_json(...).to_csv(..., index=False)"
_PACKED = "is compressed in a way that is not read here: unpack it first, or compress it with gzip"
_FOREIGN = {
    b"PK\x03\x04": _BOOK, b"\xd0\xcf\x11\xe0": _BOOK, b"BZh": _PACKED, b"\xfd7zXZ": _PACKED,
    b"\x28\xb5\x2f\xfd": _PACKED, b"PAR1": "is parquet, not CSV: let its name end in .parquet",
    b'{"': _JSON, b"{\n": _JSON, b"[{": _JSON, b"[[": _JSON, b"[\n": _JSON,
}  # by how the file begins  # fmt: skip


def is_parquet(path: str) -> bool:
    """Whether a file is parquet, by its suffix."""
    return path.lower().endswith((".parquet", ".pq"))


def label_of_path(path: str) -> str:
    """Return what a file is called in messages."""
    return "standard input" if path == STDIN else path


def read_csv(path: str, delimiter: str = ",") -> tuple[CsvRows, list[list[str]], list[int]]:
    """Return the header, the columns as text, and the line in the file where each row begins."""
    with opened(path) as file:
        head = open_rows(file, label_of_path(path), delimiter)
        found = list(head.rows)
    cells = zip(*(row for _, row in found), strict=True)
    columns = [list(c) for c in cells] or [[] for _ in head.names]
    return head, columns, [line for line, _ in found]


@contextlib.contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """Yield the text of a file, or of standard input; what it cannot be read for is a sentence."""
    label = label_of_path(path)
    with contextlib.ExitStack() as stack:
        source: Any = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))
        if _begins(source).startswith(b"\x1f\x8b"):
            source = gzip.GzipFile(fileobj=source)
        text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
        stack.callback(text.detach)  # standard input stays open: it is not ours
        try:
            yield text
        except UnicodeDecodeError as error:
            raise AppError(
                f"{label} is not UTF-8 text (byte {error.start} is "
                f"{error.object[error.start]:#04x}): save it again as UTF-8 (in a spreadsheet: "
                '"CSV UTF-8")'
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise AppError(f"{label} is damaged: the compressed text cannot be unpacked") from None


def _begins(source: Any) -> bytes:
    """Return the first bytes of a source; a pipe loses none by it."""
    return bytes(source.peek(6)[:6]) if hasattr(source, "peek") else b""


class CsvRows(NamedTuple):
    """A CSV that is being read: its header, and the rows as they are asked for."""

    names: list[str]
    rows: Iterator[tuple[int, list[str]]]  # (first line, fields) of each
    notes: list[str]  # what a reader should know


def open_rows(file: TextIO, path: str, delimiter: str) -> CsvRows:
    """Read the header of a CSV."""
    begins = _begins(getattr(file, "buffer", None))
    for start, sentence in _FOREIGN.items():
        if begins.startswith(start):
            raise AppError(f"{path} {sentence}")
    rows = _rows(file, path, delimiter)
    _, first = next(((line, row) for line, row in rows if any(row)), (0, []))
    names = [name.strip() for name in first]
    index = len(names) > 1 and not names[0]
    _check_names(names[index:], path, delimiter, 1 + index)
    notes = [f"the first column of {path} has no name: it was left out as a row index"]
    checked = _checked(rows, path, len(names), int(index))
    return CsvRows(names[index:], checked, notes if index else [])


def _checked(
    rows: Iterator[tuple[int, list[str]]], path: str, width: int, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    empty = 0
    for line, row in rows:
        if not row or (width > 1 and row == [""]):
            empty = empty or line
            continue
        if empty and width == 1:  # a row of one missing value, or no row?
            raise AppError(
                f"{path}, line {empty}: the line is empty, and rows follow after it; where the "
                "value of a single column is missing, write NA"
            )
        if len(row) != width:
            raise AppError(f"{path}, line {line}: {len(row)} fields, but the header has {width}")
        yield line, row[skipped:]


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


def _check_names(names: list[str], path: str, delimiter: str, first: int) -> None:
    if not names:
        raise AppError(f"{path} is empty: a header with the column names is needed")
    for other, word in _OTHERS.items():
        if len(names) == 1 and other in names[0] and other != delimiter:
            option = "'\\t'" if other == "\t" else f"'{other}'"
            raise AppError(f"{path} is separated by {word}: pass --delimiter {option}")
    if "" in names:
        raise AppError(f"{path}, line 1: column {names.index('') + first} has no name")
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


def parse_plain(texts: Sequence[str]) -> Array | None:
    """Return the numbers (n,) of texts that all are some, at once; None: they need a closer look.

    What Python takes for a number and :func:`parse_number` does not needs one, and so do gaps.

    Examples
    --------
    >>> parse_plain(["1.5", " 2e3 "]), parse_plain(["1_0"]), parse_plain(["1", "NA"])
    (array([1.5e+00, 2.0e+03]), None, None)
    """
    every = "".join(texts)
    if "_" in every or not every.isascii():
        return None
    try:
        numbers = np.array(list(map(float, texts)))
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


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
