"""Rows and columns of a table, whatever holds it: array, data frame, or columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from mercer.core.arrays import Index


def by_columns(table: Any) -> bool:
    """Whether the table is a record with ``columns`` by name, ``n`` and ``take``."""
    return isinstance(getattr(table, "columns", None), Mapping)


def count_rows(table: Any) -> int:
    """Return the number of rows."""
    return int(table.n) if by_columns(table) else int(np.shape(table)[0])


def take_rows(table: Any, rows: Index) -> Any:
    """Return these rows of the table, in this order."""
    return table.take(rows) if by_columns(table) else _safe_indexing(table, rows)


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a frame, or "column 0", ... of an array.

    Examples
    --------
    >>> column_names([[1.0, 2.0]])
    ['column 0', 'column 1']
    """
    names = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None:
        return [f"column {j}" for j in range(np.shape(table)[1])]
    return [str(name) for name in names]


def with_column(table: Any, j: int, rows: Index) -> Any:
    """Return a copy of the table whose column j holds its own values of ``rows``."""
    if by_columns(table):
        name = list(table.columns)[j]
        return replace(table, columns={**table.columns, name: table.columns[name][rows]})
    if hasattr(table, "iloc"):  # pandas aligns by its index: the values take the old places
        taken = table.iloc[rows, j].set_axis(table.index)
        return table.assign(**{table.columns[j]: taken})
    if hasattr(table, "with_columns"):  # polars
        return table.with_columns(table[:, j][rows.tolist()])
    if hasattr(table, "set_column"):  # pyarrow
        return table.set_column(j, table.column_names[j], table.column(j).take(rows.tolist()))
    moved = np.array(table, copy=True)
    moved[:, j] = moved[rows, j]
    return moved
