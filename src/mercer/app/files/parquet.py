"""Reading parquet, with polars. Null is a missing value; true and false are 1 and 0."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mercer.app.terminal import AppError, require, shown


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
    """Yield polars; what it says of a file that is no parquet becomes a sentence."""
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
