"""``mercer predict``: a model file and a table become predictions with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

import mercer
from mercer.app import console
from mercer.app.errors import AppError, require
from mercer.app.fitted import nameless
from mercer.app.outputs import check_outputs, write_table
from mercer.app.tables import Table, read_table
from mercer.arrays import Array


def run(
    *,
    model: str,
    table: str,
    output: str,
    coverage: float,
    features: list[str] | None,
    allow_missing: bool,
    delimiter: str,
    quiet: bool,
) -> None:
    """Do the command; the parameters are its options."""
    check_outputs([output], [model, table])
    require("rich", "printing")
    fitted = mercer.load(model)
    data = read_table(table, delimiter)
    names = inputs_of(fitted, data, features)
    X = data.numbers(names)
    keep = data.complete(X, names, None if allow_missing else "--allow-missing")
    write_table(output, predictions(fitted, X, keep, coverage))
    if not quiet:
        empty = len(keep) - int(keep.sum())
        left = f" ({empty} left empty: values are missing)" if empty else ""
        console.say(f"{len(keep)} predictions written to {output}{left}")


def inputs_of(fitted: Any, data: Table, features: list[str] | None) -> list[str]:
    """Return the columns of ``data`` that the model wants, in the model's order."""
    known = getattr(fitted, "feature_names_in_", None)
    if features is None and known is not None:
        data.check([str(name) for name in known], "an input of the model")
        return [str(name) for name in known]
    names = features or data.names
    data.check(names, "an input")
    if len(names) != fitted.n_features_in_:
        raise AppError(
            f"the model has {fitted.n_features_in_} inputs, and {len(names)} columns are given: "
            "name them in the model's order with --features a,b,..."
        )
    return names


def predictions(fitted: Any, X: Array, keep: Array, coverage: float) -> dict[str, Array]:
    """Return the columns prediction, std, low, high for X (n, d); NaN where ``keep`` is False."""
    columns = {name: np.full(len(X), np.nan) for name in ("prediction", "std", "low", "high")}
    if not keep.any():
        return columns
    with nameless():
        mean, std = fitted.predict(X[keep], return_std=True)
        low, high = fitted.predict_interval(X[keep], coverage=coverage)
    if np.ndim(mean) != 1:
        raise AppError("this model predicts several targets at once: use it from Python")
    for name, values in zip(columns, (mean, std, low, high), strict=True):
        columns[name][keep] = values
    return columns
