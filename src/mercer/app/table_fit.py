"""``mercer fit`` on any table: kinds of columns, candidates, ranking, the best refitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.app.errors import AppError, quoted, shown
from mercer.app.fitted import Progress
from mercer.app.frames import frame_of
from mercer.app.tables import Table
from mercer.tables import TableModel, fit


def inputs_of(
    data: Table, target: str, features: list[str] | None, weights: str | None = None
) -> list[str]:
    """Return the names of the inputs, or refuse what the table does not have."""
    data.check([target], "the target")
    if weights is not None:
        data.check([weights], "the weights")
    names = features or [n for n in data.names if n not in (target, weights)]
    data.check(names, "an input")
    for name in names:
        if name in (target, weights) or names.count(name) > 1:
            raise AppError(f"'{shown(name)}' cannot be an input twice, nor target or weight too")
    if not names:
        raise AppError(
            f"{data.path} has no column besides {quoted([target])}: nothing to learn from"
        )
    return names


def fit_frame(
    data: Table,
    target: str,
    features: list[str] | None,
    drop_missing: bool,
    progress: Progress | None,
    weights: str | None = None,
    **options: Any,
) -> TableModel:
    """Fit the table; a person's interrupt is an interrupt: nothing is kept.

    ``options`` are those of :func:`mercer.fit`: kind, time_budget, candidates, seed.
    """
    names = inputs_of(data, target, features, weights)
    every = [*names, target] if weights in (None, target) else [*names, target, weights]
    frame = frame_of(data, every)
    note = None
    if weights is not None and frame.kind(weights) == "number" and not drop_missing:
        data.complete(data.numbers([weights]), [weights], "--drop-missing")  # says which line
    if drop_missing:
        absent = np.any([frame.missing(name) for name in every], axis=0)
        if absent.all():
            raise AppError(f"{data.path}: every row has a missing value")
        if absent.any():
            frame = frame.take(~absent)
            note = f"{int(absent.sum())} rows with missing values were left out"
    model = fit(
        frame,
        target,
        features=names if features else None,
        weights=weights,
        progress=progress or False,
        **options,
    )
    if any(note.startswith("interrupted") for note in model.notes_):
        raise KeyboardInterrupt
    if note is not None:
        model.notes_.insert(0, note)
    return model
