"""``mercer predict``: a model file and a table become predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

import mercer
from mercer.app import console
from mercer.app.columns import predictions
from mercer.app.errors import AppError, require
from mercer.app.frames import frame_of
from mercer.app.outputs import check_outputs, write_table
from mercer.app.stream_columns import read_inputs
from mercer.app.tables import Table, read_table
from mercer.tables import TableModel


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
    if isinstance(fitted, TableModel):
        X, keep = table_inputs(fitted, data, features), np.ones(len(data.places), dtype=bool)
        write_table(output, predictions(fitted.machine_, X, keep, coverage))
        if not quiet:
            console.say(f"{len(keep)} predictions written to {output}")
        return
    names = inputs_of(fitted, data, features)
    X, gaps = read_inputs(data, names, words_of(fitted))
    keep = data.complete(gaps, names, None if allow_missing else "--allow-missing")
    write_table(output, predictions(fitted, X, keep, coverage))
    if not quiet:
        empty = len(keep) - int(keep.sum())
        left = f" ({empty} left empty: values are missing)" if empty else ""
        console.say(f"{len(keep)} predictions written to {output}{left}")


def words_of(fitted: Any) -> list[str]:
    """Return the inputs that are words, of a model that `mercer stream` has made."""
    machine = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
    return list(getattr(machine, "report_", {}).get("table", {}).get("words", []))


def table_inputs(model: TableModel, data: Table, features: list[str] | None) -> Any:
    """Return the rows of ``data`` as the model's machine sees them; gaps by the model's rules."""
    names = [str(name) for name in model.feature_names_in_]
    if features is not None and features != names:
        raise AppError("this model knows its columns by name: leave --features out")
    data.check(names, "an input of the model")
    kinds = {c.name: c.kind for c in model.columns_ if c.used}
    return model.encode(frame_of(data, names, kinds))


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
