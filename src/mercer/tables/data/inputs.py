"""Inputs: what stands for X in ``fit(X, y)``, a table or an array, as the columns of a Frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from mercer.core.arrays import is_sparse, of_numpy
from mercer.core.words import did_you_mean, shown
from mercer.tables.data.frame import Frame, as_frame


def inputs_of(model: Any, X: Any, reset: bool = False) -> Frame:
    """Return X (n, d) as columns, by scikit-learn's rules; ``reset`` begins a fit.

    Those of an array, and of a table without names, are x0, x1, ... ``model`` keeps, or compares,
    how many there are and their names; mappings and pyarrow tables are taken by name alone.
    """
    if hasattr(X, "lazy") and hasattr(X, "collect"):  # of polars
        X = X.collect()
    if by_name(X):
        frame = as_frame(X)
        if reset:
            model.feature_names_in_ = np.array(frame.names, dtype=object)
            model.n_features_in_ = len(frame.names)
        return frame
    if not hasattr(X, "columns"):
        X = of_numpy(X, "X")
        X = np.array(X, dtype=object) if isinstance(X, (list, tuple)) else X
        X = check_array(X, dtype=None, ensure_all_finite=False, estimator=model, input_name="X")
    validate_data(model, X, reset=reset, skip_check_array=True)
    frame, names = as_frame(X), getattr(model, "feature_names_in_", None)
    wanted = [f"x{j}" for j in range(len(frame.names))] if names is None else list(names)
    renamed = dict(zip(frame.names, map(str, wanted), strict=True))
    columns = {renamed[name]: column for name, column in frame.columns.items()}
    return Frame(columns, frozenset(renamed[name] for name in frame.dates), frame.n)


def by_name(X: Any) -> bool:
    """Whether X is a table whose columns have no places, as far as scikit-learn knows."""
    if isinstance(X, (Mapping, Frame)):
        return not is_sparse(X)  # some are mappings, too
    structured = getattr(getattr(X, "dtype", None), "names", None) is not None
    return structured or (hasattr(X, "column_names") and hasattr(X, "to_pydict"))


def name_of_target(y: Any, frame: Frame) -> str:
    """Return the name of y, "y" if it has none, and one that no input has.

    Examples
    --------
    >>> name_of_target([1.0], as_frame({"y": [2.0]}))
    'target'
    """
    own = getattr(y, "name", None)
    names = [*([own] if isinstance(own, str) and own else []), "y", "target"]
    free = [name for name in names if name not in frame.columns]
    if free:
        return free[0]
    return next(name for j in range(frame.n) if (name := f"target {j}") not in frame.columns)


def beside(frame: Frame, more: Mapping[str, Any]) -> Frame:
    """Return the frame with more columns, values (n,) by name."""
    others = as_frame(more)
    columns, dates = {**frame.columns, **others.columns}, frame.dates | others.dates
    return replace(frame, columns=columns, dates=dates)


def with_groups(frame: Frame, groups: Any) -> tuple[Frame, str]:
    """Return the frame with labels (n,) of any sort as one more column, and its name."""
    check_consistent_length(np.empty(frame.n), groups)
    names = ("groups", *(f"groups {j}" for j in range(len(frame.names))))
    name = next(name for name in names if name not in frame.columns)
    return beside(frame, {name: groups}), name


def column_of(frame: Frame, column: Any) -> str | None:
    """Return the name of a column that is given by its name or its number; None of none.

    Examples
    --------
    >>> table = as_frame({"day": [1.0, 2.0], "size": [3.0, 4.0]})
    >>> column_of(table, 1), column_of(table, "day")
    ('size', 'day')
    """
    if column is None or (isinstance(column, str) and column in frame.columns):
        return column
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
        if not 0 <= column < len(frame.names):
            raise ValueError(
                f"there is no column {column}: the table has {len(frame.names)}, counted from 0"
            )
        return frame.names[int(column)]
    hint = did_you_mean(str(column), frame.names)
    raise ValueError(f"the table has no column '{shown(str(column))}'{'; ' if hint else ''}{hint}")
