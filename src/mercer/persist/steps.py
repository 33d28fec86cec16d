"""Fitted preprocessors of a model file: their attributes belong together, and they work on a row.

What scikit-learn keeps in a fitted preprocessor is its own affair and differs between versions, so
that no record can declare all of it. Sizes, numbers and nesting are checked; then the step is asked
to transform rows that are made of what it knows itself: its categories, its fill values, zeros.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.core.errors import ModelFileError
from mercer.core.kinds import check_size

# attributes that are one value, or one row of values, for each input column
BY_COLUMN = {
    *("mean_", "var_", "scale_", "center_", "statistics_", "max_abs_", "min_", "data_min_"),
    *("data_max_", "data_range_", "lambdas_", "idf_", "categories_", "_n_features_outs"),
}
POSITIVE = ("scale_", "n_features_in_", "n_quantiles_", "n_components_")
TYPES: dict[str, type] = {"sparse_output_": bool, "transformers_": list, "vocabulary_": dict}
WIDEST = 100_000  # columns of a row that is made up: a file may not ask for more room


def check_step(step: Any) -> None:
    """Refuse a fitted step of scikit-learn that cannot have come out of a fit."""
    d = getattr(step, "n_features_in_", None)
    if d is not None and (type(d) is not int or d < 0):
        raise ModelFileError(f"the number of columns of a {type(step).__name__} is {d!r:.40}")
    for name, value in vars(step).items():
        _check_attribute(step, name, value, d)
    fine = [type(getattr(step, name, kind())) is kind for name, kind in TYPES.items()]
    if all(fine):  # name, step and columns each
        fine += [type(t) is tuple and len(t) == 3 for t in getattr(step, "transformers_", ())]
    if (hasattr(step, "transformers_") and not hasattr(step, "sparse_output_")) or not all(fine):
        raise ModelFileError(f"an attribute of a {type(step).__name__} is missing or of no use")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # rows without column names, unknown categories
        try:
            for rows in rows_for(step):
                step.transform(rows)
        except (ValueError, ImportError):
            pass  # what it refuses in words it may refuse; pandas may not be installed
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ModelFileError(
                f"a {type(step).__name__} of its pipeline fails ({what})"
            ) from error


def _check_attribute(step: Any, name: str, value: Any, d: int | None) -> None:
    place = f"{name} of a {type(step).__name__}"
    axes = value.ndim if isinstance(value, np.ndarray) else isinstance(value, list)
    listed = axes > 0 and len(value) == d
    if name in BY_COLUMN and not (value is None or d is None or listed):
        raise ModelFileError(f"{place} does not have a value for each of its {d} columns")
    if name in POSITIVE and value is not None and np.any(np.asarray(value) <= 0):
        raise ModelFileError(f"{place} must be positive")
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        check_size(value[~np.isnan(value)], place)  # a column without any value has no statistics


def rows_for(step: Any) -> list[Any]:
    """Return inputs of one row each for a fitted step; none for what consists of steps."""
    if hasattr(step, "vocabulary_"):
        return [["", "a text", *list(step.vocabulary_)[:1]]]
    d = getattr(step, "n_features_in_", WIDEST + 1)
    if d > WIDEST or hasattr(step, "transformers_"):
        return []
    if hasattr(step, "categories_"):
        first = np.empty((1, d), dtype=object)
        first[0] = [known[0] if len(known) else None for known in step.categories_]
        return [first]
    zeros = np.zeros((1, d))
    kind = getattr(step, "_fit_dtype", None)
    return [zeros.astype(kind) if isinstance(kind, np.dtype) and kind.kind == "O" else zeros]
