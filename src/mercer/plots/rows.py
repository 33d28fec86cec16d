"""Rows and columns of a table, whatever holds it; the steps in which a quantity is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from mercer.core.arrays import Array, Index


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


DIGITS = 6  # significant digits of a recorded quantity at most; beyond, it is continuous
ROUNDING = 1e-7  # relative, of values that were kept in single precision


def step_of(y: Array) -> float:
    """Return the largest step of which all differences in y (n,) are multiples; 0 if none is seen.

    Examples
    --------
    >>> import numpy as np
    >>> step_of(np.array([3.0, 5.0, 8.0]))
    1.0
    >>> step_of(np.array([0.5, 1.25, 3.0]))
    0.25
    >>> step_of(np.sqrt(np.arange(9.0)))
    0.0
    """
    y = np.ravel(np.asarray(y, dtype=np.float64))
    size = float(np.max(np.abs(y), initial=0.0))
    if not 0.0 < size < np.inf:
        return 0.0
    unit = 10.0 ** (int(np.floor(np.log10(size))) - DIGITS + 1)
    counts = np.round(y / unit)
    if np.any(np.abs(y / unit - counts) > ROUNDING * np.maximum(10.0, np.abs(counts))):
        return 0.0
    whole = counts.astype(np.int64)
    return float(np.gcd.reduce(whole - whole[0]) * unit)


def recorded(log_density: Array, y: Array, every: Array | None = None) -> Array:
    """Return log densities (n,) of y (n,), none above that of all mass on one step.

    A value recorded in steps of h stands for an interval of that width, whose probability is at
    most one: log p <= -log h. Otherwise a model that repeats values exactly could score without
    bound, and the more the closer to zero its noise. The step is that of ``every`` value of the
    quantity, (m,); default: y.

    Examples
    --------
    >>> import numpy as np
    >>> recorded(np.array([7.0, -1.0]), np.array([3.0, 3.5]))
    array([ 0.69314718, -1.        ])
    """
    step = step_of(y if every is None else every)
    return np.asarray(log_density if step == 0.0 else np.minimum(log_density, -np.log(step)))


def normal_log_density(y: Array, mean: Any, std: Any) -> Array:
    """Return log N(y_i; mean_i, std_i^2), shape (n,)."""
    z = (y - mean) / std
    return np.asarray(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def note_of_step(log_density: Array, y: Array) -> str:
    """Return what a reader should know of a mean of :func:`recorded`, if any density was cut.

    Examples
    --------
    >>> import numpy as np
    >>> note_of_step(np.array([7.0, -1.0]), np.array([3.0, 3.5]))
    'none counts above 1/0.5, since the target is written down in steps of 0.5'
    >>> note_of_step(np.array([0.0, -1.0]), np.array([3.0, 3.5]))
    ''
    """
    step = step_of(y)
    if step == 0.0 or not np.any(log_density > -np.log(step)):
        return ""
    return f"none counts above 1/{step:g}, since the target is written down in steps of {step:g}"
