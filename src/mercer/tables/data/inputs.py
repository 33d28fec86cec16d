"""Inputs: what stands for X in ``fit(X, y)``, a table or an array, as the columns of a Frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from mercer.core.arrays import is_sparse, of_numpy
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
