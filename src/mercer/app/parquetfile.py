"""Reading parquet, with polars. Null is a missing value; true and false are 1 and 0."""

from __future__ import annotations

from typing import Any

from mercer.app.errors import AppError, require, shown


def read_parquet(path: str) -> tuple[dict[str, Any], int]:
    """Return the columns by name (numbers, or text where they are not) and the number of rows."""
    polars = require("polars", "reading parquet")
    with open(path, "rb"):
        pass  # a missing or locked file gets the system's own error
    try:
        frame = polars.read_parquet(path, glob=False)
    except polars.exceptions.PolarsError as error:
        raise AppError(f"{path} is not a parquet file: {shown(str(error), 120)}") from None
    columns: dict[str, Any] = {}
    for series in frame.iter_columns():
        if series.dtype.is_numeric() or series.dtype == polars.Boolean:
            numbers = series.cast(polars.Float64).fill_null(float("nan"))
            columns[series.name] = numbers.to_numpy()
        else:
            columns[series.name] = ["" if v is None else str(v) for v in series.to_list()]
    return columns, frame.height
