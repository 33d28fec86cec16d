"""Rows that the model finds most surprising: to be looked at for errors, or for what it misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from mercer.core.arrays import Array, Index
from mercer.core.words import shape, shown
from mercer.tables.report.page import Grid

MOST = 10
_CAPTION = "The rows with the least log density when left out; row 1 is the first row of"


def surprising(log_density: Array, most: int = MOST) -> Index:
    """Return the positions of the rows with the least log density (n,), the least first."""
    return np.argsort(log_density, kind="stable")[:most]


def surprising_quantities(
    y: Array,
    mean: Array,
    std: Array,
    log_density: Array,
    rows: Index,
    inputs: Mapping[str, Sequence[Any]],
    of: str = "the table",
) -> Grid:
    """Return observed and expected values of the most surprising rows.

    ``rows`` (n,) are the numbers of the rows in ``of``, ``inputs`` their values by column.
    """
    lines = []
    for i in surprising(log_density).tolist():
        half = float(ndtri(0.95) * std[i])
        expected = f"{shape(float(mean[i]) - half)} to {shape(float(mean[i]) + half)}"
        far = f"{(y[i] - mean[i]) / std[i]:+.1f}"
        line = [str(int(rows[i]) + 1), shape(float(y[i])), expected, far]
        lines.append(line + [_value(column[i]) for column in inputs.values()])
    head = ["row", "observed", "90 % interval", "deviations off"]
    return Grid(f"{_CAPTION} {of}", [*head, *[shown(name, 30) for name in inputs]], lines)


def surprising_classes(
    codes: Index,
    proba: Array,
    classes: Any,
    log_density: Array,
    rows: Index,
    inputs: Mapping[str, Sequence[Any]],
    of: str = "the table",
) -> Grid:
    """Return observed and expected classes of the most surprising rows."""
    lines = []
    for i in surprising(log_density).tolist():
        best = int(proba[i].argmax())
        line = [
            str(int(rows[i]) + 1),
            shown(str(classes[codes[i]]), 30),
            shown(str(classes[best]), 30),
            f"{100 * proba[i, codes[i]]:.2g} %",
            f"{100 * proba[i, best]:.3g} %",
        ]
        lines.append(line + [_value(column[i]) for column in inputs.values()])
    head = ["row", "is", "most probable", "probability of what it is", "of the most probable"]
    names = [shown(name, 30) for name in inputs]
    return Grid(f"{_CAPTION} {of}", [*head, *names], lines, words=3)


def _value(value: Any) -> str:
    """Return a value of the table as text, a missing one as such."""
    if value is None or value != value:
        return "missing"
    return shown(shape(float(value)) if isinstance(value, float) else str(value), 40)
