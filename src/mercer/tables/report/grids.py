"""Tables of a report: the ranking of the candidates, and the rows that surprise the model most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from mercer.core.arrays import Array, Index
from mercer.core.words import shape, shown
from mercer.tables.report.page import Grid


def read(row: Any, *names: str) -> Any:
    """Return the first of the named fields that a row of a ranking has, None if it has none."""
    for name in names:
        found = row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)
        if found is not None:
            return found
    return None


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _digits(value: float) -> str:
    return f"{value:.4f}"


_WORDS = {"name": 40, "sentence": 120, "by": 160}
_HEAD = ["candidate", "what it is", "how rows were left out"]
Column = tuple[str, tuple[str, ...], Callable[[Any], str]]
_COMMON: list[Column] = [
    ("calibration error", ("calibration", "calibration_error"), _percent),
    ("log evidence", ("evidence", "log_evidence"), lambda v: f"{v:.1f}"),
    ("bound of the error", ("loo_bound", "bound", "error_bound"), _percent),
    ("seconds", ("seconds", "time"), lambda v: f"{v:.1f}"),
    ("points kept", ("size", "points"), lambda v: f"{v:.0f}"),
]


def ranking_grid(rows: Sequence[Any], quantity: bool) -> Grid:
    """Return the ranking, best first; figures that no candidate has are left out."""
    columns: list[Column] = [
        ("log density per row", ("score",), _digits),
        ("RMSE", ("error",), lambda v: shape(float(v)))
        if quantity
        else ("wrong classes", ("error",), _percent),
        *_COMMON,
    ]
    kept = [c for c in columns if any(read(row, *c[1]) is not None for row in rows)]
    lines, marked = [], None
    for i, row in enumerate(rows):
        marked = i if read(row, "chosen") else marked
        cells = []
        for _, names, text in kept:
            value = read(row, *names)
            cells.append("–" if value is None or value != value else text(value))
        words = [(read(row, name) or "", width) for name, width in _WORDS.items()]
        lines.append([*[shown(str(text), width) for text, width in words], *cells])
    caption = (
        "Candidates, the best first, by the mean log density of rows that were left out. The "
        "evidence is shown, but evidences of different losses are not comparable, and a machine "
        "whose loss is not a likelihood has none."
    )
    return Grid(caption, [*_HEAD, *[c[0] for c in kept]], lines, len(_HEAD), marked)


def why(rows: Sequence[Any]) -> list[str]:
    """Return sentences on why the chosen candidate was chosen, and how close the others came."""
    chosen = next((str(read(r, "name")) for r in rows if read(r, "chosen")), "")
    scored = [(str(read(r, "name")), read(r, "score")) for r in rows]
    known = [(name, float(s)) for name, s in scored if s is not None and s == s]
    own = dict(known).get(chosen)
    said = [
        "Every candidate was judged by rows that it had not seen: each row was predicted from the "
        "others, and the log of the density (or probability) that was given to what really "
        "happened was averaged. No rows were set aside for it."
    ]
    others = [(name, s) for name, s in known if name != chosen]
    if own is None or not others:
        return said
    nearest, score = max(others, key=lambda pair: pair[1])
    gap = own - score
    if gap < 0:
        said.append(
            f"“{shown(chosen, 40)}” was taken although “{shown(nearest, 40)}” scored {-gap:.3f} "
            "nats per row more; the remarks say why."
        )
    elif gap < 0.01:
        said.append(
            f"“{shown(chosen, 40)}” came out first, but “{shown(nearest, 40)}” is only {gap:.4f} "
            "nats per row behind: in practice they predict equally well."
        )
    else:
        said.append(
            f"“{shown(chosen, 40)}” came out first, {gap:.3f} nats per row ahead of "
            f"“{shown(nearest, 40)}”."
        )
    return said


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
