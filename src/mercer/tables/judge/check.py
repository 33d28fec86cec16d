"""A table model as a statistician asks for it: its residuals checked, and its slopes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.estimators.additive.check import against_structure, of_parts
from mercer.estimators.additive.terms import LEVEL, Coefficient, coefficients
from mercer.left_out.check import FitCheck, check_of
from mercer.process.process import Posterior, Prior
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.data.columns import Column
from mercer.tables.data.frame import as_frame


def encoded_names(encoder: Any, columns: Sequence[Column]) -> list[str]:
    """Return a name for each column that the machine sees, (d,).

    A number keeps its name; a category is "town = Ulm", a gap "age is missing"; dates and texts
    become several columns, which are numbered.
    """
    used = [c.name for c in columns if c.used]
    total = max((s.stop for s in encoder.output_indices_.values()), default=0)
    names = [f"x{j}" for j in range(total)]
    for name, step, where in encoder.transformers_:
        place = encoder.output_indices_.get(name, slice(0, 0))
        given = [used[j] for j in np.atleast_1d(where)] if name != "remainder" else []
        width = place.stop - place.start
        own: list[str] = []
        if name == "numeric":
            gaps = step.named_steps["impute"].indicator_
            own = given + [f"{given[j]} is missing" for j in getattr(gaps, "features_", [])]
        elif name == "categorical":
            pairs = zip(given, step.categories_, strict=True)
            own = [f"{column} = {value}" for column, values in pairs for value in values]
        elif given:
            each = max(1, width // len(given))
            own = [f"{column}, part {i + 1}" for column in given for i in range(each)]
        if len(own) == width:
            names[place] = own
    return [shown(n) for n in names]


def check_table(model: Any, table: Any = None) -> FitCheck:
    """Return the check of the rows left out of a table model; see ``TableModel.check``."""
    frame = model.frame_ if table is None else as_frame(table)
    if frame is None:
        raise ValueError("a model file does not hold the training table: give it as check(table)")
    left, rows = model.left_out_, np.asarray(model.left_rows_, dtype=np.intp)
    if len(rows) and rows.max() >= frame.n:
        raise ValueError(
            f"the table has {frame.n} rows, and row {int(rows.max()) + 1} was left out in the fit: "
            "give the training table"
        )
    X = model.encode(frame.take(rows))
    machine, influence = model.machine_, None
    names = encoded_names(model.pipeline_.named_steps["columns"], model.columns_)
    residuals = residuals_of(left)
    if left.proba is None:
        fitted = np.asarray(machine.predict(X))
    else:
        proba = np.asarray(machine.predict_proba(X))
        fitted = proba[:, 1] if proba.shape[1] == 2 else proba.max(axis=1)
    if left.by.startswith("leave-one-out") and left.proba is None:
        influence = np.asarray(np.abs(fitted - left.mean) / left.std)
    elif left.by.startswith("leave-one-out"):
        influence = _moved(proba, left)
    report = getattr(machine, "report_", None) or {}
    loss = type(getattr(machine, "loss_", None)).__name__
    return check_of(
        residuals,
        fitted,
        X,
        names,
        left_out=True,
        normal=left.proba is None and loss == "Gaussian",
        influence=influence,
        parts=of_parts(report, len(rows)),
        **against_structure(report),
    )


def residuals_of(left: LeftOutTable) -> Array:
    """Return residuals in deviations, (n,).

    Of two classes (y - p) / sqrt(p (1 - p)) for the second one; of several, of the event that the
    predicted class is right.
    """
    if left.proba is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((left.y - left.mean) / left.std)
    if left.proba.shape[1] == 2:
        p, event = left.proba[:, 1], left.codes == 1
    else:
        p, event = left.proba.max(axis=1), left.proba.argmax(axis=1) == left.codes
    p = np.clip(p, 1e-9, 1.0 - 1e-9)
    return np.asarray((event - p) / np.sqrt(p * (1.0 - p)))


def _moved(p: Array, left: LeftOutTable) -> Array:
    """By how many deviations each row moves the probability of its class, (n,); p (n, k) is now."""
    own = (np.arange(len(p)), left.codes)
    spread = np.sqrt(np.clip(left.proba[own] * (1.0 - left.proba[own]), 1e-9, None))
    return np.asarray(np.abs(p[own] - left.proba[own]) / spread)


def slopes_of(model: Any) -> list[Coefficient]:
    """Return the slopes of a table model that has straight lines, else nothing.

    Changes of the target, or of the log odds, when a number grows by a deviation of its column, or
    for a category against the average of its column's categories.
    """
    machine = model.machine_
    posteriors = getattr(machine, "posteriors_", None) or []
    first = posteriors[0] if posteriors else None
    if not isinstance(first, Posterior) or not isinstance(first.parent, Prior):
        return []
    names = encoded_names(model.pipeline_.named_steps["columns"], model.columns_)
    terms = [f"term {i + 1}" for i in range(len(first.parent.signal.terms()))]
    # of the indicators of a column only differences are known: from the average of its categories
    base = np.zeros((len(names), len(names)))
    for start, stop in _groups(model.pipeline_.named_steps["columns"]):
        base[start:stop, start:stop] = 1.0 / (stop - start)
        names[start:stop] = [f"{n}, against the average" for n in names[start:stop]]
    found = coefficients(machine, terms, names, base)
    return [c for c in found if c.column != LEVEL]


def _groups(encoder: Any) -> list[tuple[int, int]]:
    """Return where the indicators of each categorical column begin and end."""
    step = {name: step for name, step, _ in encoder.transformers_}.get("categorical")
    if step is None:
        return []
    ends = encoder.output_indices_["categorical"].start + np.cumsum(
        [0, *(len(values) for values in step.categories_)]
    )
    return [(int(a), int(b)) for a, b in itertools.pairwise(ends)]
