"""Tables of a report: the ranking of the candidates, and the rows that surprise the model most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from mercer.core.arrays import Index
from mercer.core.words import shape, shown
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.ranking import Row
from mercer.tables.report.page import Grid


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


_WORDS = {"name": 40, "sentence": 120, "by": 160}
_HEAD = ["candidate", "what it is", "how rows were left out"]
Column = tuple[str, str, Callable[[Any], str]]
_COMMON: list[Column] = [
    ("calibration error", "calibration", _percent),
    ("log evidence", "evidence", "{:.1f}".format),
    ("bound of the error", "loo_bound", _percent),
    ("seconds", "seconds", "{:.1f}".format),
    ("points kept", "size", "{:.0f}".format),
]


def ranking_grid(rows: Sequence[Row], quantity: bool) -> Grid:
    """Return the ranking, best first; figures that no candidate has are left out."""
    error: Column = ("RMSE", "error", shape) if quantity else ("wrong classes", "error", _percent)
    columns = [("log density per row", "score", "{:.4f}".format), error, *_COMMON]
    kept = [c for c in columns if any(getattr(row, c[1]) is not None for row in rows)]
    lines = []
    for row in rows:
        values = [(getattr(row, name), text) for _, name, text in kept]
        cells = ["–" if v is None or v != v else text(v) for v, text in values]
        words = [shown(getattr(row, name), width) for name, width in _WORDS.items()]
        lines.append([*words, *cells])
    caption = (
        "Candidates, the best first, by the mean log density of rows that were left out. The "
        "evidence is shown, but evidences of different losses are not comparable, and a machine "
        "whose loss is not a likelihood has none."
    )
    marked = next((i for i, row in enumerate(rows) if row.chosen), None)
    return Grid(caption, [*_HEAD, *[c[0] for c in kept]], lines, len(_HEAD), marked)


def why(rows: Sequence[Row]) -> list[str]:
    """Return sentences on why the chosen candidate was chosen, and how close the others came."""
    said = [
        "Every candidate was judged by rows that it had not seen: each row was predicted from the "
        "others, and the log of the density (or probability) that was given to what really "
        "happened was averaged. No rows were set aside for it."
    ]
    known = [(row.score, row) for row in rows if row.score is not None and row.score == row.score]
    chosen = [(score, row.name) for score, row in known if row.chosen]
    others = [(score, row.name) for score, row in known if not row.chosen]
    if not chosen or not others:
        return said
    (own, first), (score, second) = chosen[0], max(others, key=lambda pair: pair[0])
    gap, first, second = own - score, f"“{shown(first, 40)}”", f"“{shown(second, 40)}”"
    if gap < 0:
        reason = (
            f"{first} was taken although {second} scored {-gap:.3f} nats per row more; the remarks "
            "say why."
        )
    elif gap < 0.01:
        reason = (
            f"{first} came out first, but {second} is only {gap:.4f} nats per row behind: in "
            "practice they predict equally well."
        )
    else:
        reason = f"{first} came out first, {gap:.3f} nats per row ahead of {second}."
    return [*said, reason]


MOST = 10


def surprising(
    left: LeftOutTable, classes: Any, rows: Index, inputs: Mapping[str, Sequence[Any]]
) -> Grid:
    """Return what the rows with the least log density are, and what was expected of them.

    ``classes`` are None for a quantity; ``rows`` (n,) are the numbers of the rows in the table,
    ``inputs`` their values by column.
    """
    head = ["row", "observed", "90 % interval", "deviations off"]
    if classes is not None:
        head = ["row", "is", "most probable", "probability of what it is", "of the most probable"]
    lines = []
    for i in np.argsort(left.log_density, kind="stable")[:MOST].tolist():
        if classes is None:
            y, mean, std = float(left.y[i]), float(left.mean[i]), float(left.std[i])
            half = float(ndtri(0.95) * std)
            interval = f"{shape(mean - half)} to {shape(mean + half)}"
            said = [shape(y), interval, f"{(y - mean) / std:+.1f}"]
        else:
            own, best, p = int(left.codes[i]), int(left.proba[i].argmax()), left.proba[i]
            said = [shown(str(classes[c]), 30) for c in (own, best)]
            said += [f"{100 * p[own]:.2g} %", f"{100 * p[best]:.3g} %"]
        values = [_value(column[i]) for column in inputs.values()]
        lines.append([str(int(rows[i]) + 1), *said, *values])
    caption = "The rows with the least log density when left out; row 1 is the first row of"
    names = [shown(name, 30) for name in inputs]
    return Grid(f"{caption} the table", [*head, *names], lines, 1 if classes is None else 3)


def _value(value: Any) -> str:
    """Return a value of the table as text, a missing one as such."""
    if value is None or value != value:
        return "missing"
    return shown(shape(float(value)) if isinstance(value, float) else str(value), 40)
